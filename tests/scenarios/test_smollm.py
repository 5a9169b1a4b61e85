"""What a real small model said, said again under supervision: recorded loops end within the caps.

The recorded runs come from SmolLM2-135M-Instruct in a bare loop with six tools. Each is replayed as the model: its
replies in order, the last one for ever; the tools answer what they answered then.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from stage import Ran, ended, play

from watchkeeper import Agent, Limits, ModelError, OpenAIModel, Supervisor, Tool, ToolOutput
from watchkeeper.messages import CallEnded, CallStarted, ModelReplied, Usage
from watchkeeper.model import Request
from watchkeeper.models.failure import answered
from watchkeeper.testing import CallTools, ChatServer, Fault, Say, ScriptedModel, Step, say

Row = dict[str, Any]
SUITES = {"react6": 20, "react6-onecall": 10, "react12-hot": 3, "react40": 4}
"""Recorded runs by kind of loop: its cap of steps is in the name."""
PARAMETERS = {
    "list_dir": "path",
    "read_file": "path",
    "get_weather": "city",
    "search": "query",
    "calculator": "expression",
    "finish": "answer",
}
MAX_IN_A_ROW = 5
"""An equal call with an equal result is executed so often in a row: at the fifth it is blocked."""


@pytest.fixture(scope="session")
def recorded(shared_data: Path) -> Mapping[str, list[list[Row]]]:
    """By suite its runs, each the rows of it in the order of their steps."""
    runs: dict[tuple[str, float, str], list[Row]] = defaultdict(list)
    with gzip.open(shared_data / "corpora" / "smollm2_requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if (row.get("tag") or "").startswith("react"):
                runs[row["tag"], row["temp"], row["task"]].append(row)
    suites: dict[str, list[list[Row]]] = defaultdict(list)
    for (tag, _, _), rows in sorted(runs.items()):
        suites[tag].append(sorted(rows, key=lambda row: row["step"]))
    return suites


def made_calls(row: Row) -> list[tuple[str, str, str]]:
    """Id, tool and raw arguments of each call of a recorded reply."""
    message = row["response"]["choices"][0]["message"] if row["http"] == 200 else {}
    calls = message.get("tool_calls") or []
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]


class Tools:
    """The six tools, answering what they answered then: by tool and arguments, in order, the last answer again."""

    def __init__(self, rows: list[Row]) -> None:
        answers = {
            message["tool_call_id"]: message["content"]
            for row in rows
            for message in row["request"]["messages"]
            if message["role"] == "tool"
        }
        self.results: dict[tuple[str, str], deque[str]] = defaultdict(deque)
        for row in rows:
            for call_id, name, raw in made_calls(row):
                if call_id in answers:
                    self.results[name, json.loads(raw)[PARAMETERS[name]]].append(answers[call_id])
        self.executed: Counter[tuple[str, str]] = Counter()
        self.tools = [self._tool(name, parameter) for name, parameter in PARAMETERS.items()]

    def _tool(self, name: str, parameter: str) -> Tool:
        def answer(value: str) -> ToolOutput | str:
            self.executed[name, value] += 1
            kept = self.results[name, value]
            text = kept.popleft() if len(kept) > 1 else kept[0] if kept else "ERROR: nobody knows"
            return ToolOutput(text, error="error") if text.startswith("ERROR") else text

        scope: dict[str, Any] = {"_said_then": answer, "ToolOutput": ToolOutput}
        # The parameter's name is what the model used.
        exec(f"async def {name}({parameter}: str) -> ToolOutput | str:\n    return _said_then({parameter})", scope)
        return Tool(scope[name], effect="reads")


def step(row: Row) -> Step:
    if row["http"] != 200:
        return Step(error=answered(row["http"], row["response"], {}, who="the server", now=0))
    choice, usage = row["response"]["choices"][0], row["response"]["usage"]
    calls = made_calls(row)
    return Step(
        text=choice["message"].get("content") or "",
        calls=tuple((name, raw) for _, name, raw in calls),
        ids=tuple(call_id for call_id, _, _ in calls),
        finish=choice["finish_reason"],
        usage=Usage(usage["prompt_tokens"], usage["completion_tokens"]),
    )


def again(rows: list[Row]) -> ScriptedModel:
    """The replies in order; after the last one it says that again, for ever, unless it was an answer."""
    steps = [step(row) for row in rows]

    def script(request: Request, n: int) -> Step:
        return steps[min(n, len(steps)) - 1]

    return ScriptedModel(script)


def check(ran: Ran, tools: Tools) -> None:
    status, reason = ran.end
    assert (status, reason) in {
        ("completed", "answer"),
        ("stopped", "loop"),
        ("stopped", "length"),
        ("stopped", "turns"),
        ("stopped", "context"),
        ("stopped", "bad_arguments"),
        ("stopped", "unparsed_call"),
    }
    assert ran.outcome.turns <= 23
    assert len(ran.of(CallStarted)) == sum(tools.executed.values()) == ran.executed
    streak: tuple[Any, int] = (None, 0)
    for fact in ran.of(CallEnded):  # one call a turn
        pair = fact.key, fact.result.content
        streak = (pair, streak[1] + 1 if pair == streak[0] else 1)
        assert streak[1] <= MAX_IN_A_ROW
    if reason == "loop":
        assert ran.outcome.verdict is not None


@pytest.mark.anyio
@pytest.mark.virtual_time
@pytest.mark.parametrize("suite", SUITES)
async def test_every_recorded_run_ends_within_the_caps(suite: str, recorded: Mapping[str, list[list[Row]]]) -> None:
    assert len(recorded[suite]) == SUITES[suite]
    reasons: Counter[str] = Counter()
    calls = executed = 0
    for rows in recorded[suite]:
        tools, model = Tools(rows), again(rows)
        ran = await play(Agent(model, tools.tools, instructions="You are an agent."), rows[0].get("question") or "task")
        check(ran, tools)
        reasons[ran.end[1]] += 1
        calls += sum(len(made_calls(row)) for row in rows)
        executed += ran.executed
    if suite == "react40":  # each of them ran until its context was full
        assert executed < calls / 2
        assert reasons["context"] == 0
    if suite == "react6":
        assert reasons["loop"] + reasons["length"] >= 15
    if suite == "react6-onecall":
        assert reasons["answer"] >= 8


@pytest.mark.anyio
async def test_the_same_over_the_wire(recorded: Mapping[str, list[list[Row]]]) -> None:
    """Through the real client against a strict server: it would reject a conversation that is not valid."""
    for rows in recorded["react40"]:
        tools, turns = Tools(rows), [turn(row) for row in rows]

        def script(body: dict[str, Any], n: int, turns: list[Any] = turns) -> Any:
            return turns[min(n, len(turns)) - 1]

        async with ChatServer(script) as server, Supervisor(plugged=False, monitor=False) as supervisor:
            agent = Agent(OpenAIModel("smollm2", base_url=server.base_url), tools.tools, limits=Limits(seconds=60))
            run = await supervisor.start(agent, rows[0].get("question") or "task")
            with anyio.fail_after(15):
                await run.wait()
            ran = await ended(run)
        check(ran, tools)
        assert [received.rejected for received in server.requests] == [None] * len(server.requests)
        assert len(ran.of(ModelReplied)) <= len(server.requests)
        assert ran.end[1] in ("loop", "length")


def turn(row: Row) -> Any:
    if row["http"] != 200:
        return Fault(row["http"], body=row["response"])
    choice = row["response"]["choices"][0]
    text, calls = choice["message"].get("content") or "", made_calls(row)
    if not calls:
        return Say(text, finish=choice["finish_reason"], usage=row["response"]["usage"])
    asked = tuple((name, raw) for _, name, raw in calls)
    return CallTools(*asked, text=text, finish=choice["finish_reason"], usage=row["response"]["usage"])


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_context_that_overflows_ends_the_run_with_its_sizes(recorded: Mapping[str, list[list[Row]]]) -> None:
    overflow = next(row for rows in recorded["react40"] for row in rows if row["http"] != 200)
    error = step(overflow).error
    assert isinstance(error, ModelError)
    ran = await play(Agent(ScriptedModel([Step(error=error), say("never")])))
    assert ran.end == ("stopped", "context")
    assert "4116" in ran.outcome.message
    assert "4096" in ran.outcome.message
