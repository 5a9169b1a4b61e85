"""One budget for the runs of two workers: two engines over one folder, in real time, on both back ends."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from support import BARE, of
from watchkeeper import Agent, Event, Limits, Supervisor, tool
from watchkeeper.engine import RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.messages import CallEnded, Overrun, RunEnded, Usage
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call

pytestmark = pytest.mark.anyio

HOLDS = {"tokens": 20_000.0, "calls": 20.0}


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def looking(request: Request, n: int) -> Step:
    return call(("look", {"what": f"page {n}"}), usage=Usage(200, 20))


def clerk(spec: RunSpec) -> Agent:
    return Agent(ScriptedModel(looking), [look], name="clerk", limits=Limits(reply_tokens=40), profile=BARE)


async def test_runs_of_two_workers_share_one_budget(tmp_path: Path) -> None:
    runs = [f"r{n}" for n in range(6)]
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(SqliteEngine(tmp_path, worker=name)) for name in ("w1", "w2")]
        control = await stack.enter_async_context(SqliteEngine(tmp_path))
        await control.limits.define("team", HOLDS)
        for run in runs:
            await control.submit(RunSpec(agent="clerk", task="Look at everything.", budget="team"), run=run)
        for engine in engines:  # neither has room for all
            boss = Supervisor(engine=engine, agents={"clerk": clerk}, max_runs=3, plugged=False, monitor=False)
            await stack.enter_async_context(boss)
        with anyio.fail_after(60):
            facts = [event for run in runs async for event in control.watch(run) if isinstance(event, Event)]
            assert {(await control.get(run)).worker for run in runs} == {"w1", "w2"}
            outcomes = [event.outcome for event in of(facts, RunEnded)]
            spent = {name: sum(one.spent.get(name, 0) for one in outcomes) for name in HOLDS}
            assert spent["calls"] == 20
            assert spent["tokens"] <= 20_000
            assert not of(facts, Overrun)
            told = [event.result.content for event in of(facts, CallEnded) if event.result.kind == "not_run"]
            assert all("the limit of 20 calls of the run is reached" in text for text in told)
            left = {name: HOLDS[name] - spent[name] for name in HOLDS}
            while await control.limits.left("team") != left:  # the last lease comes back behind the end record
                await anyio.sleep(0.005)


async def test_what_a_worker_held_that_has_died_comes_back_to_the_other_with_the_recovery(tmp_path: Path) -> None:
    spec = RunSpec(agent="clerk", task="Look at everything.", budget="team", limits={"max_calls": 2})
    async with SqliteEngine(tmp_path) as control:
        await control.limits.define("team", HOLDS)
        async with SqliteEngine(tmp_path, worker="w1") as engine:
            await control.submit(spec, run="r1")
            lease = await anext(aiter(engine.leases(lambda: 1)))
            assert (await lease.grant("team", HOLDS)).has == HOLDS
        assert await control.limits.left("team") == {"tokens": 0, "calls": 0}
        async with SqliteEngine(tmp_path, worker="w2") as engine:
            await engine.adopt("w1")
            async with Supervisor(engine=engine, agents={"clerk": clerk}, plugged=False, monitor=False):
                with anyio.fail_after(60):
                    facts = [event async for event in control.watch("r1") if isinstance(event, Event)]
                    spent = of(facts, RunEnded)[0].outcome.spent
                    left = {name: HOLDS[name] - spent[name] for name in HOLDS}
                    assert spent["calls"] == 2
                    while await control.limits.left("team") != left:
                        await anyio.sleep(0.005)
