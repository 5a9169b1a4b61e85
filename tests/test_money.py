"""Limits of money: what is held, cut, settled and said, and what happens where nobody knows a price."""

from __future__ import annotations

import pytest

from support import facts, of, perform, scripted, supervised
from watchkeeper import Agent, Budget, Limits, Price, tool
from watchkeeper.messages import CallEnded, Held, ModelRequested, Overrun, Settled, Usage
from watchkeeper.testing import ScriptedModel, call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PRICE = Price(input=1000.0, output=10_000.0, cached=100.0, reasoning=20_000.0)
"""0.001 for a token that is read, 0.01 for one that is written."""
PRICES = {"scripted": PRICE}


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def looking(usage: Usage | None = Usage(100, 20)) -> ScriptedModel:  # noqa: B008
    return ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), usage=usage))


async def test_money_is_held_at_the_most_and_settled_at_what_it_was() -> None:
    usage = Usage(100, 20, cached_tokens=50, reasoning_tokens=10)
    outcome, events = await perform(Agent(scripted(say("done", usage=usage))), prices=PRICES)
    (request,), (held,), (settled,) = of(events, ModelRequested), of(events, Held), of(events, Settled)
    assert held.amounts["money"] == pytest.approx(request.input_estimate * 0.001 + 4096 * 0.02)
    assert settled.amounts["money"] == pytest.approx(50 * 0.001 + 50 * 0.0001 + 10 * 0.01 + 10 * 0.02)
    assert (settled.unknown, outcome.unknown) == ((), {})
    assert outcome.spent["money"] == settled.amounts["money"]


async def test_a_run_ends_at_its_money_and_never_beyond() -> None:
    outcome, events = await perform(
        Agent(looking(), [look], limits=Limits(money=10.0, max_turns=1000, reply_tokens=100)), prices=PRICES
    )
    assert (outcome.status, outcome.reason) == ("stopped", "money")
    assert 5 < outcome.spent["money"] <= 10
    assert of(events, Overrun) == []
    assert "used up its money" in outcome.message


async def test_the_reply_is_cut_to_what_can_be_paid() -> None:
    model = scripted(say("done", usage=Usage(30, 5)))
    _, events = await perform(
        Agent(model, limits=Limits(money=2.0)), prices={"scripted": Price(input=0, output=10_000)}
    )
    assert of(events, ModelRequested)[0].max_tokens == model.requests[0].max_tokens == 200


async def test_tools_and_models_draw_from_the_same_money() -> None:
    @tool(effect="reads", cost=4.0)
    async def search(query: str) -> str:
        """Search."""
        return "found"

    batch = call(*[("search", {"query": str(n)}) for n in range(3)], usage=Usage(100, 20))
    agent = Agent(scripted(batch, say("done")), [search], limits=Limits(money=10.0, reply_tokens=30))
    outcome, _ = await perform(agent, prices=PRICES)
    assert [record.kind for record in outcome.calls] == ["finished", "finished", "not_run"]
    assert 8 < outcome.spent["money"] <= 10


async def test_runs_that_share_money_stay_within_it_together() -> None:
    shared = Budget(money=6.0)
    agent = Agent(looking(), [look], limits=Limits(max_turns=1000, reply_tokens=50))
    async with supervised(prices=PRICES) as supervisor:
        runs = [await supervisor.start(agent, "task", budget=shared) for _ in range(4)]
        outcomes = [await run.wait() for run in runs]
    assert {outcome.reason for outcome in outcomes} == {"money"}
    assert 3 < shared.spent["money"] <= 6
    assert shared.held == {}


async def test_a_reply_that_costs_more_than_was_held_and_there_is_ends_the_run() -> None:
    """A provider that counts more than it was allowed."""
    agent = Agent(scripted(say("done", usage=Usage(100, 5000))), limits=Limits(money=10.0, reply_tokens=100))
    outcome, events = await perform(agent, prices=PRICES)
    assert (outcome.status, outcome.reason) == ("stopped", "overrun")
    assert of(events, Overrun)[0].dimension == "money"
    assert of(events, Overrun)[0].over == pytest.approx(0.1 + 50 - 10)
    assert outcome.spent["money"] == pytest.approx(50.1)


# -- what nobody knows ------------------------------------------------------------------------------------------------


async def test_without_a_price_money_is_unknown_and_not_nothing() -> None:
    steps = [call(("look", {"what": "a"})), say("done")]
    async with supervised(keep=1000) as supervisor:
        run = await supervisor.start(Agent(scripted(*steps), [look]), "task")
        outcome = await run.wait()
        settled = of(await facts(run), Settled)
        assert run.snapshot()["unknown"] == {"money": 2}
    assert "money" not in outcome.spent
    assert outcome.unknown == supervisor.budget.unknown == {"money": 2}
    assert [event.unknown for event in settled] == [("money",)] * 2


@pytest.mark.parametrize("where", ["the run", "its budget", "the supervisor", "the parent"])
async def test_a_limit_of_money_without_a_price_asks_nothing(where: str) -> None:
    model = scripted(say("done"))
    limits = Limits(money=5.0) if where == "the run" else Limits()
    root = Budget(money=5.0) if where == "the supervisor" else None
    async with supervised(budget=root, prices={"priced": PRICE}) as supervisor:
        parent = None
        if where == "the parent":
            above = Agent(scripted(say("x", stall=True), name="priced"), limits=Limits(money=5.0))
            parent = await supervisor.start(above, "task")
        budget = Budget(money=5.0) if where == "its budget" else None
        run = await supervisor.start(Agent(model, limits=limits), "task", budget=budget, parent=parent)
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("stopped", "unpriced")
    assert model.asked == 0
    assert (outcome.spent.get("money"), outcome.unknown) == (None, {})
    assert 'allow it with Limits(unpriced="allow")' in outcome.message


async def test_where_it_is_allowed_the_limit_holds_for_what_is_known() -> None:
    @tool(effect="reads", cost=2.0)
    async def search(query: str) -> str:
        """Search."""
        return "found"

    batch = call(*[("search", {"query": str(n)}) for n in range(3)])
    agent = Agent(scripted(batch, say("done")), [search], limits=Limits(money=5.0, unpriced="allow"))
    outcome, _ = await perform(agent)
    assert [record.kind for record in outcome.calls] == ["finished", "finished", "not_run"]
    assert (outcome.answer, outcome.spent["money"], outcome.unknown) == ("done", 4.0, {"money": 2})


async def test_where_a_run_may_be_unpriced_its_sub_agents_may() -> None:
    child = Agent(scripted(say("found")), name="child")
    agent = Agent(scripted(call(("child", {"task": "?"})), say("done")), [child.as_tool()])
    agent.limits = Limits(money=5.0, unpriced="allow")
    outcome, events = await perform(agent)
    assert (outcome.answer, of(events, CallEnded)[0].result.content) == ("done", "found")
    assert outcome.unknown == {"money": 3}


async def test_unknown_usage_is_charged_at_the_hold_and_marked() -> None:
    outcome, events = await perform(Agent(scripted(say("done", usage=None))), prices=PRICES)
    (held,), (settled,) = of(events, Held), of(events, Settled)
    assert settled.amounts == held.amounts
    assert (settled.estimated, settled.unknown, outcome.usage.estimated) == (True, (), True)


@pytest.mark.parametrize("sent", [True, False])
async def test_what_was_never_sent_costs_nothing(sent: bool) -> None:
    """A server that is down must not use up the budget of a run, at 5 per attempt here."""
    lost = fail("connection", "nobody listens", sent=sent)
    steps = [lost, lost, say("done", usage=Usage(100, 20))]
    outcome, events = await perform(Agent(scripted(*steps)), prices=PRICES)
    held, settled = of(events, Held), of(events, Settled)
    assert [one.held for one in settled] == [one.held for one in held]
    assert [one.amounts for one in settled[:2]] == [one.amounts if sent else {} for one in held[:2]]
    assert (outcome.answer, outcome.unknown) == ("done", {})
    assert (outcome.spent["money"] == pytest.approx(0.3)) is not sent
    assert (outcome.usage == Usage(100, 20)) is not sent


async def test_what_a_sub_agent_cost_is_in_what_its_parent_cost() -> None:
    child = Agent(scripted(say("found", usage=Usage(100, 20)), name="cheap"), name="child")
    steps = [call(("child", {"task": "?"}), usage=Usage(10, 10)), say("done", usage=Usage(10, 10))]
    prices = PRICES | {"cheap": Price(input=100.0, output=100.0)}
    outcome, _ = await perform(Agent(scripted(*steps), [child.as_tool()]), prices=prices)
    assert outcome.spent["money"] == pytest.approx(2 * (0.01 + 0.1) + 0.012)
