"""Parallel tools: one turn of n calls with every guard on, against peers and against nothing at all.

Run it with ``python benchmarks/tools.py``; peers that are not installed are left out and said to be
(``pip install --group peers`` brings them). All run in this one process, one after the other in each round, so that
what the machine does meanwhile falls on all alike: read the ratios, not the times.

A *turn* is all that a runtime does between two model requests: from the end of the reply with the calls to the next
request with their results. ToolNode has no model, so there it is the invocation of a graph of that one node. Beside it
stands the whole run, from start to outcome, with both requests to a scripted model.

The control is ``asyncio.gather(*(tool(**json.loads(raw)) for raw in arguments))``, for trio a bare nursery: no checks,
no events, no limits. Beside it stands a bare task group of anyio. Payloads are built outside of the measured region,
results are checked after the clock stops.

The calls do nothing, wait (1 ms, 100 ms; as many side by side as there are), or burn 5 ms of a processor in threads.
Peers are measured on calls that do nothing, up to 1,000.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread

from peers import PEERS
from reporting import Row, backends, exponent, parser, report, run, suffix
from watchkeeper import Agent, Limits, Supervisor, tool
from watchkeeper.model import Chunk, Request
from watchkeeper.testing import ScriptedModel, call, say

Taken = list[tuple[float, float]]
Once = Callable[[], Awaitable[tuple[float, float]]]
"""One measurement: seconds of the turn, seconds of the whole run."""


async def plain_noop(number: int, text: str) -> str:
    return text


async def plain_1ms(number: int, text: str) -> str:
    await anyio.sleep(0.001)
    return text


async def plain_100ms(number: int, text: str) -> str:
    await anyio.sleep(0.1)
    return text


def burn(number: int, text: str) -> str:
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass
    return text


async def plain_cpu(number: int, text: str) -> str:
    return await anyio.to_thread.run_sync(burn, number, text)


PLAIN: dict[str, Callable[[int, str], Awaitable[str]]] = {
    "no-op": plain_noop,
    "1 ms": plain_1ms,
    "100 ms": plain_100ms,
    "cpu": plain_cpu,
}
TOOLS = {
    "no-op": tool(name="work", description="Do nothing.", effect="reads")(plain_noop),
    "1 ms": tool(name="work", description="Wait.", effect="reads")(plain_1ms),
    "100 ms": tool(name="work", description="Wait.", effect="reads")(plain_100ms),
    "cpu": tool(name="work", description="Burn.", effect="reads")(burn),
}
Sizes = dict[str, tuple[int, ...]]
SIZES: Sizes = {
    "no-op": (1, 10, 100, 1000, 10_000),
    "1 ms": (10, 100, 1000),
    "100 ms": (10, 100, 1000),
    "cpu": (10, 100),
}
QUICK: Sizes = {"no-op": (1, 10, 50), "1 ms": (10,), "100 ms": (10,), "cpu": (10,)}
PEERS_TO = 1000
"""Calls of a turn up to which peers are measured: some take minutes beyond."""


def arguments(n: int) -> list[str]:
    return [json.dumps({"number": number, "text": f"item {number}"}) for number in range(n)]


class Timed(ScriptedModel):
    """Notes when its first reply has ended and when it is asked again."""

    replied = asked_again = 0.0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        self.asked_again = time.perf_counter()
        async with super().stream(request) as chunks:
            yield self._noting(chunks) if not self.replied else chunks

    async def _noting(self, chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        async for chunk in chunks:
            yield chunk
        self.replied = time.perf_counter()


async def ours(supervisor: Supervisor, work: str, raws: list[str]) -> tuple[float, float]:
    model = Timed([call(*(("work", raw) for raw in raws)), say("done")], keep_requests=False)
    parallel = len(raws) if work in ("1 ms", "100 ms") else Limits().parallel
    agent = Agent(model, [TOOLS[work]], limits=Limits(max_calls=max(1000, len(raws)), parallel=parallel))
    began = time.perf_counter()
    run = await supervisor.start(agent, "task")
    outcome = await run.wait()
    took = time.perf_counter() - began
    assert outcome.status == "completed"
    assert [record.kind for record in outcome.calls] == ["finished"] * len(raws)
    return model.asked_again - model.replied, took


async def control(backend: str, work: str, raws: list[str]) -> tuple[float, float]:
    results: list[str] = []
    plain = PLAIN[work]
    if backend != "trio":
        import asyncio

        began = time.perf_counter()
        results = await asyncio.gather(*(plain(**json.loads(raw)) for raw in raws))
        took = time.perf_counter() - began
    else:
        import trio

        async def one(raw: str) -> None:
            results.append(await plain(**json.loads(raw)))

        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for raw in raws:
                nursery.start_soon(one, raw)
        took = time.perf_counter() - began
    assert len(results) == len(raws)
    return took, took


async def task_group(work: str, raws: list[str]) -> tuple[float, float]:
    results: list[str] = []
    plain = PLAIN[work]

    async def one(raw: str) -> None:
        results.append(await plain(**json.loads(raw)))

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for raw in raws:
            tasks.start_soon(one, raw)
    took = time.perf_counter() - began
    assert len(results) == len(raws)
    return took, took


async def measure(backend: str, sizes: Sizes, rounds: int, with_peers: bool) -> list[Row]:
    rows: list[Row] = []
    async with Supervisor(plugged=False) as supervisor:
        for work, n in [(work, n) for work, counts in sizes.items() for n in counts]:
            raws = arguments(n)
            competitors: dict[str, Once] = {
                "control": partial(control, backend, work, raws),
                "task group": partial(task_group, work, raws),
                "watchkeeper": partial(ours, supervisor, work, raws),
            }
            if with_peers and backend == "asyncio" and work == "no-op" and n <= PEERS_TO:
                for name, prepare in PEERS.items():
                    prepared = prepare(raws)
                    if prepared is not None:
                        competitors[name] = prepared
            times: dict[str, Taken] = {name: [] for name in competitors}
            for number in range((rounds if n < 10_000 and work != "cpu" else max(rounds // 3, 1)) + 1):
                for name, once in competitors.items():
                    # What is alive by now (all the imports) is out of the collector's sight: it is nobody's doing.
                    gc.collect()
                    gc.freeze()
                    took = await once()
                    if number:  # the first round warms up
                        times[name].append(took)
            rows += [
                row(backend, work, n, name, taken, times["control"], times["watchkeeper"])
                for name, taken in times.items()
            ]
    return rows


def ratios_of(taken: Taken, base: Taken) -> list[float]:
    """Round by round, so that what the machine did meanwhile falls out; sorted."""
    return sorted(one / other for (one, _), (other, _) in zip(taken, base, strict=True))


def row(backend: str, work: str, n: int, name: str, taken: Taken, base: Taken, own: Taken) -> Row:
    ratios = ratios_of(taken, base)
    turn = statistics.median(turn for turn, _ in taken)
    return {
        "backend": backend,
        "work": work,
        "n": n,
        "name": name,
        "us_per_call": turn / n * 1e6,
        "calls_per_second": n / turn,
        "ms_whole_run": statistics.median(run for _, run in taken) * 1e3,
        "times_watchkeeper": statistics.median(ratios_of(taken, own)),
        "times_control": statistics.median(ratios),
        "times_control_low": ratios[len(ratios) // 10],
        "times_control_high": ratios[-1 - len(ratios) // 10],
    }


def figures(rows: list[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    for backend in {row["backend"] for row in rows}:
        tail = suffix(backend)
        here = [row for row in rows if row["backend"] == backend]
        growing = []
        for work, n in {(row["work"], row["n"]) for row in here}:
            by = {row["name"]: row for row in here if row["work"] == work and row["n"] == n}
            own, label = by["watchkeeper"], f"n{n}" if work == "no-op" else f"{work.replace(' ', '')}_n{n}"
            found[f"times_gather_{label}{tail}"] = own["times_control"]
            if work != "no-op":
                continue
            found[f"us_per_call_n{n}{tail}"] = own["us_per_call"]
            found[f"times_gather_whole_run_n{n}{tail}"] = own["ms_whole_run"] / by["control"]["ms_whole_run"]
            if n >= 100:
                growing.append((n, own["us_per_call"] * n))
            peers = [row["times_watchkeeper"] for name, row in by.items() if name not in OWN]
            if peers:
                found[f"ratio_best_peer_n{n}{tail}"] = min(peers)
        found[f"growth_exponent{tail}"] = exponent(growing)
    return found


OWN = ("control", "task group", "watchkeeper")


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--n", type=int, nargs="+", help="calls of a turn that do nothing, and no other work")
    options_of.add_argument("--rounds", type=int, default=15)
    options_of.add_argument("--no-peers", action="store_true")
    options = options_of.parse_args()
    sizes = QUICK if options.quick else SIZES if options.n is None else {"no-op": tuple(options.n)}
    rows: list[Row] = []
    for backend in backends(options.backend):
        rounds = 2 if options.quick else options.rounds
        rows += run(backend, measure, backend, sizes, rounds, not options.no_peers)
    columns = {
        "backend": "", "work": "", "n": "", "name": "", "us_per_call": ".1f", "calls_per_second": ",.0f",
        "times_control": ".1f", "times_control_low": ".1f", "times_control_high": ".1f", "ms_whole_run": ".2f",
    }  # fmt: skip
    of = ("langgraph", "langgraph-prebuilt", "pydantic-ai-slim", "openai-agents", "agent-framework-core")
    report("tools", rows, figures(rows), columns=columns, as_json=options.json, of=of)


if __name__ == "__main__":
    main()
