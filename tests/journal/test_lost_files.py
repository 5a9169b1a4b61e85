"""A worker's file that was deleted: its runs get an end, nothing of them is done again, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from watchkeeper.engine import Query, Steer, UnknownRun, Unusable
from watchkeeper.journal import SqliteEngine
from watchkeeper.journal.unstarted import LOST
from watchkeeper.testing.conformance.ground import SPEC, Facts, taken

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def deleted(folder: Path) -> AsyncIterator[SqliteEngine]:
    """The worker ``main`` had ended one run, begun another and claimed no more; its file is gone. Who only looks on."""
    async with SqliteEngine(folder, worker="main") as engine:
        await engine.submit(SPEC, run="ended")
        lease, facts = await taken(engine), Facts("ended")
        await lease.append([*facts.start(), *facts.end()])
        await lease.release()
        await engine.limits.define("team", {"calls": 5})
        await engine.submit(SPEC, run="open")
        lease = await taken(engine)
        await lease.append(Facts("open").start())
        await engine.control.ask(lambda control: control.grant("open", "team", {"calls": 3}))
    for file in (folder / "workers").glob("main.db*"):
        file.unlink()
    async with SqliteEngine(folder) as onlooker:
        yield onlooker


async def test_before_anybody_starts_it_is_said_what_is_gone(tmp_path: Path) -> None:
    async with deleted(tmp_path) as onlooker:
        status = await onlooker.get("open")
        assert (status.state, status.refused[:39]) == ("queued", "main.db, which had its facts, is gone: ")
        with pytest.raises(UnknownRun, match=r"it has ended, and its file, main\.db, is gone"):
            await onlooker.get("ended")
        with pytest.raises(UnknownRun, match=r"it has ended, and its file, main\.db, is gone"):
            await anext(onlooker.watch("ended"))


@pytest.mark.parametrize("worker", ["main", "other"])
async def test_the_next_worker_to_start_ends_what_is_lost(worker: str, tmp_path: Path) -> None:
    async with deleted(tmp_path) as onlooker:
        await onlooker.send("open", Steer(id="c1", text="Be quick."))
        heard = []

        async def follow() -> None:
            heard.extend([type(event).__name__ async for event in onlooker.watch("open")])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            async with SqliteEngine(tmp_path, worker=worker) as engine:
                status = await engine.get("open")
                assert status.state == "ended"
                assert status.outcome is not None
                assert (status.outcome.status, status.outcome.reason) == ("failed", LOST)
                assert not (await engine.answered("open", "c1")).taken
                assert await engine.limits.left("team") == {"calls": 2}
                await engine.submit(SPEC, run="next")
                assert (await taken(engine)).run == "next"
        assert heard == ["RunEnding", "RunEnded"]
        assert [one.run for one in (await onlooker.list(Query())).runs] == ["next", "open"]


async def test_what_was_claimed_and_had_not_come_to_the_file_is_for_the_next_worker(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path) as engine:
        await engine.submit(SPEC, run="one")
        await engine.control.ask(lambda control: control.claim("main", 1))
    async with SqliteEngine(tmp_path, worker="other") as engine:
        assert (await taken(engine)).run == "one"


async def test_a_worker_that_lives_keeps_what_it_has(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append(Facts("one").start())
        (tmp_path / "workers" / "main.db").unlink()
        async with SqliteEngine(tmp_path, worker="other") as other:
            assert (await other.get("one")).state == "queued"


@pytest.mark.parametrize("gone", ["main.db", "main.lock"])
async def test_a_worker_can_see_that_its_file_is_gone_before_it_writes(gone: str, tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        engine.check_files()
        (tmp_path / "workers" / gone).unlink()
        with pytest.raises(Unusable, match=r"main\.db was deleted or replaced"):
            engine.check_files()
