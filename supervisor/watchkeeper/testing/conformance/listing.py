"""Checks of lists: filters, order and pages."""

from __future__ import annotations

from ...engine import Engine, EngineError, Query, RunSpec
from .ground import Check, Facts, Ground, refused


async def _ids(engine: Engine, query: Query) -> list[str]:
    return [one.run for one in (await engine.list(query)).runs]


async def runs_are_filtered(ground: Ground) -> None:
    root, child = Facts("c"), Facts("c.1", "c")
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(RunSpec(agent="clerk", task="t", labels={"team": "x", "day": "mon"}), run="a")
        await control.submit(RunSpec(agent="scout", task="t", labels={"team": "x"}), run="b")
        await control.submit(RunSpec(agent="scout", task="t"), run="c")
        await control.cancel("a")
        leases = aiter(engine.leases(lambda: 1))
        await anext(leases)
        lease = await anext(leases)
        assert lease.run == "c"
        await lease.append([*root.start("scout"), *child.start("helper")])
        assert await _ids(control, Query()) == ["c", "b", "a"]
        assert await _ids(control, Query(agent="scout")) == ["c", "b"]
        assert await _ids(control, Query(labels={"team": "x"})) == ["b", "a"]
        assert await _ids(control, Query(labels={"team": "x", "day": "mon"})) == ["a"]
        assert await _ids(control, Query(labels={"team": "'; drop table run"})) == []
        assert await _ids(control, Query(states=("ended",))) == ["a"]
        assert await _ids(control, Query(states=("running", "ended"))) == ["c", "a"]
        assert await _ids(control, Query(worker="main")) == ["c", "b"]
        assert await _ids(control, Query(worker="other")) == []
        assert await _ids(control, Query(parent="c")) == ["c.1"]
        assert set(await _ids(control, Query(parent=""))) == {"a", "b", "c", "c.1"}


async def pages_go_back_in_time(ground: Ground) -> None:
    async with ground.worker() as engine, ground.control() as control:
        for n in range(7):
            await control.submit(RunSpec(agent="clerk", task="t"), run=f"r{n}")
        leases = aiter(engine.leases(lambda: 1))
        for n in range(4):
            lease = await anext(leases)
            facts = Facts(lease.run)
            await lease.append([*facts.start(), *(facts.end() if n % 2 else [])])
        seen, before, sizes = [], "", []
        while True:
            page = await control.list(Query(limit=3, before=before))
            seen += [one.run for one in page.runs]
            sizes.append(len(page.runs))
            if not page.more:
                break
            before = seen[-1]
        assert seen == ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]
        assert sizes == [3, 3, 1]
        assert (await control.list(Query(limit=7))).more is False
        with refused(EngineError, "a page of nothing"):
            await control.list(Query(limit=0))
        with refused(EngineError, "a page behind a run that is not there"):
            await control.list(Query(before="nobody"))


CHECKS: tuple[Check, ...] = (runs_are_filtered, pages_go_back_in_time)
