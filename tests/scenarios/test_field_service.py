"""The journal under torn files and many writers, and cancels that come too late, twice, or for nobody."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from service.standing import standing
from support import scripted
from watchkeeper import Agent, Supervisor
from watchkeeper.engine import EngineError, Query, RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.messages import RunEnded
from watchkeeper.testing import say
from watchkeeper.testing.conformance.ground import Facts, taken

pytestmark = pytest.mark.anyio

SPEC = RunSpec(agent="clerk", task="File the letters")
FRAME = 24 + 4096
"""Bytes of one frame of a write-ahead log: its head and a page."""


async def facts_in(folder: Path) -> list[object]:
    async with SqliteEngine(folder, worker="main") as engine:
        lease = await taken(engine)
        return [fact async for fact in lease.facts()]


async def go_on(folder: Path, facts: Facts) -> list[object]:
    """All facts, once a worker has gone on from what is there."""
    async with SqliteEngine(folder, worker="main") as engine:
        lease = await taken(engine)
        await lease.append(facts.turn(7))
        return [fact async for fact in lease.facts()]


async def test_jrnl_01_a_log_that_is_cut_anywhere_in_its_last_record_loses_no_other(tmp_path: Path) -> None:
    whole, journal = tmp_path / "whole", Path("workers") / "main.db-wal"
    facts = Facts("one")
    async with SqliteEngine(tmp_path / "engine", worker="main") as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *facts.turn(1)])
        before, began = list(facts.made), (tmp_path / "engine" / journal).stat().st_size
        await lease.append(facts.turn(2, content="a result that is told from others " * 200))
        shutil.copytree(tmp_path / "engine", whole, ignore=shutil.ignore_patterns("*.sock"))
    end = (whole / journal).stat().st_size
    assert end > began + 2 * FRAME
    assert await facts_in(await _copied(whole, tmp_path / "uncut")) == facts.made
    frames = range(began, end, FRAME)
    for at in sorted({*frames, *(frame - 1 for frame in frames), *(frame + 25 for frame in frames), end - 1}):
        if at < began:
            continue
        cut = await _copied(whole, tmp_path / f"cut{at}")
        with (cut / journal).open("r+b") as file:
            file.truncate(at)
        known = Facts("one")
        known.made = list(before)
        assert await go_on(cut, known) == known.made, f"cut at {at - began} of {end - began}"
        assert await facts_in(cut) == known.made


async def _copied(folder: Path, to: Path) -> Path:
    await anyio.to_thread.run_sync(shutil.copytree, folder, to)
    return to


async def test_jrnl_02_what_is_damaged_in_the_middle_is_refused_and_never_a_beginning(tmp_path: Path) -> None:
    whole, facts = tmp_path / "whole", Facts("one")
    async with SqliteEngine(whole, worker="main") as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *(fact for number in range(1, 9) for fact in facts.turn(number))])
    data = (whole / "workers" / "main.db").read_bytes()
    used = [at for at in range(4096, len(data) - 64) if 0 not in data[at : at + 64]]
    chance, seen = random.Random(3), Counter[str]()
    for number in range(25):
        at = chance.choice(used)
        put = bytes(64) if number % 2 else bytes([data[at] ^ (1 << chance.randrange(8))])
        copy = await _copied(whole, tmp_path / f"copy{number}")
        (copy / "workers" / "main.db").write_bytes(data[:at] + put + data[at + len(put) :])
        found = await _facts_or_error(copy)
        if isinstance(found, str):
            seen["refused"] += 1
            assert str(copy) in found, "what is damaged is named"
        else:
            # A letter within a value may be another one: values have no checksum of their own.
            seen["read"] += 1
            assert len(found) == len(facts.made), f"byte {at}: only a part of it was read"
    assert seen["refused"] >= 10, seen


async def _facts_or_error(folder: Path) -> list[object] | str:
    try:
        return await facts_in(folder)
    except EngineError as error:
        return str(error)


def _deferred(path: Path, failed: list[str], transactions: int) -> None:
    """The control: read, then write, in a transaction that is begun as SQLite does by default."""
    connection = sqlite3.connect(path, timeout=5, isolation_level=None)
    for _ in range(transactions):
        try:
            connection.execute("BEGIN")
            (count,) = connection.execute("SELECT n FROM counter").fetchone()
            connection.execute("UPDATE counter SET n = ?", (count + 1,))
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            failed.append(str(error))
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    connection.close()


def _control_fails(path: Path, writers: int, transactions: int) -> list[str]:
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE counter (n); INSERT INTO counter VALUES (0)")
    connection.close()
    failed: list[str] = []
    threads = [threading.Thread(target=_deferred, args=(path, failed, transactions)) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


async def test_sqlt_01_four_writers_that_read_and_then_write_never_fail(tmp_path: Path) -> None:
    failed = await anyio.to_thread.run_sync(_control_fails, tmp_path / "control.db", 4, 300)
    assert failed, "1,200 deferred transactions of four writers: some are refused"
    assert set(failed) == {"database is locked"}
    engines = [SqliteEngine(tmp_path / "engine") for _ in range(4)]

    async def submit(engine: SqliteEngine, number: int) -> None:
        for count in range(300):  # the same ids from all: each looks whether the run is there, and writes if not
            await engine.submit(SPEC, run=f"r{(count + 75 * number) % 300}")

    async with engines[0], engines[1], engines[2], engines[3], anyio.create_task_group() as group:
        for number, engine in enumerate(engines):
            group.start_soon(submit, engine, number)
    async with SqliteEngine(tmp_path / "engine") as engine:
        page = await engine.list(Query(limit=1000))
        assert sorted(status.run for status in page.runs) == sorted(f"r{number}" for number in range(300))


WRITER = """
import sys, anyio
from watchkeeper.engine import RunSpec
from watchkeeper.journal import SqliteEngine

async def main():
    async with SqliteEngine(sys.argv[1]) as engine:
        async with anyio.create_task_group() as group:
            for number in range(25):
                group.start_soon(submit, engine, f"{sys.argv[2]}-{number}")

async def submit(engine, run):
    await engine.submit(RunSpec(agent="clerk", task="File the letters"), run=run)

anyio.run(main, backend=sys.argv[3])
"""


async def test_sqlt_02_four_processes_write_at_once_and_all_of_it_lands(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, f"p{number}", anyio_backend_name]) for number in range(4)]
    for writer in writers:
        assert await anyio.to_thread.run_sync(writer.wait, 60) == 0
    async with SqliteEngine(tmp_path) as engine:
        page = await engine.list(Query(limit=1000))
    assert {status.run for status in page.runs} == {f"p{of}-{number}" for of in range(4) for number in range(25)}


async def test_race_05_secu_04_a_cancel_too_late_twice_or_for_nobody_changes_nothing() -> None:
    async with standing() as stands:
        stands.facts.end()
        await stands.lease.append(stands.facts.made[-2:])
        await stands.lease.release()
        ended = await stands.ask("GET", "/v1/runs/one", token="read")
        unknown = [await stands.ask("POST", "/v1/runs/nobody/cancel", {}, token="run") for _ in range(2)]
        assert [reply.status for reply in unknown] == [404, 404]
        assert unknown[0].json == unknown[1].json
        for _ in range(2):
            late = await stands.ask("POST", "/v1/runs/one/cancel", {"reason": "late"}, token="run")
            assert (late.status, late.json["outcome"]) == (202, ended.json["outcome"])
        assert (await stands.ask("GET", "/v1/runs/one", token="read")).json == ended.json
        # Who may not cancel learns nothing of which runs there are: the answer is the same for all of them.
        refused = [await stands.ask("POST", f"/v1/runs/{run}/cancel", {}, token="read") for run in ("one", "nobody")]
        assert [reply.status for reply in refused] == [403, 403]
        assert {key: refused[0].json[key] for key in ("type", "detail")} == {
            key: refused[1].json[key] for key in ("type", "detail")
        }


async def test_canc_10_a_client_is_entered_and_left_by_one_owner_and_others_only_ask_it(tmp_path: Path) -> None:
    """The engine is opened in one task, asked by others that come and go or are cancelled, and closed by the first."""
    engine = SqliteEngine(tmp_path, worker="main")
    async with engine, Supervisor(engine=engine, agents={"clerk": Agent(scripted(*[say("Filed.")] * 8), [])}) as keeper:
        runs: list[str] = []

        async def ask() -> None:
            runs.append((await keeper.submit(SPEC)).run)

        for _ in range(4):  # each request is a scope of its own; half of them end by a cancel
            async with anyio.create_task_group() as request:
                request.start_soon(ask)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await keeper.submit(SPEC)
        ends: list[RunEnded] = []
        for run in runs:
            with anyio.fail_after(30):
                ends += [fact async for fact in engine.watch(run) if isinstance(fact, RunEnded)]
        assert len(ends) == 4
