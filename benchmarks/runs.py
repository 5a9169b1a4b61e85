"""Many runs side by side: what a run costs as their number grows, what a live one holds, and how the loop lags.

Run it with ``python benchmarks/runs.py``. Each run has ten turns of one call with a result of 1 KB, before a scripted
model that answers at once. ``growth_exponent`` is the power of their number that the time of all grows with: 1 is a
cost a run that stays as it is. The lag of the loop is how late a timer of 1 ms fires while they are at work; the
control is a bare task each that awaits as often as a run has facts and does nothing.

For memory 1,000 runs are paused in their tenth turn, all alive with their histories, and resident memory is read after
each hundred: ``kb_per_run`` is the slope, so that what the interpreter and the imports hold falls out. It is measured
in a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio
import anyio.lowlevel

from reporting import Row, backends, exponent, parser, quantile, report, run, suffix
from watchkeeper import Agent, Limits, Run, Supervisor, tool
from watchkeeper.messages import CallStarted
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, call, say
from watchkeeper.testing.script import Step

TURNS = 10
FACTS = 12
"""Facts of a turn of one call, roughly: what the control's tasks await."""
STEP = 100
TICK = 0.001


@tool(effect="nothing")
async def look(number: int) -> str:
    """Look something up: 1 KB, another one each time."""
    return f"{number:08} ".ljust(1024, chr(97 + number % 26))


def reply(request: Request, asked: int) -> Step:
    return call(("look", {"number": asked * 7919})) if asked <= TURNS else say("done")


def agent(number: int) -> Agent:
    # A name of its own each: runs of one model share its provider's limiter, which is not what is measured here.
    return Agent(ScriptedModel(reply, keep_requests=False, name=f"model {number % 64}"), [look], limits=Limits())


async def ours(count: int) -> float:
    async with Supervisor(plugged=False, monitor=False, max_runs=count) as supervisor:
        began = time.perf_counter()
        runs = [await supervisor.start(agent(number), "task") for number in range(count)]
        outcomes = [await one.wait() for one in runs]
        took = time.perf_counter() - began
    assert all(outcome.status == "completed" and outcome.turns == TURNS + 1 for outcome in outcomes)
    return took


async def control(count: int) -> float:
    async def one() -> None:
        for _ in range(TURNS * FACTS):
            await anyio.lowlevel.checkpoint()

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    return time.perf_counter() - began


class Lag:
    """How late a timer fires, in milliseconds, for as long as it is asked."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def watch(self) -> None:
        while True:
            due = time.perf_counter() + TICK
            await anyio.sleep(TICK)
            self.taken.append((time.perf_counter() - due) * 1000)

    def p99(self) -> float:
        return quantile(sorted(self.taken), 0.99)


async def measure(backend: str, counts: list[int], rounds: int) -> tuple[list[Row], dict[str, float]]:
    rows: list[Row] = []
    await ours(5)  # imports
    for count in counts:
        taken, bare, lags = [], [], []
        for _ in range(rounds if count < 5000 else 1):
            gc.collect()
            lag = Lag()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lag.watch)
                taken.append(await ours(count))
                tasks.cancel_scope.cancel()
            lags.append(lag.p99())
            bare.append(await control(count))
        seconds = statistics.median(taken)
        rows.append(
            {
                "what": "time",
                "backend": backend,
                "runs": count,
                "ms_per_run": seconds / count * 1000,
                "ms_per_turn": seconds / count / TURNS * 1000,
                "times_control": statistics.median(one / other for one, other in zip(taken, bare, strict=True)),
                "loop_lag_p99_ms": statistics.median(lags),
            }
        )
    figures = {
        f"growth_exponent{suffix(backend)}": exponent((row["runs"], row["ms_per_run"] * row["runs"]) for row in rows)
    }
    for row in rows:
        if row["runs"] == 1000:
            figures[f"loop_lag_p99_ms{suffix(backend)}"] = row["loop_lag_p99_ms"]
    return rows, figures


# -- memory ----------------------------------------------------------------------------------------------------------


def resident() -> float:
    """Kilobytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


async def paused(count: int) -> list[tuple[int, float]]:
    """Start runs, a hundred at a time, each of which stays in its last turn; what is resident after each hundred."""
    found = []
    open_up = anyio.Event()
    async with Supervisor(plugged=False, monitor=False, max_runs=count) as supervisor:

        @tool(effect="nothing")
        async def stay(number: int) -> str:
            """Stay until all are there."""
            await open_up.wait()
            return "on"

        def turn(request: Request, asked: int) -> Step:
            if asked == TURNS:
                return call(("stay", {"number": asked}))
            return reply(request, asked)

        runs: list[Run] = []
        for start in range(0, count, STEP):
            for number in range(start, start + STEP):
                model = ScriptedModel(turn, keep_requests=False, name=f"model {number % 64}")
                runs.append(await supervisor.start(Agent(model, [look, stay], limits=Limits()), "task"))
            for one in runs[start:]:
                async for event in one.events():
                    if isinstance(event, CallStarted) and event.tool == "stay":
                        break
            gc.collect()
            found.append((len(runs), resident()))
        open_up.set()
        for one in runs:
            assert (await one.wait()).status == "completed"
    return found


def memory(backend: str, count: int) -> tuple[list[Row], dict[str, float]]:
    command = [sys.executable, __file__, "--paused", str(count), "--backend", backend]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8").stdout
    points = [(number, kilobytes) for number, kilobytes in json.loads(output)]
    if len(points) < 2:
        return [], {}
    # The first hundred fill what is allocated once: pools of the allocator, caches.
    slope, _ = statistics.linear_regression(*zip(*points[1:] if len(points) > 2 else points, strict=True))
    rows = [{"what": "memory", "backend": backend, "runs": number, "resident_kb": held} for number, held in points]
    return rows, {f"kb_per_run{suffix(backend)}": slope}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--counts", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    options_of.add_argument("--rounds", type=int, default=3)
    options_of.add_argument("--paused", type=int, default=0, help=argparse.SUPPRESS)
    options = options_of.parse_args()
    if options.paused:
        json.dump(run(options.backend, paused, options.paused), sys.stdout)
        return
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for backend in backends(options.backend):
        counts, rounds = ([5, 20], 1) if options.quick else (options.counts, options.rounds)
        more, found = run(backend, measure, backend, counts, rounds)
        held, slope = memory(backend, 2 * STEP if options.quick else 1000)
        rows += more + held
        figures |= found | slope
    columns = {
        "what": "", "backend": "", "runs": "", "ms_per_run": ".2f", "ms_per_turn": ".3f", "times_control": ".1f",
        "loop_lag_p99_ms": ".1f", "resident_kb": ".0f",
    }  # fmt: skip
    report("runs", rows, figures, columns=columns, as_json=options.json)


if __name__ == "__main__":
    main()
