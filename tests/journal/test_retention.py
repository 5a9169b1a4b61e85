"""What is deleted of runs that have ended, and what is still known of them."""

from __future__ import annotations

import sqlite3
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from watchkeeper.engine import Lease, Query, UnknownRun
from watchkeeper.journal import MemoryEngine, SqliteEngine, retention
from watchkeeper.log import Gap
from watchkeeper.seams import Seams
from watchkeeper.testing.conformance.ground import AT, SPEC, Facts, taken

pytestmark = pytest.mark.anyio

NOW = AT + 100_000


def later() -> Seams:
    """A clock long after the facts that are made here; each look at it is a millisecond later."""
    seams, looks = Seams(), count()
    seams.wall = lambda: NOW + next(looks) / 1000
    return seams


async def ended(engine: Any, run: str, content: str = "x") -> Facts:
    await engine.submit(SPEC, run=run)
    facts, child = Facts(run), Facts(f"{run}.1", run)
    lease = await taken(engine)
    assert lease.run == run
    await lease.append([*facts.start(), *child.start(), *child.end(), *facts.turn(1, content=content), *facts.end()])
    await lease.release()
    return facts


async def seen(engine: Any, run: str, after: int = 0) -> list[Any]:
    found = [one async for one in engine.watch(run, after)]
    return [(one.first, one.last) if isinstance(one, Gap) else one for one in found]


def rows(folder: Path) -> dict[str, int]:
    with sqlite3.connect(folder / "workers" / "main.db") as connection:
        tables = ("run", "chunk", "blob", "blob_use")
        found = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    connection.close()
    return found


async def test_old_trees_lose_their_facts_and_keep_their_outcome(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main", seams=later()) as engine:
        old = await ended(engine, "old", "o" * 100_000)
        await engine.submit(SPEC, run="new")
        new = Facts("new")
        made = [*new.start(), *new.turn(1, content="o" * 100_000), *new.end()]
        events = [msgspec.structs.replace(event, at=NOW - 10) for event in made]
        lease: Lease = await taken(engine)
        await lease.append(events)
        await lease.release()
        await engine.submit(SPEC, run="open")
        open_lease = await taken(engine)
        opened = Facts("open")
        await open_lease.append(opened.start())
        assert await engine.prune(older_than=1000) == 1
        n = len(old.made)
        assert await seen(engine, "old") == [(1, n)]
        assert await seen(engine, "old", 3) == [(4, n)]
        assert await seen(engine, "old", n) == []
        assert await seen(engine, "old.1") == [(1, 4)]
        status = await engine.get("old")
        assert status.outcome is not None
        assert (status.outcome.answer, status.n) == ("done", n)
        assert await seen(engine, "new") == events
        assert [one.run for one in (await engine.list(Query())).runs] == ["open", "new", "old"]
        assert rows(tmp_path) == {"run": 4, "chunk": 2, "blob": 1, "blob_use": 1}
        assert await engine.prune(older_than=0) == 1
        assert rows(tmp_path) == {"run": 4, "chunk": 1, "blob": 0, "blob_use": 0}
        await open_lease.append(opened.turn(1))
        assert [event async for event in open_lease.facts()] == opened.made


async def test_beyond_a_size_the_oldest_go_first(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main", seams=later()) as engine:
        for number in range(6):
            await ended(engine, f"r{number}", f"{number}" * 150_000)
        assert await engine.prune(larger_than=10_000_000) == 0
        assert await engine.prune(larger_than=600_000) == 3
        gone = [number for number in range(6) if isinstance((await seen(engine, f"r{number}"))[0], tuple)]
        assert gone == [0, 1, 2]
        assert await engine.prune(larger_than=0) == 3
        used = await engine.files["main"].desk.ask(lambda book: retention.size(book.connection))
    assert used < 200_000
    assert (tmp_path / "workers" / "main.db").stat().st_size < 200_000


async def test_of_the_many_only_the_newest_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROWS", 2)
    async with SqliteEngine(tmp_path, worker="main", seams=later()) as engine:
        for number in range(5):
            await ended(engine, f"r{number}")
        for number in range(4):
            await engine.submit(SPEC, run=f"q{number}")
            await engine.cancel(f"q{number}")
        assert await engine.prune(older_than=0) == 5
        assert [one.run for one in (await engine.list(Query())).runs] == ["q3", "q2", "r4", "r3"]
        with pytest.raises(UnknownRun):
            await engine.get("r2")
        with pytest.raises(UnknownRun):
            await engine.get("q0")
        assert (await engine.submit(SPEC, run="r0")).state == "queued"


async def test_what_is_not_given_back_yet_stays(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main", seams=later()) as engine:
        await engine.submit(SPEC, run="one")
        facts = Facts("one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *facts.end()])
        assert await engine.prune(older_than=0) == 0
        await lease.release()
        assert await engine.prune(older_than=0) == 1


async def test_memory_keeps_a_bounded_number_of_runs() -> None:
    async with MemoryEngine(kept=2, seams=later()) as engine:
        for number in range(30):
            await ended(engine, f"r{number}")
        with_facts = [
            one.run
            for one in (await engine.list(Query(limit=100))).runs
            if not isinstance((await seen(engine, one.run))[0], tuple)
        ]
        assert with_facts == ["r29", "r28"]
        assert len((await engine.list(Query(parent="", limit=100))).runs) == 2 * (2 + 20)
        with pytest.raises(UnknownRun):
            await engine.get("r0")
        assert await engine.prune(older_than=0) == 2
        assert await seen(engine, "r29") == [(1, 9)]
