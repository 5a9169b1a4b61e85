"""Checks of budgets that runs of several workers share."""

from __future__ import annotations

import anyio

from ...engine import Engine, EngineError, Fenced, Lease, RunSpec, UnknownBudget
from .ground import PATIENCE, Check, Facts, Ground, refused, taken

SPEC = RunSpec(agent="clerk", task="File the letters", budget="team")


async def submitted(engine: Engine, *runs: str) -> list[Lease]:
    """The leases of runs that share the budget."""
    for run in runs:
        await engine.submit(SPEC, run=run)
    leases = aiter(engine.leases(lambda: 1))
    with anyio.fail_after(PATIENCE):
        return [await anext(leases) for _ in runs]


async def a_budget_is_granted_in_slices(ground: Ground) -> None:
    async with ground.worker() as engine:
        limits = engine.limits
        await limits.define("team", {"money": 10.0, "calls": 3})
        one, two = await submitted(engine, "one", "two")
        slice = await one.grant("team", {"money": 4.0, "calls": 2})
        assert slice.has == {"money": 4.0, "calls": 2}
        assert slice.left == await limits.left("team") == {"money": 6.0, "calls": 1}
        assert slice.holds == {"money": 10.0, "calls": 3}
        slice = await two.grant("team", {"money": 8.0, "calls": 0, "tokens": 5})
        assert slice.has == {"money": 6.0}
        assert slice.left == {"money": 0, "calls": 1}
        assert (await one.grant("team", {"money": 1.0})).has == {"money": 4.0, "calls": 2}
        await limits.define("team", {"money": 20.0})
        slice = await one.grant("team", {"money": 1.0})
        assert slice.has == {"money": 5.0, "calls": 2}
        assert slice.left == {"money": 9.0}
        assert slice.holds == {"money": 20.0}


async def no_budget_is_granted_beyond_itself(ground: Ground) -> None:
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 100})
        leases = await submitted(engine, "one", "two", "three")

        async def draw(number: int) -> None:
            for _ in range(5):
                await leases[number % 3].grant("team", {"calls": 3})

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(draw, number)
        assert sum([(await lease.grant("team", {})).has["calls"] for lease in leases]) == 100
        assert await engine.limits.left("team") == {"calls": 0}


async def budgets_that_nobody_defined_are_named(ground: Ground) -> None:
    async with ground.worker() as engine, ground.control() as control:
        for where in (engine, control):
            with refused(UnknownBudget, "a run with a budget that is not there"):
                await where.submit(SPEC, run="one")
        with refused(UnknownBudget, "what is left of a budget that is not there"):
            await engine.limits.left("team")
        await engine.limits.define("team", {"calls": 1})
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        with refused(UnknownBudget, "a grant of a budget that is not there"):
            await lease.grant("teem", {"calls": 1})
        for amount in (-1.0, float("nan"), float("inf")):
            with refused(EngineError, f"a grant of {amount}"):
                await lease.grant("team", {"calls": amount})
        assert await engine.limits.left("team") == {"calls": 1}


async def charges_are_looked_at(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 10})
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        batch = facts.start()
        for charges in ({"calls": 1.0}, {"team/calls": float("nan")}, {"team/calls": float("inf")}, {"/calls": 1.0}):
            with refused(EngineError, f"the charge {charges}"):
                await lease.append(batch, charges)
        assert (await engine.get("one")).n == 0
        await lease.grant("team", {"calls": 4})
        await lease.append(batch, {"team/calls": 3})
        await lease.append(batch, {"team/calls": 3})
        assert (await engine.get("one")).n == 2
        await lease.append(facts.turn(), {"team/calls": -1})
        await lease.release(suspended=True)
        assert await engine.limits.left("team") == {"calls": 8}


async def what_an_attempt_has_not_charged_comes_back_when_it_is_over(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 10})
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.grant("team", {"calls": 6})
        await lease.append(facts.start(), {"team/calls": 2})
        await lease.release(suspended=True)
        assert await engine.limits.left("team") == {"calls": 8}
        with refused(Fenced, "a grant to an attempt that is over"):
            await lease.grant("team", {"calls": 1})
        lease = await taken(engine)
        assert (await lease.grant("team", {"calls": 5})).has == {"calls": 7}
        await lease.append(facts.end(), {"team/calls": 1})
        await lease.release()
        assert await engine.limits.left("team") == {"calls": 7}
    async with ground.worker() as engine:
        assert await engine.limits.left("team") == {"calls": 7}


async def what_a_dead_attempt_had_not_charged_comes_back_with_the_next(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 10})
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.grant("team", {"calls": 6})
        batch = facts.start()
        await lease.append(batch, {"team/calls": 2})
        await lease.append(batch, {"team/calls": 2})
        assert await engine.limits.left("team") == {"calls": 4}
    async with ground.worker() as engine:
        lease = await taken(engine)
        slice = await lease.grant("team", {})
        assert (slice.has, slice.left) == ({"calls": 2}, {"calls": 8})


async def what_an_ended_run_has_charged_stays_spent(ground: Ground) -> None:
    """Also where the worker has died between its end and the giving back of its lease."""
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 10})
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.grant("team", {"calls": 6})
        await lease.append([*facts.start(), *facts.end()], {"team/calls": 2})
    for _ in range(2):
        async with ground.worker() as engine:
            assert await engine.limits.left("team") == {"calls": 8}


async def all_budgets_are_told(ground: Ground) -> None:
    async with ground.worker() as engine:
        assert list(await engine.limits.standing()) == []
        await engine.limits.define("team", {"money": 10.0, "calls": 3})
        await engine.limits.define("alone", {"calls": 1})
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.grant("team", {"money": 4.0})
        alone, team = await engine.limits.standing()
        assert (alone.name, alone.holds, alone.left) == ("alone", {"calls": 1}, {"calls": 1})
        assert (team.name, team.holds, team.left) == ("team", {"money": 10.0, "calls": 3}, {"money": 6.0, "calls": 3})
        await engine.limits.define("team", {"money": 1.0})
        assert (await engine.limits.standing())[1].left == {"money": -3.0}, "as much as was granted too much"


CHECKS: tuple[Check, ...] = (
    a_budget_is_granted_in_slices,
    no_budget_is_granted_beyond_itself,
    budgets_that_nobody_defined_are_named,
    charges_are_looked_at,
    what_an_attempt_has_not_charged_comes_back_when_it_is_over,
    what_a_dead_attempt_had_not_charged_comes_back_with_the_next,
    what_an_ended_run_has_charged_stays_spent,
    all_budgets_are_told,
)
