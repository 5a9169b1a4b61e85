"""Cancel latency: from ``run.cancel()`` to the last call joined, as the outcome reports it, with a histogram.

Cases: one cooperative tool, a hundred of them, a model that stalls before its first chunk, a back-off between two
tries, a plain function in a thread (left behind, so only the wait is over), each on both back ends, pressed from the
loop and, for one tool, from another thread. Run it with ``python benchmarks/cancel.py``.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable

import anyio
import anyio.to_thread

from reporting import Row, backends, parser, quantile, report, run
from watchkeeper import Agent, Limits, Run, Supervisor, tool
from watchkeeper.messages import CallStarted, ModelRequested, ModelRetried
from watchkeeper.testing import ScriptedModel, call, fail, say


@tool(effect="reads")
async def hang(number: int = 0) -> None:
    """Wait for ever, and stop when told to."""
    await anyio.sleep_forever()


LET_GO = threading.Event()


@tool(effect="nothing")
def hang_in_thread() -> None:
    """Block a thread."""
    LET_GO.wait(5)


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
}


async def reached(run: Run, kind: type, count: int) -> None:
    async for event in run.events():
        if type(event) is kind:
            count -= 1
            if not count:
                break
    await anyio.sleep(0.002)  # let it sit where it waits


async def press(supervisor: Supervisor, make: Callable[[], Agent], kind: type, count: int, from_thread: bool) -> float:
    run = await supervisor.start(make(), "task")
    await reached(run, kind, count)
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
    return took


async def measure(backend: str, share: float) -> list[Row]:
    rows: list[Row] = []
    async with Supervisor(plugged=False, monitor=False) as supervisor:
        for name, (make, kind, count, times) in CASES.items():
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
        rows += run(backend, measure, backend, 0.02 if options.quick else options.share)
    figures = {f"p99_ms_{row['backend']}": row["p99_ms"] for row in rows if row["case"] == "one tool"}
    figures |= {f"max_ms_100_{row['backend']}": row["max_ms"] for row in rows if row["case"] == "100 tools"}
    if not options.json:
        for row in rows:
            print(f"\n{row['backend']:8} {row['case']}")
            print(histogram(row["taken_ms"]))
        print()
    columns = {"backend": "", "case": "", "n": "", "p50_ms": ".3f", "p99_ms": ".3f", "max_ms": ".3f"}
    report("cancel", rows, figures, columns=columns, as_json=options.json)


if __name__ == "__main__":
    main()
