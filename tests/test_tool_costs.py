"""What calls cost: held before, settled after, nothing for what does not run, and never more than is there."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from support import facts, of, perform, scripted, supervised
from watchkeeper import Agent, Budget, ConfigurationError, Limits, Price, ToolError, Transient, tool
from watchkeeper.messages import CallEnded, CallStarted, Held, Settled
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FREE = {"scripted": Price(input=0, output=0)}
"""The model costs nothing, as one on a machine of one's own; so money is what the tools cost."""


@tool(effect="reads", cost=0.25)
async def search(query: str, seconds: float = 0.0) -> str:
    """Search for something."""
    await anyio.sleep(seconds)
    return f"found {query}"


@tool(effect="reads", cost=lambda pages: {"money": 0.01 * pages, "pages": pages})
async def fetch(pages: int) -> str:
    """Fetch pages."""
    return f"fetched {pages}"


def costs(events: Any) -> list[dict[str, float]]:
    """What the calls were charged, in order; without the model's tokens."""
    return [event.amounts for event in of(events, Settled) if "tokens" not in event.amounts]


async def test_a_batch_is_trimmed_to_what_can_be_paid() -> None:
    batch = call(*[("search", {"query": str(n)}) for n in range(5)])
    agent = Agent(scripted(batch, say("done")), [search])
    outcome, events = await perform(agent, budget=Budget(money=0.8), prices=FREE)
    results = [event.result for event in of(events, CallEnded)]
    assert sorted(result.kind for result in results) == ["finished"] * 3 + ["not_run"] * 2
    short = next(result for result in results if result.kind == "not_run")
    assert (short.error, short.by) == ("budget_short", "money")
    assert "its cost in money is 0.25, and 0.05 is left" in short.content
    assert outcome.status == "completed"
    assert (outcome.spent["money"], outcome.spent["calls"]) == (0.75, 3)
    assert [event.slot for event in of(events, Held) if event.slot] == [1, 2, 3]


async def test_eight_side_by_side_pay_for_three() -> None:
    shared = Budget(money=0.75)
    agents = [
        Agent(scripted(call(("search", {"query": str(n), "seconds": 5}), delay=1.0), say("done")), [search])
        for n in range(8)
    ]
    async with supervised(keep=1000, prices=FREE) as supervisor:
        runs = [await supervisor.start(agent, "task", budget=shared) for agent in agents]
        await anyio.sleep(2)
        assert (shared.held["money"], shared.spent.get("money", 0)) == (0.75, 0)
        for run in runs:
            await run.wait()
        started = [len(of(await facts(run), CallStarted)) for run in runs]
    assert sum(started) == 3
    assert (shared.spent["money"], shared.held) == (0.75, {})


async def test_a_cost_may_depend_on_the_arguments_and_be_of_several_dimensions() -> None:
    steps = [call(("fetch", {"pages": 3})), call(("fetch", {"pages": 4})), call(("fetch", {"pages": 2})), say("done")]
    outcome, events = await perform(Agent(scripted(*steps), [fetch]), budget=Budget(pages=5))
    assert [event.result.kind for event in of(events, CallEnded)] == ["finished", "not_run", "finished"]
    assert "its cost in pages is 4, and 2 is left" in of(events, CallEnded)[1].result.content
    assert outcome.spent["pages"] == 5
    assert outcome.spent["money"] == pytest.approx(0.05)
    assert costs(events) == [{"money": 0.03, "pages": 3}, {"money": 0.02, "pages": 2}]


async def test_what_fails_has_cost_and_what_does_not_run_has_not() -> None:
    @tool(effect="reads", cost=1)
    async def failing() -> str:
        raise ToolError("no")

    @tool(effect="reads", cost=1, timeout=2)
    async def slow() -> str:
        await anyio.sleep(100)
        return ""

    same = call(("search", {"query": "a"}), ("search", {"query": "a"}))  # equal reads of a batch run once
    steps = [call(("failing", {})), call(("slow", {})), same, say("done")]
    outcome, events = await perform(Agent(scripted(*steps), [failing, slow, search]))
    assert [event.result.kind for event in of(events, CallEnded)] == ["failed", "timed_out", "finished", "finished"]
    assert costs(events) == [{"money": 1}, {"money": 1}, {"money": 0.25}, {}]
    assert outcome.spent["money"] == 2.25


async def test_a_cancel_gives_back_what_had_not_begun() -> None:
    batch = call(*[("search", {"query": str(n), "seconds": 50}) for n in range(3)])
    agent = Agent(scripted(batch), [search], limits=Limits(parallel=1))
    async with supervised(keep=1000) as supervisor:
        run = await supervisor.start(agent, "task")
        await anyio.sleep(1)
        assert run.budget.held["money"] == 0.75
        run.cancel()
        outcome = await run.wait()
    assert (outcome.spent["money"], run.budget.held, supervisor.budget.held) == (0.25, {}, {})


async def test_each_further_try_costs_once_more_and_is_not_made_if_that_is_not_there() -> None:
    @tool(effect="reads", cost=1)
    async def flaky() -> str:
        raise Transient("later")

    outcome, events = await perform(Agent(scripted(call(("flaky", {})), say("done")), [flaky]))
    assert [event.attempt for event in of(events, CallStarted)] == [1, 2, 3]
    assert outcome.spent["money"] == 3
    outcome, events = await perform(
        Agent(scripted(call(("flaky", {})), say("done")), [flaky]), budget=Budget(money=2), prices=FREE
    )
    assert [event.attempt for event in of(events, CallStarted)] == [1, 2]
    assert of(events, CallEnded)[0].result.kind == "failed"
    assert outcome.spent["money"] == 2


@pytest.mark.parametrize("answer", [ZeroDivisionError(), -1, "much", float("nan"), {"money": None}, {1: 2}, True])
async def test_a_cost_that_nobody_can_tell_is_not_run_up(answer: Any) -> None:
    def price(query: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    @tool(effect="reads", cost=price)
    async def odd(query: str) -> str:
        """Search."""
        raise AssertionError("it must not run")

    outcome, events = await perform(Agent(scripted(call(("odd", {"query": "x"})), say("done")), [odd]))
    (ended,) = of(events, CallEnded)
    assert (ended.result.kind, ended.result.error, ended.result.by) == ("refused", "cost_failed", "cost")
    assert "what it would cost cannot be told" in ended.result.content
    assert "money" not in outcome.spent
    assert outcome.spent.get("calls", 0) == 0


async def test_arguments_that_the_cost_function_has_changed_are_fresh_for_the_tool() -> None:
    def price(names: list[str]) -> float:
        names.clear()
        return 1.0

    @tool(effect="reads", cost=price)
    async def count(names: list[str]) -> str:
        """Count."""
        return f"{len(names)} names"

    _, events = await perform(Agent(scripted(call(("count", {"names": ["a", "b"]})), say("done")), [count]))
    assert of(events, CallEnded)[0].result.content == "2 names"


@pytest.mark.parametrize("cost", [-1, float("inf"), {"money": -0.1}, "1"])
def test_a_fixed_cost_must_be_one(cost: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool 'paid': a cost is a number of 0 or more"):

        @tool(cost=cost)
        async def paid() -> None: ...
