"""Parallel tools: one turn of n no-op calls with every guard on, against peers and against nothing at all.

Run it with ``python benchmarks/tools.py``; peers that are not installed are left out and said to be
(``pip install --group peers`` brings them). All run in this one process, one after the other in each round, so that
what the machine does meanwhile falls on all alike: read the ratios, not the times.

A *turn* is all that a runtime does between two model requests: from the end of the reply with the calls to the next
request with their results. ToolNode has no model, so there it is the invocation of a graph of that one node. Beside it
stands the whole run, from start to outcome, with both requests to a scripted model.

The control is ``asyncio.gather(*(tool(**json.loads(raw)) for raw in arguments))``, for trio a bare nursery: no checks,
no events, no limits. Payloads are built outside of the measured region, results are checked after the clock stops.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import platform
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio

from peers import PEERS
from watchkeeper import Agent, Limits, Supervisor, tool
from watchkeeper.model import Chunk, Request
from watchkeeper.testing import ScriptedModel, call, say

Once = Callable[[], Awaitable[tuple[float, float]]]
"""One measurement: seconds of the turn, seconds of the whole run."""


@tool(effect="reads")
async def noop(number: int, text: str) -> str:
    """Do nothing."""
    return text


async def plain(number: int, text: str) -> str:
    return text


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


async def ours(supervisor: Supervisor, raws: list[str]) -> tuple[float, float]:
    model = Timed([call(*(("noop", raw) for raw in raws)), say("done")], keep_requests=False)
    agent = Agent(model, [noop], limits=Limits(max_calls=max(1000, len(raws))))
    began = time.perf_counter()
    run = await supervisor.start(agent, "task")
    outcome = await run.wait()
    took = time.perf_counter() - began
    assert outcome.status == "completed"
    assert [record.kind for record in outcome.calls] == ["finished"] * len(raws)
    return model.asked_again - model.replied, took


async def control(backend: str, raws: list[str]) -> tuple[float, float]:
    results: list[str] = []
    if backend == "asyncio":
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


async def measure(backend: str, sizes: list[int], rounds: int, with_peers: bool) -> list[dict[str, Any]]:
    rows = []
    async with Supervisor(plugged=False) as supervisor:
        for n in sizes:
            raws = arguments(n)
            competitors: dict[str, Once] = {
                "control": partial(control, backend, raws),
                "watchkeeper": partial(ours, supervisor, raws),
            }
            if with_peers and backend == "asyncio":
                for name, prepare in PEERS.items():
                    prepared = prepare(raws)
                    if prepared is not None:
                        competitors[name] = prepared
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in competitors}
            for round_number in range(rounds + 1):
                for name, once in competitors.items():
                    # What is alive by now (all the imports) is out of the collector's sight: it is nobody's doing.
                    gc.collect()
                    gc.freeze()
                    took = await once()
                    if round_number:  # the first round warms up
                        times[name].append(took)
            rows += [
                row(backend, n, name, taken, times["control"], times["watchkeeper"]) for name, taken in times.items()
            ]
    return rows


Taken = list[tuple[float, float]]


def ratios_of(taken: Taken, base: Taken) -> list[float]:
    """Round by round, so that what the machine did meanwhile falls out; sorted."""
    return sorted(one / other for (one, _), (other, _) in zip(taken, base, strict=True))


def row(backend: str, n: int, name: str, taken: Taken, base: Taken, own: Taken) -> dict[str, Any]:
    ratios = ratios_of(taken, base)
    turn = statistics.median(turn for turn, _ in taken)
    return {
        "backend": backend,
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


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for backend in {row["backend"] for row in rows}:
        suffix = "" if backend == "asyncio" else f"_{backend}"
        for n in {row["n"] for row in rows}:
            here = {row["name"]: row for row in rows if row["n"] == n and row["backend"] == backend}
            if "watchkeeper" not in here:
                continue
            found[f"times_gather_n{n}{suffix}"] = here["watchkeeper"]["times_control"]
            found[f"us_per_call_n{n}{suffix}"] = here["watchkeeper"]["us_per_call"]
            peers = [row["times_watchkeeper"] for name, row in here.items() if name not in ("control", "watchkeeper")]
            found[f"times_gather_whole_run_n{n}{suffix}"] = (
                here["watchkeeper"]["ms_whole_run"] / here["control"]["ms_whole_run"]
            )
            if peers:
                found[f"ratio_best_peer_n{n}{suffix}"] = min(peers)
    return dict(sorted(found.items()))


def versions() -> dict[str, str]:
    names = ("watchkeeper", "anyio", "trio", "langgraph", "langgraph-prebuilt", "pydantic-ai-slim", "openai-agents")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--backend", choices=["asyncio", "trio", "both"], default="both")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for backend in ("asyncio", "trio") if options.backend == "both" else (options.backend,):
        rows += anyio.run(measure, backend, options.n, options.rounds, not options.no_peers, backend=backend)
    if options.json:
        report = {"benchmark": "tools", "versions": versions(), "rows": rows, "figures": figures(rows)}
        json.dump(report, sys.stdout, indent=1)
        print()
    else:
        show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    print("  ".join(f"{name} {version}" for name, version in versions().items()))
    print(
        f"{'':8} {'n':>6} {'':20} {'µs a call':>10} {'calls/s':>10} {'× control':>10} {'whole run':>12}   10 % … 90 %"
    )
    for one in rows:
        print(
            f"{one['backend']:8} {one['n']:6} {one['name']:20} {one['us_per_call']:10.1f} "
            f"{one['calls_per_second']:10,.0f} {one['times_control']:10.1f} {one['ms_whole_run']:9.2f} ms   "
            f"{one['times_control_low']:.1f} … {one['times_control_high']:.1f}"
        )
    for name, value in figures(rows).items():
        print(f"{name:34} {value:8.2f}")


if __name__ == "__main__":
    main()
