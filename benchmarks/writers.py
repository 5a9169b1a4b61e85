"""Readers and writers: one turn of calls of which a share writes, on one resource or each on its own.

Run it with ``python benchmarks/writers.py``. Each call waits a few milliseconds, as a tool does that reads or writes a
file, and so many may run side by side. On *one* resource writers must come one by one, and no reader beside them; on
*many* nothing conflicts, and writers are to be as fast as readers. The control runs the same calls without any order,
side by side to the same number: on one resource it would corrupt it.

Whether two calls that conflict were ever at work at once is counted by the tool itself, while it runs, and is checked
after the clock has stopped.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections import defaultdict

import anyio

from reporting import Row, backends, parser, report, run, suffix
from watchkeeper import Agent, Effect, Limits, Supervisor, tool
from watchkeeper.testing import ScriptedModel, call, say

WAIT = 0.002
"""Seconds that a call takes."""
SHARES = (0.0, 0.1, 0.5, 1.0)
PARALLEL = 16


class Resources:
    """Who is at work on which resource, and how often two were that must not be."""

    def __init__(self) -> None:
        self.readers: defaultdict[str, int] = defaultdict(int)
        self.writers: defaultdict[str, int] = defaultdict(int)
        self.overlaps = 0
        self.done = 0

    async def use(self, name: str, write: bool) -> None:
        if self.writers[name] or (write and self.readers[name]):
            self.overlaps += 1
        side = self.writers if write else self.readers
        side[name] += 1
        try:
            await anyio.sleep(WAIT)
        finally:
            side[name] -= 1
        self.done += 1


RESOURCES = Resources()


def effect_of(name: str, write: bool, place: int) -> Effect:
    return Effect(writes=(name,)) if write else Effect(reads=(name,))


@tool(effect=effect_of)
async def use(name: str, write: bool, place: int) -> str:
    """Read or write a place of a resource."""
    await RESOURCES.use(name, write)
    return f"{name} {place} {write}"


def calls(n: int, share: float, many: bool) -> list[dict[str, object]]:
    """The calls of a turn; the writers are spread evenly among the readers."""
    writers = round(n * share)
    return [
        {
            "name": f"file {number}" if many else "file",
            "write": number * writers // n != (number + 1) * writers // n,
            "place": number,  # equal calls would be answered with what the first one found
        }
        for number in range(n)
    ]


async def ours(supervisor: Supervisor, asked: list[dict[str, object]]) -> float:
    model = ScriptedModel([call(*(("use", arguments) for arguments in asked)), say("done")], keep_requests=False)
    agent = Agent(model, [use], limits=Limits(max_calls=len(asked), parallel=PARALLEL))
    began = time.perf_counter()
    outcome = await (await supervisor.start(agent, "task")).wait()
    took = time.perf_counter() - began
    assert outcome.status == "completed"
    assert [record.kind for record in outcome.calls] == ["finished"] * len(asked)
    return took


async def control(asked: list[dict[str, object]]) -> float:
    room = anyio.Semaphore(PARALLEL)

    async def one() -> None:
        async with room:
            await anyio.sleep(WAIT)

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in asked:
            tasks.start_soon(one)
    return time.perf_counter() - began


async def measure(backend: str, n: int, rounds: int) -> tuple[list[Row], dict[str, float]]:
    cases = [(share, many) for many in (False, True) for share in SHARES]
    taken: dict[tuple[float, bool], list[float]] = {case: [] for case in cases}
    controls: list[float] = []
    overlaps = 0
    async with Supervisor(plugged=False, monitor=False) as supervisor:
        for number in range(rounds + 1):
            for case in cases:
                asked = calls(n, *case)
                RESOURCES.__init__()  # type: ignore[misc]
                gc.collect()
                took = await ours(supervisor, asked)
                assert RESOURCES.done == n
                overlaps += RESOURCES.overlaps
                if number:  # the first round warms up
                    taken[case].append(took)
            if number:
                controls.append(await control(asked))
    rows = [
        {
            "backend": backend,
            "n": n,
            "resources": "many" if many else "one",
            "writers": share,
            "ms": statistics.median(taken[share, many]) * 1000,
            "us_per_call": statistics.median(taken[share, many]) / n * 1e6,
            "times_control": statistics.median(
                one / other for one, other in zip(taken[share, many], controls, strict=True)
            ),
        }
        for share, many in cases
    ]
    ratio = statistics.median(one / other for one, other in zip(taken[1.0, True], taken[0.0, True], strict=True))
    return rows, {f"distinct_writers_over_readers{suffix(backend)}": ratio, f"overlaps{suffix(backend)}": overlaps}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--n", type=int, default=200, help="calls of a turn")
    options_of.add_argument("--rounds", type=int, default=9)
    options = options_of.parse_args()
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for backend in backends(options.backend):
        n, rounds = (40, 2) if options.quick else (options.n, options.rounds)
        more, found = run(backend, measure, backend, n, rounds)
        rows += more
        figures |= found
    columns = {
        "backend": "", "n": "", "resources": "", "writers": ".0%", "ms": ".1f", "us_per_call": ".1f",
        "times_control": ".2f",
    }  # fmt: skip
    report("writers", rows, figures, columns=columns, as_json=options.json)


if __name__ == "__main__":
    main()
