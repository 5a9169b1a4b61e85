"""A worker that is killed while it appends, again and again: what it had acknowledged must be there, once and whole.

``python tests/journal/killed.py --rounds 60`` does it as often as one likes and prints what it saw; the seed of a round
that fails is in its message.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from watchkeeper.engine import Lease, RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.messages import CallEnded, Event, ModelReplied, Result, TurnStarted

RUNS = 6
READY = b"ready\n"


def fact(run: str, n: int) -> Event:
    """The one fact that a run has at this number."""
    chance = random.Random(f"{run}/{n}")
    at: dict[str, Any] = {"n": n, "run": run, "at": 1e9 + n, "t": float(n), "turn": n, "slot": 1}
    kind = chance.random()
    if kind < 0.4:
        return TurnStarted(**at)
    if kind < 0.6:
        return ModelReplied(text=f"reply {n}", **at)
    length = 90_000 if kind > 0.98 else chance.randrange(2000)
    return CallEnded(result=Result(f"c{n}", "look", "finished", f"{n} ".ljust(length, "x")), **at)


def is_entry(event: Event) -> bool:
    return not isinstance(event, TurnStarted)


async def work(folder: Path, seed: int) -> None:
    """Append to all runs, and say so of each batch once it is acknowledged, until one is killed."""
    async with SqliteEngine(folder, worker="main") as engine, anyio.create_task_group() as tasks:
        leases = aiter(engine.leases(lambda: RUNS))
        held = [await anext(leases) for _ in range(RUNS)]
        os.write(1, READY)
        for lease in held:
            tasks.start_soon(append, lease, random.Random(f"{seed}/{lease.run}"))


async def append(lease: Lease, chance: random.Random) -> None:
    n = 0
    async for event in lease.facts():
        n += 1
        assert event == fact(lease.run, n), f"fact {n} of {lease.run} is another one"
    while True:
        batch = [fact(lease.run, n + more) for more in range(1, chance.randrange(1, 8))]
        await lease.append(batch, {"team/facts": len(batch)})
        n += len(batch)
        os.write(1, f"{lease.run} {n}\n".encode())


def kill_once(folder: Path, backend: str, seed: int, acknowledged: dict[str, int]) -> int:
    """One life of the worker, ended by SIGKILL after a random number of acknowledgements; how many there were."""
    chance = random.Random(seed)
    command = [sys.executable, __file__, "--work", str(folder), "--backend", backend, "--seed", str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == READY, f"seed {seed}: the worker did not come up"
        for _ in range(chance.randrange(1, 60)):
            _note(process.stdout.readline(), acknowledged)
        time.sleep(chance.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.readlines()  # what it had still written into the pipe counts as well
        for line in rest:
            if line.endswith(b"\n"):
                _note(line, acknowledged)
    assert process.returncode == -signal.SIGKILL, f"seed {seed}: it ended by itself with {process.returncode}"
    return len(rest)


def _note(line: bytes, acknowledged: dict[str, int]) -> None:
    run, n = line.split()
    acknowledged[run.decode()] = int(n)


async def prepare(folder: Path) -> None:
    async with SqliteEngine(folder) as engine:
        for number in range(RUNS):
            await engine.submit(RunSpec(agent="a", task="t"), run=f"run{number}")


async def check(folder: Path, acknowledged: dict[str, int], what: str) -> int:
    """All that was acknowledged is there, numbered without gaps, and each charge and entry is there once."""
    total = entries = 0
    async with SqliteEngine(folder) as engine:
        for number in range(RUNS):
            run = f"run{number}"
            status = await engine.get(run)
            assert status.n >= acknowledged.get(run, 0), f"{what}: {run} lost what it had acknowledged"
            if status.n:
                n = 0
                async for event in engine.watch(run):
                    n += 1
                    assert event == fact(run, n), f"{what}: fact {n} of {run}"
                    entries += is_entry(fact(run, n))
                    if n == status.n:
                        break
            total += status.n
    with sqlite3.connect(folder / "workers" / "main.db") as connection:
        charged = connection.execute("SELECT coalesce(sum(amount), 0) FROM charge").fetchone()[0]
        kept = connection.execute("SELECT count(*) FROM chunk, json_each(chunk.entries)").fetchone()[0]
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    assert charged == total, f"{what}: {charged} charged for {total} facts"
    assert kept == entries, f"{what}: {kept} journal entries, not {entries}"
    assert sound == "ok", f"{what}: {sound}"
    return total


def rounds(folder: Path, backend: str, number: int, seed: int) -> tuple[int, int]:
    """So many lives, each checked; the facts at the end, and the acknowledgements that came after the kill."""
    anyio.run(prepare, folder)
    acknowledged: dict[str, int] = {}
    late = total = 0
    for one in range(number):
        late += kill_once(folder, backend, seed + one, acknowledged)
        total = anyio.run(check, folder, acknowledged, f"seed {seed + one}")
    return total, late


def main() -> None:
    options_of = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options_of.add_argument("--rounds", type=int, default=60)
    options_of.add_argument("--seed", type=int, default=1)
    options_of.add_argument("--backend", default="asyncio", choices=("asyncio", "trio"))
    options_of.add_argument("--work", type=Path, help="be the worker, in this folder")
    options = options_of.parse_args()
    if options.work is not None:
        anyio.run(work, options.work, options.seed, backend=options.backend)
        return
    with tempfile.TemporaryDirectory(prefix="watchkeeper-killed-") as place:
        total, late = rounds(Path(place), options.backend, options.rounds, options.seed)
    print(f"{options.rounds} kills on {options.backend}, seeds from {options.seed}: {total} facts, none lost;")
    print(f"{late} acknowledgements were read after the kill")


if __name__ == "__main__":
    main()
