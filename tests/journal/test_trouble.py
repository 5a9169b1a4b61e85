"""What can be wrong with files: an error names the file and the remedy, and nothing acknowledged is lost."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import anyio
import msgspec
import pytest

from watchkeeper.engine import Ended, EngineError, Lease, Query, RunSpec, Steer, Unavailable, Unusable
from watchkeeper.journal import MemoryEngine, SqliteEngine, database, lock
from watchkeeper.journal.control import connect_control
from watchkeeper.journal.lock import is_held
from watchkeeper.journal.schema import WORKER
from watchkeeper.testing.conformance.ground import SPEC, Facts, drained, taken

pytestmark = pytest.mark.anyio


async def begun(engine: SqliteEngine) -> tuple[Lease, Facts]:
    await engine.submit(SPEC, run="one")
    lease = await taken(engine)
    facts = Facts("one")
    await lease.append(facts.start())
    return lease, facts


def file_of(folder: Path) -> Path:
    return folder / "workers" / "main.db"


async def test_a_full_disk_is_said_and_what_was_asked_can_be_asked_again(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        lease, facts = await begun(engine)
        desk = engine.files["main"].desk
        before = await desk.ask(lambda book: book.connection.execute("PRAGMA page_count").fetchone()[0])
        await desk.ask(lambda book: book.connection.execute(f"PRAGMA max_page_count={before}").fetchone())
        batch = facts.turn(1, content="x" * 50_000)
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"main\.db cannot be used: .*the disk is full; make room"):
                await lease.append(batch, {"team/calls": 1})
        assert not lease.lost
        assert (await engine.get("one")).n == 2
        await desk.ask(lambda book: book.connection.execute("PRAGMA max_page_count=1000000").fetchone())
        await lease.append(batch, {"team/calls": 1})
        await lease.append([*batch, *facts.turn(2)])
        assert await drained(lease) == facts.made
        assert await desk.ask(lambda book: book.charged("one")) == {("team", "calls"): 1}


async def test_one_append_too_many_takes_those_beside_it_along_and_all_can_be_made_again(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        for run in "ab":
            await engine.submit(SPEC, run=run)
        leases = aiter(engine.leases(lambda: 2))
        first, second = await anext(leases), await anext(leases)
        desk = engine.files["main"].desk
        before = await desk.ask(lambda book: book.connection.execute("PRAGMA page_count").fetchone()[0])
        await desk.ask(lambda book: book.connection.execute(f"PRAGMA max_page_count={before}").fetchone())
        large, small = Facts(first.run).start(task="x" * 60_000), Facts(second.run).start()
        failed = []

        async def append(lease: Lease, batch: list[Any]) -> None:
            try:
                await lease.append(batch)
            except EngineError:
                failed.append(lease.run)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(append, first, large)
            tasks.start_soon(append, second, small)
        assert first.run in failed
        await desk.ask(lambda book: book.connection.execute("PRAGMA max_page_count=1000000").fetchone())
        await first.append(large)
        await second.append(small)
        assert await drained(first) == large
        assert await drained(second) == small


async def test_what_is_odd_of_one_job_is_its_own(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        lease, facts = await begun(engine)
        desk, go = engine.files["main"].desk, threading.Event()
        desk.tell(lambda book: go.wait(5))  # what is asked meanwhile comes into one batch

        async def odd() -> None:
            with pytest.raises(EngineError, match=r"main\.db does not take this: KeyError: 'odd'"):
                await desk.ask(lambda book: {}["odd"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lease.append, facts.turn(1))
            tasks.start_soon(odd)
            await anyio.wait_all_tasks_blocked()
            go.set()
        assert await drained(lease) == facts.made


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_half_a_character_is_kept_as_a_sign_for_it(kind: str, tmp_path: Path) -> None:
    async with MemoryEngine() if kind == "memory" else SqliteEngine(tmp_path, worker="main") as engine:
        spec = RunSpec(agent="clerk", task="a \ud800 b", labels={"x": "\udc80"})
        made = await engine.submit(spec, run="one")
        assert (made.spec.task, made.spec.labels) == ("a \ufffd b", {"x": "\ufffd"})
        assert await engine.submit(spec, run="one") == made
        lease = await taken(engine)
        for _ in range(2):
            assert await engine.send("one", Steer(id="c1", text="half \udc80")) == "c1"
        assert await anext(aiter(lease.commands())) == Steer(id="c1", run="one", text="half \ufffd")
        facts, child = Facts("one"), Facts("two", parent="one")
        await lease.append([*facts.start(), *child.start(task="a \ud800 task"), *facts.end(answer="half \ud800")])
        assert (await engine.get("two")).state == "running"
        assert (await engine.get("one")).state == "ended"


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_what_comes_after_the_end_is_told_from_what_can_be_asked_again(kind: str, tmp_path: Path) -> None:
    async with MemoryEngine() if kind == "memory" else SqliteEngine(tmp_path, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        facts, child = Facts("one"), Facts("two", parent="one")
        await lease.append([*facts.start(), *child.start(), *facts.end()])
        with pytest.raises(Ended, match="run one has its end record"):
            await lease.append(child.end())


async def test_a_locked_file_is_waited_for_and_then_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY", 0.1)
    async with SqliteEngine(tmp_path, worker="main") as engine:
        lease, facts = await begun(engine)
        other = sqlite3.connect(file_of(tmp_path), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        batch = facts.turn(1)
        with pytest.raises(Unavailable, match=r"main\.db .*locked"):
            await lease.append(batch)
        other.execute("ROLLBACK")
        other.close()
        await lease.append(batch)
        assert await drained(lease) == facts.made


async def test_a_file_that_is_deleted_under_us_takes_nothing_more(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        lease, facts = await begun(engine)
        file_of(tmp_path).unlink()
        with pytest.raises(Unusable, match=r"main\.db was deleted or replaced"):
            await lease.append(facts.turn(1))
        shutil.rmtree(tmp_path)
        with pytest.raises(Unusable, match=r"control\.db was deleted or replaced"):
            await engine.list(Query())
        with pytest.raises(Unusable, match=r"control\.db was deleted or replaced"):
            await engine.limits.define("team", {"calls": 1})


async def test_without_its_lock_a_lease_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "MOMENT", 0.0)
    async with SqliteEngine(tmp_path, worker="main") as engine:
        lease, facts = await begun(engine)
        file_of(tmp_path).with_suffix(".lock").unlink()
        assert lease.lost
        with pytest.raises(Unusable, match=r"the lock of .*main\.db was deleted"):
            await lease.append(facts.turn(1))


ANOTHER = """
import anyio, sys
from watchkeeper.engine import Query
from watchkeeper.journal import SqliteEngine

async def main():
    async with SqliteEngine(sys.argv[1]) as engine:
        print(*(one.run for one in (await engine.list(Query())).runs))

anyio.run(main)
"""


async def test_a_process_that_leaves_takes_no_file_away_from_those_that_stay(tmp_path: Path) -> None:
    """Also where one process has the file open twice: SQLite deletes its log when nobody seems to be left."""
    another = [sys.executable, "-c", ANOTHER, str(tmp_path)]
    async with SqliteEngine(tmp_path) as engine:
        with closing(connect_control(tmp_path)):  # as for tokens
            for run in "ab":
                await engine.submit(SPEC, run=run)
                seen = (await anyio.run_process(another)).stdout.split()
                assert run.encode() in seen


async def test_a_file_that_cannot_be_read_makes_no_worker_deaf(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine, SqliteEngine(tmp_path) as other:
        (tmp_path / "workers" / "odd.db").write_bytes(b"odd" * 2000)
        leases, found = aiter(engine.leases(lambda: 1)), []

        async def take() -> None:
            found.append((await anext(leases)).run)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(10):
                await other.control.ask(lambda control: control.submit("one", SPEC, 0.0))
                while not found:
                    await anyio.sleep(0.01)
        assert found == ["one"]
        with pytest.raises(Unusable, match=r"odd\.db cannot be used: file is not a database"):
            await other.list(Query())


async def test_a_worker_is_one_process_at_a_time(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        assert engine.alive("main")
        assert not engine.alive("other")
        with pytest.raises(EngineError, match=rf"main\.lock is held by another process \({os.getpid()}\)"):
            async with SqliteEngine(tmp_path, worker="main"):
                pass
        async with SqliteEngine(tmp_path, worker="other") as second:
            with pytest.raises(EngineError, match="is held by another process"):
                await second.adopt("main")
    assert not is_held(file_of(tmp_path).with_suffix(".lock"))


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_what_cannot_be_is_told_from_what_cannot_be_now(kind: str, tmp_path: Path) -> None:
    engine = MemoryEngine() if kind == "memory" else SqliteEngine(tmp_path, worker="main")
    async with engine:
        await engine.submit(SPEC, run="one")
        await engine.send("one", Steer(id="c1", text="Be quick."))
        for wrong in (
            lambda: engine.submit(RunSpec(agent="clerk", task="Something else."), run="one"),
            lambda: engine.send("one", Steer(id="c1", text="Be slow.")),
            lambda: engine.answered("one", "c2"),
        ):
            with pytest.raises(EngineError) as failed:
                await wrong()
            assert not isinstance(failed.value, Unavailable | Unusable)
    with pytest.raises(Unavailable, match="not open"):
        await engine.get("one")


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RunSpec(agent="", task="t"), r"RunSpec\.agent is empty"),
        (RunSpec(agent="a", task="t", labels={str(n): "" for n in range(65)}), "at most 64 labels, not 65"),
        (RunSpec(agent="a", task="t", labels={"": "x"}), "up to 256 characters: ''"),
        (RunSpec(agent="a", task="t", labels={"x": "y" * 257}), "up to 256 characters: 'x'"),
    ],
)
async def test_what_no_run_can_be_is_refused(kind: str, spec: RunSpec, said: str, tmp_path: Path) -> None:
    async with MemoryEngine() if kind == "memory" else SqliteEngine(tmp_path) as engine:
        with pytest.raises(EngineError, match=said) as failed:
            await engine.submit(spec, run="one")
        assert not isinstance(failed.value, Unavailable | Unusable)
        assert not (await engine.list(Query())).runs
        most = RunSpec(agent="a", task="t", labels={str(n): "y" * 256 for n in range(64)})
        assert (await engine.submit(most, run="one")).spec == most


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, Unavailable), (errno.EMFILE, Unavailable), (errno.EACCES, Unusable)]
)
def test_of_what_the_system_says_some_passes(number: int, kind: type[EngineError]) -> None:
    assert type(database.cannot(Path("a.db"), OSError(number, os.strerror(number)))) is kind


def test_what_cannot_be_read_is_damage_and_not_the_disk() -> None:
    with pytest.raises(msgspec.DecodeError) as failed:
        msgspec.json.decode(b"{")
    told = database.cannot(Path("a.db"), failed.value)
    assert type(told) is Unusable
    assert "a.db cannot be used: what is in it is not what was written there" in str(told)


async def test_without_a_thread_nothing_is_opened_and_it_can_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        with pytest.raises(
            Unavailable, match=r"\.db cannot be used: no thread could be started \(can't start new thread"
        ):
            async with SqliteEngine(tmp_path, worker="main"):
                pass
    async with SqliteEngine(tmp_path, worker="main") as engine:
        await begun(engine)


def garbage(path: Path) -> None:
    path.write_bytes(b"This is no database. " * 1000)


def foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()


def newer(path: Path) -> None:
    connect_control(path.parent).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (garbage, "file is not a database.*move the file away"),
        (foreign, "is a file of another program"),
        (newer, "was written by a newer watchkeeper .*version 99"),
        (a_folder, "Is a directory"),
    ],
)
async def test_a_file_that_is_not_ours_is_left_alone(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(Unusable, match=rf"control\.db .*{said}"):
        async with SqliteEngine(tmp_path):
            pass
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "is not there"),
        (garbage, "file is not a database.*move the file away"),
        (foreign, "is a file of another program"),
    ],
)
def test_so_is_one_that_is_read_only(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "main.db"
    make(path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Unusable, match=rf"main\.db .*{said}"):
        database.connect_reader(path, WORKER)
    assert sorted(tmp_path.iterdir()) == before


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path, worker="main") as engine:
        await begun(engine)
    path = file_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(Unusable, match=r"main\.db cannot be used: .*it is damaged; move it away"):
        async with SqliteEngine(tmp_path, worker="main"):
            pass
    assert not is_held(path.with_suffix(".lock"))


async def test_a_folder_that_cannot_be_is_named() -> None:
    with pytest.raises(EngineError, match=r"/proc/watchkeeper.* cannot be used: .*this user may write there"):
        async with SqliteEngine("/proc/watchkeeper"):
            pass


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder of somebody else's, into which this user may look and not write."""
    folder = Path(mkdtemp(prefix="watchkeeper-"))
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


async def test_a_folder_that_is_closed_to_us_is_named(closed_folder: Path) -> None:
    for worker in (None, "main"):
        with pytest.raises(Unusable, match=r"control\.db cannot be used: Permission denied; check that this user"):
            async with SqliteEngine(closed_folder, worker=worker):
                pass


async def test_what_is_not_executed_here_is_said(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path) as engine:
        with pytest.raises(EngineError, match="gives no leases; name one"):
            await anext(aiter(engine.leases(lambda: 1)))
        with pytest.raises(EngineError, match="adopts no runs"):
            await engine.adopt("main")
        with pytest.raises(EngineError, match="is open already"):
            await engine.__aenter__()
    async with SqliteEngine(tmp_path, worker="main") as engine:
        with pytest.raises(EngineError, match="this engine is the worker 'main', not 'other'"):
            engine.leases(lambda: 1, worker="other")
    with pytest.raises(EngineError, match="no spaces and no slashes"):
        SqliteEngine(tmp_path, worker="../main")
