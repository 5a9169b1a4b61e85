"""Sub-agents under a parent's limits: what is left, in every dimension, its time, and its cancel."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from support import facts, of, perform, scripted, supervised
from watchkeeper import Agent, Limits, Price, tool
from watchkeeper.agent import FORCED
from watchkeeper.messages import CallEnded, ModelReplied, Usage
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FAR: dict[str, Any] = {"max_turns": 10**6, "max_calls": None, "tokens": None, "seconds": None, "reply_tokens": 100}
PRICES = {"scripted": Price(input=1000.0, output=1000.0)}
USAGE = Usage(200, 20)


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    await anyio.sleep(1)
    return f"saw {what}"


def endless(**step: Any) -> ScriptedModel:
    """A model that looks at new things for ever, whatever it is told."""
    return ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), usage=USAGE, **step))


def fan_out(number: int) -> Step:
    return call(*[("child", {"task": f"part {n}"}) for n in range(number)], usage=USAGE)


async def test_eight_children_side_by_side_share_three_turns() -> None:
    model = ScriptedModel(lambda request, n: say("found", delay=1.0))
    child = Agent(model, name="child")
    agent = Agent(scripted(fan_out(8), say("done")), [child.as_tool()], limits=Limits(max_turns=1 + 3))
    outcome, events = await perform(agent)
    results = [event.result for event in of(events, CallEnded)]
    assert model.asked == 3
    assert [result.content for result in results if result.productive] == ["found"] * 3
    told = [result.content for result in results if result.error == "stopped_turns"]
    assert len(told) == 5
    assert all("The run reached its limit of turns without an answer. It took 0 turns" in text for text in told)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "done", True)
    assert outcome.spent["turns"] == 4


@pytest.mark.parametrize(
    ("dimension", "limits"),
    [
        ("turns", Limits(**FAR | {"max_turns": 12})),
        ("calls", Limits(**FAR | {"max_calls": 12})),
        ("tokens", Limits(**FAR | {"tokens": 6_000})),
        ("input_tokens", Limits(**FAR, input_tokens=6_000)),
        ("output_tokens", Limits(**FAR, output_tokens=600)),
        ("money", Limits(**FAR, money=6.0)),
    ],
    ids=["turns", "calls", "tokens", "input_tokens", "output_tokens", "money"],
)
async def test_children_without_limits_of_their_own_stop_at_what_their_parent_has_left(
    dimension: str, limits: Limits
) -> None:
    child = Agent(endless(delay=1.0), [look], name="child", limits=Limits(**FAR))
    steps = [fan_out(3), say("done", usage=USAGE), say("done", usage=USAGE)]
    async with supervised(keep=10_000, prices=PRICES) as supervisor:
        run = await supervisor.start(Agent(scripted(*steps), [child.as_tool()], limits=limits), "task")
        outcome = await run.wait()
        below = [one.outcome for one in run.children]
    given = limits.amounts()[dimension]
    assert given is not None
    assert outcome.spent[dimension] <= given
    assert [(one.status, one.reason) for one in below if one is not None] == [("stopped", dimension)] * 3
    assert sum(one.spent[dimension] for one in below if one is not None) > 0.5 * given
    # The parent still ends in good order: with a last answer where there was room for one.
    assert outcome.status in ("completed", "stopped")
    assert outcome.reason in ("answer", dimension)


@pytest.mark.parametrize(("limit", "reason"), [("seconds", "time"), ("working_seconds", "working_time")])
async def test_children_stand_under_their_parents_time(limit: str, reason: str) -> None:
    child = Agent(endless(delay=4.0), [look], name="child", limits=Limits(**FAR))
    agent = Agent(scripted(fan_out(2)), [child.as_tool()], limits=Limits(**FAR | {limit: 30.0}))
    async with supervised() as supervisor:
        run = await supervisor.start(agent, "task")
        outcome = await run.wait()
        below = [one.outcome for one in run.children]
    assert (outcome.status, outcome.reason) == ("stopped", reason)
    assert outcome.seconds == pytest.approx(30)
    assert all(one is not None and one.seconds <= 30 for one in below)
    assert all(one is not None and one.status in ("stopped", "cancelled") for one in below)


async def test_a_childs_own_limit_is_its_own() -> None:
    child = Agent(endless(), [look], name="child", limits=Limits(max_calls=2, max_turns=5))
    agent = Agent(scripted(fan_out(1), call(("look", {"what": "a"})), say("done")), [child.as_tool(), look])
    outcome, events = await perform(agent)
    results = [event.result for event in of(events, CallEnded)]
    assert results[0].error == "stopped_calls"
    assert (results[1].content, outcome.answer, outcome.forced) == ("saw a", "done", False)
    assert outcome.spent["calls"] == 1 + 2 + 1


async def test_an_answer_that_a_limit_has_forced_from_a_child_is_told_as_such() -> None:
    def script(request: Request, n: int) -> Step:
        return say("as far as I came") if request.tool_choice == "none" else call(("look", {"what": str(n)}))

    child = Agent(ScriptedModel(script), [look], name="child", limits=Limits(max_turns=2))
    _, events = await perform(Agent(scripted(fan_out(1), say("done")), [child.as_tool()]))
    assert of(events, CallEnded)[0].result.content == f"as far as I came\n\n{FORCED}"


@pytest.mark.parametrize("mode", ["after_turn", "now", "kill"])
async def test_a_parents_cancel_reaches_children_and_theirs(mode: Any) -> None:
    leaf = Agent(endless(delay=1.0), [look], name="leaf")
    middle = Agent(scripted(*[call(("leaf", {"task": "?"}))] * 2), [leaf.as_tool()], name="child")
    async with supervised(keep=1000) as supervisor:
        run = await supervisor.start(Agent(scripted(fan_out(1)), [middle.as_tool()]), "task")
        await anyio.sleep(2.5)
        run.cancel("enough", mode)
        outcome = await run.wait()
        (child,) = run.children
        (grandchild,) = child.children
        replies = len(of(await facts(grandchild), ModelReplied))
        assert supervisor.runs == {}
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")
    for one in (child, grandchild):
        assert one.outcome is not None
        assert (one.outcome.status, one.outcome.reason) == ("cancelled", "parent_cancelled")
    assert replies <= 2
    assert outcome.seconds == (4.0 if mode == "after_turn" else 2.5)  # the turn's call ends first
    assert run.budget.held == supervisor.budget.held == {}
