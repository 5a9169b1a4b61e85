"""Loops, polls and the limit of turns: what ends a run that would not end by itself."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import pytest
from stage import Ran, ended, play, stage, stubborn, varying

from support import scripted
from watchkeeper import Agent, Limits, Run, Supervisor, ToolError, ToolOutput, tool
from watchkeeper.detect.judge import Judge
from watchkeeper.messages import ModelRequested, Nudged, Reminded, RunEnded
from watchkeeper.profiles import PROFILES
from watchkeeper.testing import call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CLIMB = [("nudge", 3), ("block", 5), ("stop", 8)]
"""What the watchdog does about an equal call with an equal result, and after how many of them."""


@tool
async def delete(path: str) -> str:
    """Delete a file."""
    raise FileNotFoundError(2, "No such file or directory", path)


@tool(effect="reads")
async def find(name: str, deep: bool = False) -> list[str]:
    """Find files; there are none."""
    return []


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


async def test_loop_01_equal_call_equal_error() -> None:
    ran = await play(Agent(stubborn(("delete", {"path": "teams/data.txt/"})), [delete]))
    assert ran.steps() == CLIMB
    assert ran.executed == 5
    assert ran.end == ("stopped", "loop")
    assert ran.kinds == ["failed"] * 5 + ["refused"] * 3
    assert len(ran.seen) == 8
    assert ran.outcome.usage.total == 20 * 8
    assert ran.outcome.turns == 8
    assert "delete" in ran.of(Nudged)[0].text


async def test_loop_02_equal_call_equal_empty_success() -> None:
    ran = await play(Agent(stubborn(("find", {"name": "x"})), [find]))
    assert ran.steps() == CLIMB
    assert ran.executed == 5
    assert ran.end == ("stopped", "loop")
    assert ran.outcome.evidence == ()


async def test_loop_02_many_such_calls_in_one_turn_are_one_word() -> None:
    names = [("find", {"name": f"x{n}"}) for n in range(20)]
    ran = await play(Agent(stubborn(*names), [find]))
    assert ran.steps() == CLIMB
    assert ran.executed == 20 * 5
    assert "19 other calls" in ran.of(Nudged)[0].text
    assert len(ran.of(Nudged)) == 2


async def test_loop_04_a_cycle_of_three_with_failures_in_it() -> None:
    @tool(effect="reads")
    async def read(path: str) -> str:
        return "x = 1"

    @tool
    async def edit(path: str, old: str) -> str:
        raise ToolError("old is not found")

    @tool
    async def check() -> ToolOutput:
        return ToolOutput("1 failed", error="exit_1")

    lap = [("read", {"path": "f"}), ("edit", {"path": "f", "old": "y"}), ("check", {})]
    model = varying(lambda n: [lap[(n - 1) % 3]])
    ran = await play(Agent(model, [read, edit, check], limits=Limits(max_turns=60)))
    assert ran.steps("cycle") == [("nudge", 9), ("block", 12), ("stop", 15)]
    assert ran.end == ("stopped", "loop")
    assert ran.executed <= 12
    assert ran.outcome.verdict is not None
    assert ran.outcome.verdict.finding.pattern == "cycle of 3"


async def test_loop_05_a_flag_that_is_declared_cosmetic_resets_nothing() -> None:
    @tool(effect="reads", loop_key=["path"])
    async def read(path: str, numbered: bool = False) -> str:
        return "x = 1"

    model = varying(lambda n: [("read", {"path": "f", "numbered": (n - 1) % 4 > 1})])
    ran = await play(Agent(model, [read]))
    assert ran.steps() == CLIMB
    assert ran.end == ("stopped", "loop")


async def test_ndup_02_rewordings_of_one_question_are_one_call_where_the_tool_says_so() -> None:
    @tool(effect="reads", loop_key=["scope"])
    async def ask_index(query: str, scope: str, cursor: int = 0) -> str:
        return "3 hits, as before"

    @tool(effect="reads")
    async def ask_plainly(query: str, scope: str, cursor: int = 0) -> str:
        return "3 hits, as before"

    def reworded(name: str) -> Any:
        return varying(lambda n: [(name, {"query": f"wording {n}", "scope": "docs", "cursor": n})])

    told = await play(Agent(reworded("ask_index"), [ask_index]))
    assert told.steps() == CLIMB
    assert told.executed == 5
    # Nothing is guessed from the names of fields.
    assert (await play(Agent(reworded("ask_plainly"), [ask_plainly]))).steps() == []


async def test_ndup_01_a_word_that_is_another_one_each_time() -> None:
    told = "build: nothing changed since 4c1f2ab\ntargets: 0 of 14 rebuilt\nsee the log for what was looked at"

    @tool
    async def shell(command: str) -> str:
        return told

    words = [f"{sign}{word}" for word in ("alpha", "bravo", "delta", "golf", "india", "kilo") for sign in "abcdefghij"]
    asked = varying(lambda n: [("shell", {"command": f"echo {words[n % len(words)]} && check"})])
    ran = await play(Agent(asked, [shell], limits=Limits(max_turns=80)))
    nudge, *_, stop = ran.steps()
    assert (nudge[0], stop[0], ran.end) == ("nudge", "stop", ("stopped", "loop"))
    assert nudge[1] <= 15
    assert stop[1] <= 50
    assert ran.steps("equal") == []


def test_loop_07_asking_how_a_judge_stands_changes_nothing() -> None:
    judge = Judge()
    before = judge.scoreboard()
    assert all(judge.scoreboard() == before for _ in range(1000))
    assert judge.scoreboard() == {"window": 30, "switched_off": [], "climbed": {}}


async def test_loop_10_something_ends_every_run_by_default() -> None:
    @tool(effect="reads", timeout=None)
    async def slow(n: int) -> str:
        await anyio.sleep(400)
        return str(n)

    numbers = itertools.count()
    turns = await play(Agent(varying(lambda n: [("look", {"what": str(n)})]), [look]))
    time = await play(Agent(varying(lambda n: [("slow", {"n": n})]), [slow]))
    repeats = await play(Agent(stubborn(("look", {"what": "a"})), [look]))
    calls = await play(Agent(varying(lambda n: [("look", {"what": str(next(numbers))}) for _ in range(300)]), [look]))
    assert [ran.end[1] for ran in (turns, time, repeats, calls)] == ["turns", "time", "loop", "calls"]
    assert (turns.outcome.turns, time.outcome.seconds, repeats.executed, calls.executed) == (23, 1800, 5, 1000)
    defaults = PROFILES["default"].limits
    assert None not in (defaults.max_turns, defaults.max_calls, defaults.seconds, defaults.tokens)


@pytest.mark.parametrize("declared", [True, False])
async def test_poll_01_a_poll_with_news_runs_to_its_end(declared: bool) -> None:
    told = iter([f"running {10 * n // 4}%" for n in range(1, 40)] + ["done"])

    @tool(effect="reads", poll=declared)
    async def check_status(job: str) -> str:
        return next(told)

    steps = [call(("check_status", {"job": "7"})) for _ in range(40)]
    ran = await play(Agent(scripted(*steps, say("It is done.")), [check_status], limits=Limits(max_turns=60)))
    assert ran.end == ("completed", "answer")
    assert ran.executed == 40
    # Declared or not: who is told "running 20%" asks again.
    assert ran.steps() == []


async def test_poll_02_a_declared_poll_without_news_has_patience() -> None:
    told = iter(["pending"] * 6 + ["done"])

    @tool(effect="reads", poll=True)
    async def ask(via: str, job: dict[str, str]) -> str:
        await anyio.sleep(15)
        return next(told)

    wrapped = call(("ask", {"via": "queue", "job": {"tool": "check_status", "id": "7"}}))
    ran = await play(Agent(scripted(*[wrapped] * 7, say("It is done.")), [ask]))
    assert ran.end == ("completed", "answer")
    assert ran.steps() == []
    assert ran.executed == 7


async def never_done(seconds: float) -> Ran:
    """A poll of so many seconds that never has news."""

    @tool(effect="reads", poll=True)
    async def check_status(job: str) -> str:
        await anyio.sleep(seconds)
        return "pending"

    limits = Limits(max_turns=300, seconds=10_000)
    return await play(Agent(stubborn(("check_status", {"job": "7"})), [check_status], limits=limits))


async def test_poll_02_the_patience_ends() -> None:
    quick, slow = await never_done(1), await never_done(20)
    # Patience is 120 s without a change; from then on the 10th, 20th and 30th poll are the steps.
    assert slow.steps() == [("nudge", 16), ("block", 26), ("stop", 36)]
    assert quick.steps() == [("nudge", 130), ("block", 140), ("stop", 150)]
    assert (slow.end, slow.executed) == (("stopped", "loop"), 26)
    assert (quick.end, quick.executed) == (("stopped", "loop"), 140)


async def test_poll_04_a_poll_is_told_to_wait_once_and_not_to_vary() -> None:
    ran = await never_done(20)
    for nudge in ran.of(Nudged):
        assert "wait once, with a deadline" in nudge.text
        assert "arguments" not in nudge.text


async def test_poll_05_a_call_whose_result_always_changes() -> None:
    levels = itertools.count()

    @tool(effect="reads")
    async def gauge() -> str:
        return f"level {next(levels)}"

    ran = await play(Agent(stubborn(("gauge", {})), [gauge], limits=Limits(max_turns=200)))
    # A refusal shows the last result again: proposed seven more times, the blocked call is an equal pair eight times.
    assert ran.steps() == [("nudge", 20), ("block", 45), ("stop", 52)]
    assert ran.executed == 45
    assert ran.end == ("stopped", "loop")
    assert "wait once, with a deadline" in ran.of(Nudged)[0].text


async def test_poll_05_the_ticks_of_a_clock_are_no_news() -> None:
    ticks = itertools.count()

    @tool(effect="reads")
    async def clock() -> str:
        return f"tick {next(ticks)}"

    ran = await play(Agent(stubborn(("clock", {})), [clock], limits=Limits(max_turns=200)))
    assert ran.steps() == CLIMB
    assert ran.end == ("stopped", "loop")


async def test_turn_01_the_limit_of_turns_loses_nothing() -> None:
    model = varying(lambda n: [("look", {"what": str(n)})])
    ran = await play(Agent(model, [look], limits=Limits(max_turns=5)))
    outcome = ran.outcome
    assert ran.end == ("stopped", "turns")
    assert ran.kinds == ["finished"] * 5 + ["refused"] * 3
    assert ran.seen[:5] == [f"saw {n}" for n in range(1, 6)]
    assert outcome.turns == model.asked == 8
    assert outcome.usage.total == outcome.spent["tokens"] == 20 * 8
    assert [message.role for message in outcome.history[:3]] == ["user", "assistant", "tool"]
    # The same object waits in the last fact: nothing is raised at anybody.
    last = ran.events[-1]
    assert isinstance(last, RunEnded)
    assert last.outcome == outcome


async def cancel_it(supervisor: Supervisor, run: Run) -> None:
    await anyio.sleep(1)
    run.cancel("by hand")


async def let_it_run(supervisor: Supervisor, run: Run) -> None:
    return None


@tool(effect="reads")
async def hang() -> str:
    """Never return."""
    await anyio.sleep_forever()
    return ""


@pytest.mark.parametrize(
    ("model", "act", "end"),
    [
        (lambda: scripted(say("done")), let_it_run, ("completed", "answer")),
        (lambda: varying(lambda n: [("look", {"what": str(n)})]), let_it_run, ("stopped", "turns")),
        (lambda: scripted(call(("hang", {}))), cancel_it, ("cancelled", "by hand")),
        (lambda: scripted(fail("auth")), let_it_run, ("failed", "model_refused")),
        (lambda: scripted(*[fail("server")] * 4), let_it_run, ("failed", "model_unavailable")),
        (lambda: scripted(), let_it_run, ("failed", "model_refused")),
    ],
    ids=["done", "limit", "cancel", "refused", "unavailable", "defect"],
)
async def test_turn_02_one_end_with_a_reason_before_the_stream_closes(model: Any, act: Any, end: Any) -> None:
    seen: list[Any] = []

    async def subscribe(run: Run) -> None:
        seen.extend([event async for event in run.events()])

    async with stage() as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(Agent(model(), [look, hang]), "task")
        tasks.start_soon(subscribe, run)
        await act(supervisor, run)
        outcome = await run.wait()
        ran = await ended(run)
    assert ran.end == end
    assert [event for event in seen if isinstance(event, RunEnded)] == [seen[-1]]
    assert seen[-1].outcome == outcome


@pytest.mark.parametrize("limit", range(1, 7))
async def test_turn_04_finishing_in_the_last_turn_and_one_later(limit: int) -> None:
    async def needing(turns: int, finish_turns: int) -> tuple[str, str, bool]:
        steps = [call(("look", {"what": str(n)})) for n in range(turns - 1)]
        limits = Limits(max_turns=limit, finish_turns=finish_turns)
        outcome = (await play(Agent(scripted(*steps, say("done")), [look], limits=limits))).outcome
        return outcome.status, outcome.reason, outcome.forced

    assert await needing(limit, 0) == await needing(limit, 3) == ("completed", "answer", False)
    assert await needing(limit + 1, 0) == ("stopped", "turns", False)
    assert await needing(limit + 1, 3) == ("completed", "answer", True)  # the finishing turn is for the answer


async def test_turn_05_a_call_although_tools_are_off() -> None:
    model = scripted(call(("look", {"what": "a"})), *[call(("look", {"what": "b"}))] * 3)
    ran = await play(Agent(model, [look], limits=Limits(max_turns=1)))
    assert ran.kinds == ["finished"] + ["refused"] * 3
    assert ran.executed == 1
    assert [request.tool_choice for request in model.requests] == ["auto", "none", "none", "none"]
    assert all("Tools are off" in text and "near its limit" in text for text in ran.seen[1:])
    assert ran.end == ("stopped", "turns")
    assert "1 tool call" in ran.outcome.message
    assert [event.about for event in ran.of(Reminded)] == ["finish_turns"]
    assert len(ran.of(ModelRequested)) == 4
