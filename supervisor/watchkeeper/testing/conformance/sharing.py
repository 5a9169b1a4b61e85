"""Checks of budgets that runs of several workers share."""

from __future__ import annotations

import anyio

from ...engine import EngineError
from .ground import SPEC, Check, Facts, Ground, refused, taken


async def a_budget_is_granted_in_slices(ground: Ground) -> None:
    async with ground.worker() as engine:
        limits = engine.limits
        await limits.define("team", {"money": 10.0, "calls": 3})
        assert await limits.grant("team", {"money": 4.0, "calls": 2}) == {"money": 4.0, "calls": 2}
        assert await limits.left("team") == {"money": 6.0, "calls": 1}
        assert await limits.grant("team", {"money": 8.0, "calls": 0, "tokens": 5}) == {
            "money": 6.0,
            "calls": 0,
            "tokens": 0,
        }
        assert await limits.grant("team", {"money": 1.0}) == {"money": 0}
        await limits.give_back("team", {"money": 2.5})
        assert await limits.left("team") == {"money": 2.5, "calls": 1}
        await limits.define("team", {"money": 20.0})
        assert await limits.left("team") == {"money": 12.5}


async def no_budget_is_granted_beyond_itself(ground: Ground) -> None:
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 100})
        granted: list[float] = []

        async def draw() -> None:
            for _ in range(5):
                slice = await engine.limits.grant("team", {"calls": 3})
                granted.append(slice["calls"])

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(draw)
        assert sum(granted) == 100
        assert await engine.limits.left("team") == {"calls": 0}


async def budgets_that_nobody_defined_are_named(ground: Ground) -> None:
    async with ground.worker() as engine:
        with refused(EngineError, "a grant of a budget that is not there"):
            await engine.limits.grant("team", {"calls": 1})
        with refused(EngineError, "what is left of a budget that is not there"):
            await engine.limits.left("team")
        await engine.limits.define("team", {"calls": 1})
        for amount in (-1.0, float("nan"), float("inf")):
            with refused(EngineError, f"a grant of {amount}"):
                await engine.limits.grant("team", {"calls": amount})
        assert await engine.limits.left("team") == {"calls": 1}


async def charges_are_looked_at(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 10})
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        batch = facts.start()
        for charges in ({"calls": 1.0}, {"team/calls": -1.0}, {"/calls": 1.0}):
            with refused(EngineError, f"the charge {charges}"):
                await lease.append(batch, charges)
        assert (await engine.get("one")).n == 0
        await engine.limits.grant("team", {"calls": 4})
        await lease.append(batch, {"team/calls": 3})
        await lease.append(batch, {"team/calls": 3})
        assert (await engine.get("one")).n == 2


async def what_a_dead_worker_had_not_spent_comes_back(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.limits.define("team", {"calls": 10})
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        assert await engine.limits.grant("team", {"calls": 6}) == {"calls": 6}
        batch = facts.start()
        await lease.append(batch, {"team/calls": 2})
        await lease.append(batch, {"team/calls": 2})
        assert await engine.limits.left("team") == {"calls": 4}
    async with ground.worker() as engine:
        assert await engine.limits.left("team") == {"calls": 8}


CHECKS: tuple[Check, ...] = (
    a_budget_is_granted_in_slices,
    no_budget_is_granted_beyond_itself,
    budgets_that_nobody_defined_are_named,
    charges_are_looked_at,
    what_a_dead_worker_had_not_spent_comes_back,
)
