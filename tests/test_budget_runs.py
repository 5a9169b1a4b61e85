"""Budgets under runs: whatever runs, sub-agents and tools draw from one, at every fact, on both back ends."""

from __future__ import annotations

from typing import Any
from unittest import mock

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import facts, of, perform, scripted, supervised
from watchkeeper import Agent, Budget, Limits, Price, current_call, tool
from watchkeeper.budget import EXACT, Short
from watchkeeper.log import Log
from watchkeeper.messages import CallEnded, CallStarted, Event, ModelReplied, Overrun, Settled, Usage
from watchkeeper.model import Request
from watchkeeper.testing import BACKENDS, ScriptedModel, Step, backend, call, say


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    await anyio.sleep(1)
    return f"saw {what}"


@tool(effect="reads", cost=lambda what: {"money": 0.7 + len(what) / 10})
async def paid(what: str) -> str:
    """Look at something for money."""
    await anyio.sleep(0.5)
    return f"saw {what}"


# -- one limit, many that draw from it --------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_eight_runs_side_by_side_share_three_calls() -> None:
    shared = Budget(calls=3)
    agents = [Agent(scripted(call(("look", {"what": str(n)}), delay=1.0), say("done")), [look]) for n in range(8)]
    async with supervised(keep=1000) as supervisor:
        runs = [await supervisor.start(agent, "task", budget=shared) for agent in agents]
        outcomes = [await run.wait() for run in runs]
        results = [event.result for run in runs for event in of(await facts(run), CallEnded)]
    assert sorted(result.kind for result in results) == ["finished"] * 3 + ["not_run"] * 5
    told = [result for result in results if result.kind == "not_run"]
    assert all("the limit of 3 calls of the run is reached" in result.content for result in told)
    assert {(result.error, result.by) for result in told} == {("too_many_calls", "calls")}
    assert [outcome.answer for outcome in outcomes] == ["done"] * 8
    assert shared.spent["calls"] == supervisor.budget.spent["calls"] == 3


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_eight_sub_agents_side_by_side_share_what_their_parent_has_left() -> None:
    def script(request: Request, n: int) -> Step:
        if request.messages[-1].role == "tool":
            return say("done")
        return call(("look", {"what": str(n)}), delay=1.0)

    child = Agent(ScriptedModel(script), [look], name="child")
    fan_out = call(*[("child", {"task": f"part {n}"}) for n in range(8)])
    parent = Agent(scripted(fan_out, say("done")), [child.as_tool()], limits=Limits(max_calls=8 + 3))
    async with supervised(keep=1000) as supervisor:
        run = await supervisor.start(parent, "task")
        outcome = await run.wait()
        below = [event for one in run.children for event in await facts(one)]
    assert outcome.status == "completed"
    assert len(run.children) == 8
    assert len(of(below, CallStarted)) == 3
    told = [event.result.content for event in of(below, CallEnded) if event.result.kind == "not_run"]
    assert len(told) == 5
    assert all("the limit of 11 calls of the run is reached" in text for text in told)
    assert run.budget.spent["calls"] == 11


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_the_supervisors_budget_is_the_root_of_runs_that_share_another_too() -> None:
    agent = Agent(ScriptedModel(lambda r, n: call(("look", {"what": str(n)}))), [look])
    async with supervised(budget=Budget(calls=4)) as supervisor:
        shared = Budget(calls=3)
        first = await supervisor.start(agent, "task", budget=shared)
        await first.wait()
        second = await supervisor.start(agent, "task")
        await second.wait()
    assert (shared.spent["calls"], first.budget.spent["calls"]) == (3, 3)
    assert (second.budget.spent["calls"], supervisor.budget.spent["calls"]) == (1, 4)


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_sub_agent_draws_from_its_parent_and_from_a_budget_of_its_own() -> None:
    agent = Agent(ScriptedModel(lambda r, n: call(("look", {"what": str(n)}))), [look])
    async with supervised() as supervisor:
        parent = await supervisor.start(Agent(scripted(say("x", stall=True))), "task")
        shared = Budget(calls=2)
        child = await supervisor.start(agent, "task", parent=parent, budget=shared)
        await child.wait()
        parent.cancel()
    assert shared.spent["calls"] == parent.budget.spent["calls"] == 2


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_tool_draws_from_the_budget_of_its_run() -> None:
    @tool(effect="reads")
    async def fetch(pages: int) -> str:
        """Fetch pages."""
        short = current_call().run.budget.take({"pages": pages})
        return f"fetched {pages}" if short is None else f"{short.left:g} pages are left"

    steps = [call(("fetch", {"pages": 3})), call(("fetch", {"pages": 3})), call(("fetch", {"pages": 2})), say("done")]
    outcome, events = await perform(Agent(scripted(*steps), [fetch]), budget=Budget(pages=5))
    assert [event.result.content for event in of(events, CallEnded)] == ["fetched 3", "2 pages are left", "fetched 2"]
    assert outcome.spent["pages"] == 5


# -- the promise, at every fact ---------------------------------------------------------------------------------------

DELAYS = st.sampled_from([0.0, 0.5, 1.0])
USAGES = st.sampled_from([Usage(60, 10), Usage(200, 20), None, Usage(2000, 400)])
STEPS = st.lists(st.tuples(DELAYS, st.integers(0, 4), USAGES, st.booleans()), min_size=1, max_size=4)
LIMITS = st.fixed_dictionaries(
    {
        "calls": st.integers(0, 12),
        "tokens": st.integers(300, 6000),
        "turns": st.integers(1, 9),
        "money": st.none() | st.floats(0.5, 5.0),
        "calls:paid": st.none() | st.integers(0, 3),
    }
)
PRICES = {"scripted": Price(input=1000.0, output=1000.0)}
"""0.001 for a token."""


def model_of(steps: list[tuple[float, int, Usage | None, bool]]) -> ScriptedModel:
    """Turns with so many calls each, some of them of a sub-agent, then an answer."""

    def script(request: Request, n: int) -> Step:
        if n > len(steps):
            return say("done")
        delay, calls, usage, delegates = steps[n - 1]
        if not calls:
            return say("done", delay=delay, usage=usage)
        made: list[tuple[str, Any]] = [("paid" if k else "look", {"what": f"{n} {k}"}) for k in range(calls)]
        if delegates:
            made[0] = ("child", {"task": f"task {n}"})
        return call(*made, delay=delay, usage=usage)

    return ScriptedModel(script)


@pytest.mark.parametrize("name", BACKENDS)
@given(roots=st.lists(STEPS, min_size=1, max_size=4), child=STEPS, limits=LIMITS, shared=LIMITS)
@settings(max_examples=40)
def test_spent_and_held_stay_within_every_limit_at_every_fact(
    name: str, roots: Any, child: Any, limits: dict[str, float], shared: dict[str, float]
) -> None:
    """Save from an overrun on, which only a reply above its hold can bring about."""
    overrun: list[Event] = []
    checked = 0
    budgets: dict[int, Budget] = {}
    append = Log.append_clean  # all facts pass through it

    def checking(self: Log, kind: Any, **fields: Any) -> Any:
        nonlocal checked
        event = append(self, kind, **fields)
        if isinstance(event, Overrun):
            overrun.append(event)
        over = [
            (dimension, limit)
            for budget in budgets.values()
            for dimension, limit in budget.limits.items()
            if budget.spent.get(dimension, 0) + budget.held.get(dimension, 0) > limit * (1 + EXACT)
        ]
        # The settlement of a reply that overruns comes two facts before the overrun is said, with no wait in between.
        assert not over or overrun or kind in (Settled, ModelReplied)
        checked += 1
        return event

    async def main() -> None:
        purse = Budget(**shared)
        budgets[id(purse)] = purse
        delegate = Agent(model_of([(*step[:3], False) for step in child]), [look, paid], name="child")
        limit = Limits(reply_tokens=100, max_turns=6, finish_turns=1, max_calls=5)
        async with supervised(budget=Budget(**limits), prices=PRICES) as supervisor:
            budgets[id(supervisor.budget)] = supervisor.budget
            runs = []
            for number, steps in enumerate(roots):
                agent = Agent(model_of(steps), [look, paid, delegate.as_tool()], limits=limit)
                runs.append(await supervisor.start(agent, "task", budget=purse if number % 2 else None))
                budgets.update((id(one), one) for one in runs[-1].budget.path)
            for run in runs:
                outcome = await run.wait()
                assert outcome.status in ("completed", "stopped")
            left = [budget.held for budget in budgets.values() if budget.held]
            assert left == []

    with mock.patch.object(Log, "append_clean", checking):
        how, options = backend(name)
        anyio.run(main, backend=how, backend_options=options)
    assert checked >= 4  # at the least: started, asked by the user, ending, ended


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_the_first_that_is_short_is_named() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("x", stall=True))), "task", budget=Budget(pages=1))
        short = run.budget.hold({"pages": 2})
        assert isinstance(short, Short)
        assert (short.dimension, short.wanted, short.left) == ("pages", 2, 1)
        run.cancel()
