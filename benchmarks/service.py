"""The service under load: live runs, viewers that are cut and come back, one that stalls, and requests beside it.

Three processes, as it is used: a worker that writes events of all runs at a steady rate, the service, and this one with
viewers, each on a run of its own, and a client that asks. Checked after the clock stops: each viewer has every event of
its run once, in order. Run it with ``python benchmarks/service.py``. The back end is the worker's; the service and its
viewers are always on asyncio.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from reporting import Row, backends, parser, quantile, report, run, suffix
from watchkeeper.engine import Query, RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.log import Gap
from watchkeeper.messages import ModelStreamed, RunStarted
from watchkeeper.service.client import HttpEngine

TEXT = "word " * 20


async def work(folder: Path, runs: int, rate: float, seconds: float) -> None:
    """The worker: takes all runs and appends ``rate`` events a second to each, in turn."""
    async with SqliteEngine(folder, worker="main") as engine:
        async for lease in engine.leases(lambda: runs, worker="main"):
            await lease.append([RunStarted(n=1, run=lease.run, at=time.time(), t=0.0, agent="a", task="t")])
            if len(engine.leases_given) == runs:
                break
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        leases = list(engine.leases_given.values())
        began, used = time.monotonic(), time.process_time()
        late = 0.0

        async def write(number: int) -> None:
            nonlocal late
            lease = leases[number]
            for n in range(2, int(rate * seconds) + 2):
                due = began + (n - 2 + number / runs) / rate
                await anyio.sleep(max(due - time.monotonic(), 0.0))
                event = ModelStreamed(n=n, run=lease.run, at=time.time(), t=0.0, channel="content", text=TEXT)
                await lease.append([event])
                late = max(late, time.monotonic() - due)

        async with anyio.create_task_group() as group:
            for number in range(runs):
                group.start_soon(write, number)
        took, busy = time.monotonic() - began, time.process_time() - used
        print(json.dumps({"late": late, "took": took, "busy": busy}), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)


async def serve(folder: Path) -> None:
    from watchkeeper.service.app import Service
    from watchkeeper.service.listening import Bind, listen

    async with SqliteEngine(folder) as engine, Service(engine) as service:
        bind = Bind(path=str(folder / "door" / "api.sock"))
        await listen(service, [bind], started=lambda binds: print("ready", flush=True))


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    made = subprocess.Popen(
        [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield made
    finally:
        made.kill()
        made.wait()


def said(made: subprocess.Popen[str]) -> str:
    assert made.stdout is not None
    line = made.stdout.readline()
    assert line, f"a process of the benchmark has ended: {made.args}"
    return line


def memory(pid: int) -> float:
    """Resident megabytes."""
    fields = Path(f"/proc/{pid}/statm").read_text("utf-8").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu(pid: int) -> float:
    """Seconds of processor that it has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch(client: HttpEngine, run: str, events: int, cuts: random.Random, got: list[int]) -> None:
    """Follow a run, leave now and then, and go on behind the last event."""
    last = 0
    while last < events:
        leave_at = last + cuts.randint(events // 4 + 1, events)
        async for item in client.watch(run, last):
            assert not isinstance(item, Gap), f"{run}: {item}"
            got.append(item.n)
            last = item.n
            if last >= min(leave_at, events):
                break


async def ask(client: HttpEngine, runs: list[str], taken: dict[str, list[float]], until: anyio.Event) -> None:
    while not until.is_set():
        for name, asked in (
            ("get", lambda: client.get(random.choice(runs))),
            ("list of 100", lambda: client.list(Query(limit=100))),
        ):
            began = time.perf_counter()
            await asked()
            taken[name].append((time.perf_counter() - began) * 1000)
        await anyio.sleep(0.05)


def stalled(path: Path, run: str) -> socket.socket:
    """A viewer that asks for everything and reads nothing."""
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(path))
    made.sendall(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return made


async def measure(
    folder: Path, backend: str, runs: int, viewers: int, rate: float, seconds: float
) -> tuple[list[Row], dict[str, float]]:
    door = folder / "door" / "api.sock"
    names = [f"r{number}" for number in range(runs)]
    async with SqliteEngine(folder) as engine, anyio.create_task_group() as group:
        for name in names:
            group.start_soon(lambda name=name: engine.submit(RunSpec(agent="a", task="t"), run=name))
    with (
        process("--role", "worker", str(folder), backend, str(runs), str(rate), str(seconds)) as worker,
        process("--role", "service", str(folder)) as service,
    ):
        for one in (worker, service):
            await anyio.to_thread.run_sync(said, one)
        before, used, began = memory(service.pid), cpu(service.pid), time.monotonic()
        silent = [stalled(door, names[0]) for _ in range(10)]
        events = int(rate * seconds) + 1
        got: dict[str, list[int]] = {name: [] for name in names[:viewers]}
        taken: dict[str, list[float]] = {"get": [], "list of 100": []}
        done = anyio.Event()
        assert worker.stdin is not None
        async with HttpEngine(f"unix:{door}") as client:
            worker.stdin.write("go\n")
            worker.stdin.flush()
            async with anyio.create_task_group() as group:
                group.start_soon(ask, client, names, taken, done)
                async with anyio.create_task_group() as watching:
                    for number, name in enumerate(got):
                        watching.start_soon(watch, client, name, events, random.Random(number), got[name])
                done.set()
        written: dict[str, Any] = json.loads(await anyio.to_thread.run_sync(said, worker))
        grown = memory(service.pid) - before
        share = (cpu(service.pid) - used) / (time.monotonic() - began)
        for one in silent:
            one.close()
    for name, numbers in got.items():
        assert numbers == [*range(1, events + 1)], f"{name}: events are missing, doubled or out of order"
    rows = []
    for name, all_taken in taken.items():
        ordered = sorted(all_taken)
        rows.append(
            {
                **{"case": name, "backend": backend, "n": len(ordered)},
                **{"p50_ms": quantile(ordered, 0.5), "p99_ms": quantile(ordered, 0.99)},
            }
        )
    figures = {
        "events_per_second": runs * (events - 1) / written["took"],
        "events_to_viewers": float(sum(map(len, got.values()))),
        "service_grew_mb": grown,
        "service_cores": share,
        "worker_late_s": written["late"],
        "worker_us_per_event": written["busy"] / (runs * (events - 1)) * 1e6,
        "p99_ms_get": rows[0]["p99_ms"],
        "p99_ms_list": rows[1]["p99_ms"],
    }
    return rows, figures


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--runs", type=int, default=1_000)
    options_of.add_argument("--viewers", type=int, default=100)
    options_of.add_argument("--rate", type=float, default=5.0, help="events a second of each run")
    options_of.add_argument("--seconds", type=float, default=20.0)
    options_of.add_argument("--role", nargs="+", help="of a process of this benchmark")
    options = options_of.parse_args()
    if options.role:
        role, folder, *rest = options.role
        if role == "worker":
            run(rest[0], work, Path(folder), int(rest[1]), float(rest[2]), float(rest[3]))
        else:
            anyio.run(serve, Path(folder))
        return
    if options.quick:
        options.runs, options.viewers, options.seconds = 50, 10, 2.0
    rows: list[Row] = []
    figures: dict[str, float] = {}
    load = options.runs, options.viewers, options.rate, options.seconds
    for backend in backends(options.backend):
        with tempfile.TemporaryDirectory() as folder:
            found, told = anyio.run(measure, Path(folder), backend, *load)
        rows += found
        figures |= {f"{name}{suffix(backend)}": value for name, value in told.items()}
    report(
        "service",
        rows,
        figures,
        columns={"case": "", "backend": "", "n": "d", "p50_ms": ".2f", "p99_ms": ".2f"},
        as_json=options.json,
        of=("litestar", "uvicorn"),
    )


if __name__ == "__main__":
    main()
