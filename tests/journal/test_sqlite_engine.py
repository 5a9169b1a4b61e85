"""The engine in SQLite: what every engine does, several processes in one folder, and what is in the files."""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from watchkeeper.engine import Engine, EngineError, Query, RunSpec, Steer
from watchkeeper.journal import SqliteEngine, hints
from watchkeeper.journal.readings import LARGEST
from watchkeeper.messages import CallEnded, CallStarted, Result
from watchkeeper.testing import VirtualSeams
from watchkeeper.testing.conformance import CHECKS, Check
from watchkeeper.testing.conformance.ground import PATIENCE, SPEC, Facts, taken
from watchkeeper.testing.virtual import EPOCH

pytestmark = pytest.mark.anyio

ENTRIES = "SELECT entry.key, entry.value FROM chunk, json_each(chunk.entries) AS entry"


class InAFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @asynccontextmanager
    async def worker(self, name: str = "main") -> AsyncIterator[Engine]:
        async with SqliteEngine(self.folder, worker=name) as engine:
            yield engine

    @asynccontextmanager
    async def control(self) -> AsyncIterator[Engine]:
        async with SqliteEngine(self.folder) as engine:
            yield engine


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_it_is_an_engine(check: Check, tmp_path: Path) -> None:
    await check(InAFolder(tmp_path))


def ask(path: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(path)
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


async def test_workers_share_a_queue_and_each_run_is_given_once(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path) as control, SqliteEngine(tmp_path, worker="a") as a:
        for number in range(20):
            await control.submit(SPEC, run=f"r{number}")
        async with SqliteEngine(tmp_path, worker="b") as b:
            given: dict[str, list[str]] = {"a": [], "b": []}
            done = anyio.Event()

            async def take(engine: SqliteEngine, name: str) -> None:
                async for lease in engine.leases(lambda: 2):
                    given[name].append(lease.run)
                    if sum(map(len, given.values())) == 20:
                        done.set()

            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(take, a, "a")
                    tasks.start_soon(take, b, "b")
                    await done.wait()
                    tasks.cancel_scope.cancel()
            assert sorted(given["a"] + given["b"]) == sorted(f"r{number}" for number in range(20))
            assert {one.worker for one in (await control.list(Query())).runs} <= {"a", "b"}


async def test_what_was_claimed_and_never_came_into_the_file_is_given_out(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        await engine.submit(SPEC, run="two")
        # The process dies between the claim and what follows it.
        await engine.control.ask(lambda control: control.claim("main", 1))
        assert [one.run for one in (await engine.list(Query(states=("queued",)))).runs] == ["two", "one"]
    async with SqliteEngine(tmp_path, worker="main") as engine:
        leases = aiter(engine.leases(lambda: 1))
        got = [await anext(leases), await anext(leases)]
        assert [(lease.run, lease.attempt, lease.crashes) for lease in got] == [("one", 1, 0), ("two", 1, 0)]


async def test_a_claim_that_broke_off_is_made_good(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        desk = engine.files["main"].desk
        pages = await desk.ask(lambda book: book.connection.execute("PRAGMA page_count").fetchone()[0])
        await desk.ask(lambda book: book.connection.execute(f"PRAGMA max_page_count={pages}").fetchone())
        await engine.submit(RunSpec(agent="a", task="x" * 100_000), run="large")
        leases = aiter(engine.leases(lambda: 8))
        with pytest.raises(EngineError, match="the disk is full"):
            await anext(leases)
        await desk.ask(lambda book: book.connection.execute("PRAGMA max_page_count=1000000").fetchone())
        with anyio.fail_after(PATIENCE):
            got = [(await anext(leases)).run, (await anext(leases)).run]
        assert sorted(got) == ["large", "one"]


async def test_a_lease_that_broke_off_is_given_again(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        leases = aiter(engine.leases(lambda: 1))
        await engine.claim(1)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(leases)
        with anyio.fail_after(PATIENCE):
            assert (await anext(leases)).run == "one"


async def test_a_dead_workers_file_is_adopted(tmp_path: Path) -> None:
    facts = Facts("one")
    async with SqliteEngine(tmp_path, worker="a") as a:
        await a.submit(SPEC, run="one")
        lease = await taken(a)
        await lease.append([*facts.start(), *facts.turn(1)])
    async with SqliteEngine(tmp_path, worker="b") as b:
        assert not b.alive("a")
        await b.adopt("a")
        await b.adopt("a")
        lease = await taken(b)
        assert (lease.run, lease.attempt) == ("one", 2)
        assert [event async for event in lease.facts()] == facts.made
        assert (await b.get("one")).worker == "b"
        await lease.append(facts.end())
        await lease.release()
        assert (await b.get("one")).state == "ended"
        assert not (await b.list(Query(states=("running",)))).runs
    assert ask(tmp_path / "workers" / "a.db", "SELECT count(*) FROM run") == [(1,)]


async def test_a_hint_spares_the_wait_for_the_next_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "LOOK", 3600.0)
    async with SqliteEngine(tmp_path, worker="main") as engine, SqliteEngine(tmp_path) as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        commands = aiter(lease.commands())
        with anyio.fail_after(PATIENCE):
            for number in range(5):
                await control.send("one", Steer(text="x", id=f"s{number}"))
                assert (await anext(commands)).id == f"s{number}"
        stale = tmp_path / "hints" / "gone.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(os.path.relpath(stale))
        await control.send("one", Steer(text="x", id="last"))
        with anyio.fail_after(PATIENCE):
            assert (await anext(commands)).id == "last"
            while stale.exists():
                await anyio.sleep(0.01)
    assert not list((tmp_path / "hints").iterdir())


async def test_without_hints_one_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "LOOK", 0.05)
    (tmp_path / "hints").write_text("no folder")
    async with SqliteEngine(tmp_path, worker="main") as engine, SqliteEngine(tmp_path) as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        await control.send("one", Steer(text="x", id="s"))
        with anyio.fail_after(PATIENCE):
            assert (await anext(aiter(lease.commands()))).id == "s"


async def test_entries_are_named_once_and_by_attempt(tmp_path: Path) -> None:
    facts = Facts("one")
    async with SqliteEngine(tmp_path, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *facts.turn(1, slots=2)[:5]])
    del facts.made[7:]
    async with SqliteEngine(tmp_path, worker="main") as engine:
        lease = await taken(engine)
        started = facts.make(CallStarted, turn=1, slot=1, call_id="c1.1", tool="file")
        ended = facts.make(CallEnded, turn=1, slot=1, result=Result("c1.1", "file", "finished", "x"))
        await lease.append([started, ended])
        assert [event async for event in lease.facts()] == facts.made
    assert dict(ask(tmp_path / "workers" / "main.db", ENTRIES)) == {
        "user:0": 2,
        "model:1": 5,
        "tool:1:1:started": 6,
        "tool:1:2:started": 7,
        "tool:1:1:started@2": 8,
        "tool:1:1": 9,
    }


async def test_an_error_of_one_append_is_no_others(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        for run in "ab":
            await engine.submit(SPEC, run=run)
        leases = aiter(engine.leases(lambda: 2))
        first, second = await anext(leases), await anext(leases)
        refused = []

        async def wrong() -> None:
            try:
                await first.append(Facts("a").start()[1:])
            except EngineError as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.append, Facts("b").start())
            tasks.start_soon(wrong)
        assert len(refused) == 1
        assert [(await engine.get(run)).n for run in "ab"] == [0, 2]


@pytest.mark.virtual_time
async def test_virtual_time_waits_for_the_disk(tmp_path: Path) -> None:
    seams = VirtualSeams()
    async with SqliteEngine(tmp_path, worker="main", seams=seams) as engine:
        status = await engine.submit(SPEC)
        assert status.submitted < EPOCH + 1
        lease = await taken(engine)
        began = seams.clock()
        await lease.append(Facts(status.run).start())
        assert seams.clock() - began < 1


async def test_closing_waits_for_nobody_who_waits(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks, SqliteEngine(tmp_path, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await engine.send("one", Steer(text="x", id="s"))
        ended: list[str] = []

        async def follow(what: str, iterator: AsyncIterator[object]) -> None:
            try:
                async for _ in iterator:
                    pass
            except EngineError:
                ended.append(f"{what}: error")
            else:
                ended.append(what)

        async def answered() -> None:
            try:
                await engine.answered("one", "s")
            except EngineError:
                ended.append("answered: error")

        tasks.start_soon(follow, "watch", engine.watch("one"))
        tasks.start_soon(follow, "commands", lease.commands())
        tasks.start_soon(answered)
        await anyio.sleep(0.05)
    assert sorted(ended) == ["answered: error", "commands", "watch: error"]
    assert not [one.name for one in threading.enumerate() if one.name.startswith("watchkeeper-journal")]


async def test_a_status_that_holds_much_is_read_anew_and_one_that_holds_little_is_kept(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        for run, text in (("small", "File it"), ("large", "File it " * LARGEST)):
            await engine.submit(RunSpec(agent="clerk", task=text), run=run)
            lease, facts = await taken(engine), Facts(run)
            await lease.append(facts.start(task=text))
            first = await engine.get(run)
            assert (await engine.get(run) is first) == (run == "small")
            await lease.append(facts.turn(1))
            assert (await engine.get(run)).calls == 1
            await lease.append(facts.end())
            await lease.release()
            assert (await engine.get(run)).state == "ended"
