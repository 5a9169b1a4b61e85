"""The finish window, in every dimension: a reminder, tools off, one last answer, then the stop."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from support import BARE, of, perform
from watchkeeper import Agent, Budget, Event, Limits, Price, tool
from watchkeeper.messages import CallEnded, Overrun, Reminded, TurnStarted, Usage
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FAR: dict[str, Any] = {"max_turns": 10**6, "max_calls": None, "tokens": None, "seconds": None, "reply_tokens": 200}
WINDOWS = {
    "turns": Limits(**FAR | {"max_turns": 10}),
    "calls": Limits(**FAR | {"max_calls": 10}),
    "tokens": Limits(**FAR | {"tokens": 20_000}),
    "input_tokens": Limits(**FAR, input_tokens=20_000),
    "output_tokens": Limits(**FAR, output_tokens=2_000),
    "money": Limits(**FAR, money=20.0),
    "time": Limits(**FAR | {"seconds": 60.0}),
    "working_time": Limits(**FAR, working_seconds=60.0),
}
PRICES = {"scripted": Price(input=1000.0, output=1000.0)}


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    await anyio.sleep(1)
    return f"saw {what}"


def obedient(request: Request, n: int) -> Step:
    """Looks at new things until tools are off."""
    if request.tool_choice == "none":
        return say("This is what I know.", usage=Usage(600, 20), delay=1.0)
    return call(("look", {"what": str(n)}), usage=Usage(600, 20), delay=1.0)


def stubborn(request: Request, n: int) -> Step:
    return call(("look", {"what": str(n)}), usage=Usage(600, 20), delay=1.0)


def reminders(events: list[Event]) -> list[str]:
    return [event.about for event in of(events, Reminded)]


def used(outcome: Any, dimension: str) -> float:
    if dimension == "time":
        return float(outcome.seconds)
    return float(outcome.working_seconds if dimension == "working_time" else outcome.spent[dimension])


def limit(dimension: str) -> float:
    limits = WINDOWS[dimension]
    times = {"time": limits.seconds, "working_time": limits.working_seconds}
    found = times.get(dimension) or limits.amounts()[dimension]
    assert found is not None
    return found


@pytest.mark.parametrize("dimension", WINDOWS)
async def test_who_listens_gives_a_last_answer_within_the_limit(dimension: str) -> None:
    agent = Agent(ScriptedModel(obedient), [look], limits=WINDOWS[dimension])
    outcome, events = await perform(agent, prices=PRICES)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "This is what I know.", True)
    assert reminders(events) == [dimension, f"finish_{dimension}"]
    assert [event.tools_on for event in of(events, TurnStarted)] == [True] * (outcome.turns - 1) + [False]
    assert 0.7 * limit(dimension) < used(outcome, dimension) <= limit(dimension)
    near, now = of(events, Reminded)
    done = f"So far: {now.turn} turns and {now.turn} tool calls (look {now.turn})."
    for reminder in (near, now):
        happened, known, following = reminder.text.split("\n")
        assert happened.startswith("This run has ")
        assert "used up" in happened
        assert known.startswith("So far: ")
        assert "answer" in following
    assert done in now.text
    assert "tools are off from now on" in now.text


@pytest.mark.parametrize("dimension", WINDOWS)
async def test_who_does_not_is_stopped_with_what_there_is(dimension: str) -> None:
    agent = Agent(ScriptedModel(stubborn), [look], limits=WINDOWS[dimension])
    outcome, events = await perform(agent, prices=PRICES)
    assert (outcome.status, outcome.reason) == ("stopped", dimension)
    assert of(events, Overrun) == []
    assert used(outcome, dimension) <= limit(dimension)
    assert {event.result.kind for event in of(events, CallEnded)} <= {"finished", "refused", "cancelled", "not_run"}
    assert "(look " in outcome.message
    assert "everything done so far is kept" in outcome.message


@pytest.mark.parametrize("dimension", ["tokens", "input_tokens", "money"])
async def test_long_requests_leave_room_for_the_last_answer(dimension: str) -> None:
    """Each request takes more than a tenth of the limit: by the share alone the end would come without a word."""

    def script(request: Request, n: int) -> Step:
        usage = Usage(3_000, 20)
        return (
            say("So far so good.", usage=usage)
            if request.tool_choice == "none"
            else call(("look", {"what": "x" * 1000 + str(n)}), usage=usage)
        )

    amount = {"tokens": 14_000, "input_tokens": 14_000, "money": 14.0}[dimension]
    agent = Agent(ScriptedModel(script), [look], profile=BARE, limits=Limits(**FAR | {dimension: amount}))
    outcome, events = await perform(agent, prices=PRICES)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "So far so good.", True)
    assert reminders(events)[-1] == f"finish_{dimension}"
    assert outcome.spent[dimension] <= amount


async def test_a_small_budget_is_no_reason_to_go_without_tools_from_the_start() -> None:
    agent = Agent(ScriptedModel(obedient), [look], limits=Limits(**FAR | {"tokens": 700}))
    _, events = await perform(agent)
    assert of(events, TurnStarted)[0].tools_on


async def test_a_dimension_of_a_tool_is_told_once_and_the_run_goes_on() -> None:
    @tool(effect="reads", cost={"pages": 1})
    async def fetch(page: int) -> str:
        """Fetch a page."""
        return f"page {page}"

    def script(request: Request, n: int) -> Step:
        return call(("fetch", {"page": n})) if n < 8 else say("done")

    agent = Agent(ScriptedModel(script), [fetch], limits=Limits(calls_per_tool={"fetch": 6}))
    outcome, events = await perform(agent, budget=Budget(pages=5))
    assert (outcome.answer, outcome.forced) == ("done", False)
    assert [(event.about, event.turn) for event in of(events, Reminded)] == [("pages", 4), ("calls:fetch", 5)]
    kinds = [event.result.kind for event in of(events, CallEnded)]
    assert kinds == ["finished"] * 5 + ["not_run"] * 2


async def test_while_evidence_is_missing_tools_stay_on_and_that_is_said() -> None:
    @tool(effect="reads")
    async def check() -> str:
        """Check."""
        return "it holds"

    def script(request: Request, n: int) -> Step:
        if n < 5:
            return call(("look", {"what": str(n)}))
        return call(("check", {})) if n == 5 else say("It holds.")

    agent = Agent(ScriptedModel(script), [look, check], required=["check"], limits=Limits(max_turns=4))
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "It holds.", True)
    (now,) = [event for event in of(events, Reminded) if event.about == "finish_turns"]
    assert "your answer still needs evidence" in now.text
    assert "tools are off" not in now.text
    assert [event.tools_on for event in of(events, TurnStarted)] == [True] * 5 + [False]


async def test_a_plain_stop_where_no_window_is_wanted() -> None:
    agent = Agent(ScriptedModel(stubborn), [look], profile="demo")
    agent.limits = Limits(max_turns=1000, finish_turns=0, tokens=9000, reply_tokens=100)
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.reason) == ("stopped", "tokens")
    assert [about for about in reminders(events) if about.startswith("finish")] == []
