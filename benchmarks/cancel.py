"""Cancel latency: from ``run.cancel()`` to the last call joined, as the outcome reports it, with a histogram.

Cases: one cooperative tool, a hundred of them, a model that stalls before its first chunk, a back-off between two
tries, a plain function in a thread (left behind, so only the wait is over), a command with a child of its own in the
background (Linux; no process may be left), each on both back ends, pressed from the loop and, for one tool, from
another thread and from another process over HTTP (extra ``server``; from sending the request until the proof is there).
Run it with ``python benchmarks/cancel.py``.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from reporting import Row, backends, installed, parser, quantile, report, run
from watchkeeper import Agent, Limits, Run, Supervisor, tool
from watchkeeper.messages import CallStarted, ModelRequested, ModelRetried
from watchkeeper.testing import ScriptedModel, call, fail, say


@tool(effect="reads")
async def hang(number: int = 0) -> None:
    """Wait for ever, and stop when told to."""
    await anyio.sleep_forever()


LET_GO = threading.Event()
PATIENCE = 30.0
"""Seconds for processes to begin."""


@tool(effect="nothing")
def hang_in_thread() -> None:
    """Block a thread."""
    LET_GO.wait(5)


MINE = f"{6000 + os.getpid() / 1e7:.7f}"
"""Seconds that the processes of this benchmark sleep: what tells them from all others."""


def processes() -> Agent:
    from watchkeeper_tools import shell

    (run_command,) = shell.tools(root=".")
    argv = ["sh", "-c", f"sleep {MINE} & sleep {MINE}"]
    return Agent(ScriptedModel([call(("run_command", {"argv": argv, "seconds": 600}))]), [run_command])


def alive() -> int:
    """How many of those processes there are."""
    found = 0
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += entry.read_bytes() == b"sleep\0" + MINE.encode() + b"\0"
    return found


def tools_of(count: int) -> Callable[[], Agent]:
    calls = [("hang", {"number": number}) for number in range(count)]
    return lambda: Agent(ScriptedModel([call(*calls)]), [hang], limits=Limits(parallel=count))


def backing_off() -> Agent:
    # A name of its own each time: runs of one model share its provider's limiter, and would wait for each other.
    name = f"model {next(NUMBERS)}"
    return Agent(ScriptedModel([fail("overloaded", retry_after=20)], name=name))


NUMBERS = itertools.count()

CASES: dict[str, tuple[Callable[[], Agent], type, int, int]] = {
    # name: agent, the kind of fact after which to press, how many of them, and how often to repeat
    "one tool": (tools_of(1), CallStarted, 1, 400),
    "100 tools": (tools_of(100), CallStarted, 100, 60),
    "stalled model": (lambda: Agent(ScriptedModel([say("x", delay=60)])), ModelRequested, 1, 200),
    "back-off": (backing_off, ModelRetried, 1, 200),
    "thread tool": (lambda: Agent(ScriptedModel([call(("hang_in_thread", {}))]), [hang_in_thread]), CallStarted, 1, 8),
    "processes": (processes, CallStarted, 1, 60),
}


async def reached(run: Run, kind: type, count: int) -> None:
    async for event in run.events():
        if type(event) is kind:
            count -= 1
            if not count:
                break
    await anyio.sleep(0.002)  # let it sit where it waits


def await_both() -> None:
    limit = time.monotonic() + PATIENCE
    while alive() < 2:
        if time.monotonic() > limit:
            raise RuntimeError("the command and its child have not begun")
        time.sleep(0.002)


async def press(supervisor: Supervisor, make: Callable[[], Agent], kind: type, count: int, from_thread: bool) -> float:
    run = await supervisor.start(make(), "task")
    await reached(run, kind, count)
    if make is processes:
        await anyio.to_thread.run_sync(await_both)
    if from_thread:
        pressed = await anyio.to_thread.run_sync(lambda: (time.perf_counter(), run.threadsafe.cancel("bench"))[0])
        await run.wait()
        return time.perf_counter() - pressed
    pressed = time.perf_counter()
    run.cancel("bench")
    outcome = await run.wait()
    took = time.perf_counter() - pressed
    assert outcome.status == "cancelled"
    assert all(record.kind in ("cancelled", "abandoned", "not_run") for record in outcome.calls)
    assert make is not processes or not alive(), "a process is left"
    return took


def over_http(backend: str, times: int) -> Row:
    """From another process: each of so many runs that wait in a tool side by side is cancelled by a request."""
    from service_cancel import Service

    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), backend)
        try:
            runs = service.working("idler", times)
            taken = []
            for run in runs:
                began = time.perf_counter()
                answer = service.client.post(f"/v1/runs/{run}/cancel", params={"wait": 15}, json={"reason": "bench"})
                taken.append((time.perf_counter() - began) * 1000)
                proof = answer.raise_for_status().json()
                assert proof["seconds"] is not None, f"run {run} has not ended: {proof}"
        finally:
            service.end()
    return {"backend": backend, "case": "one tool, over HTTP", **summary(taken)}


async def measure(backend: str, share: float) -> list[Row]:
    rows: list[Row] = []
    async with Supervisor(plugged=False, monitor=False) as supervisor:
        for name, (make, kind, count, times) in CASES.items():
            if make is processes and sys.platform != "linux":
                continue
            for from_thread in (False, True) if name == "one tool" else (False,):
                LET_GO.clear()
                repeats = max(5, int(times * share))
                taken = [await press(supervisor, make, kind, count, from_thread) * 1000 for _ in range(repeats)]
                LET_GO.set()
                rows.append(
                    {"backend": backend, "case": f"{name}{', from a thread' if from_thread else ''}", **summary(taken)}
                )
    return rows


def summary(taken: list[float]) -> Row:
    ordered = sorted(taken)
    return {
        "n": len(ordered),
        "p50_ms": quantile(ordered, 0.5),
        "p99_ms": quantile(ordered, 0.99),
        "max_ms": ordered[-1],
        "taken_ms": ordered,
    }


def histogram(taken: list[float]) -> str:
    """Bars by powers of two of a millisecond."""
    bins: dict[int, int] = {}
    for one in taken:
        power = max(-4, math.ceil(math.log2(max(one, 1e-6))))
        bins[power] = bins.get(power, 0) + 1
    lines = []
    for power in range(min(bins), max(bins) + 1):
        count = bins.get(power, 0)
        lines.append(f"      ≤ {2.0**power:8.3f} ms {count:5}  {'█' * math.ceil(40 * count / len(taken))}")
    return "\n".join(lines)


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--share", type=float, default=1.0, help="share of the repeats")
    options = options_of.parse_args()
    rows: list[Row] = []
    for backend in backends(options.backend):
        share = 0.02 if options.quick else options.share
        rows += run(backend, measure, backend, share)
        if backend in ("asyncio", "trio") and installed("litestar") and installed("uvicorn"):
            rows.append(over_http(backend, max(5, int(100 * share))))
    figures = {f"p99_ms_{row['backend']}": row["p99_ms"] for row in rows if row["case"] == "one tool"}
    figures |= {f"max_ms_100_{row['backend']}": row["max_ms"] for row in rows if row["case"] == "100 tools"}
    figures |= {f"p99_ms_processes_{row['backend']}": row["p99_ms"] for row in rows if row["case"] == "processes"}
    figures |= {f"p99_ms_http_{row['backend']}": row["p99_ms"] for row in rows if row["case"].endswith("HTTP")}
    if not options.json:
        for row in rows:
            print(f"\n{row['backend']:8} {row['case']}")
            print(histogram(row["taken_ms"]))
        print()
    columns = {"backend": "", "case": "", "n": "", "p50_ms": ".3f", "p99_ms": ".3f", "max_ms": ".3f"}
    report("cancel", rows, figures, columns=columns, as_json=options.json, of=("litestar", "uvicorn"))


if __name__ == "__main__":
    main()
