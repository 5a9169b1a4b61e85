"""What is left of runs that have ended: objects, memory, file descriptors and threads, as a slope over many runs."""

from __future__ import annotations

import gc
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import anyio

from support import BARE, scripted
from watchkeeper import Agent, Limits, Supervisor, tool
from watchkeeper.testing import Step, VirtualSeams, backend, call, fail, say

WARM_UP = 300
"""Runs after which caches are full."""
SAMPLES = 10


class Sample(NamedTuple):
    """How things stand after so many runs. ``objects`` were made since the beginning; ``memory`` is resident bytes."""

    runs: int
    objects: int
    memory: int
    files: int
    threads: int


@tool(effect="reads")
async def look(n: int = 0) -> str:
    """Look."""
    return f"{n} is there"


@tool(effect="reads")
def in_a_thread(n: int = 0) -> str:
    """Look, in a thread."""
    return f"{n} is there"


@tool(effect="reads", timeout=1.0)
async def hang() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return ""


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("it fails")


TOOLS = (look, in_a_thread, hang, broken)


async def finish(supervisor: Supervisor, *steps: Step, limits: Limits | None = None) -> str:
    run = await supervisor.start(Agent(scripted(*steps), TOOLS, profile=BARE, limits=limits), "Do it.")
    return (await run.wait()).status


async def completed(supervisor: Supervisor) -> str:
    return await finish(supervisor, call(("look", {}), ("look", {"n": 1})), say("done"))


async def with_a_thread(supervisor: Supervisor) -> str:
    return await finish(supervisor, call(("in_a_thread", {})), say("done"))


async def with_failures(supervisor: Supervisor) -> str:
    return await finish(supervisor, call(("broken", {}), ("hang", {}), ("nothing", {})), say("done"))


async def stopped(supervisor: Supervisor) -> str:
    return await finish(
        supervisor, *[call(("look", {"n": n})) for n in range(3)], limits=Limits(max_turns=1, finish_turns=0)
    )


async def failed(supervisor: Supervisor) -> str:
    return await finish(supervisor, fail("auth"))


async def cancelled(supervisor: Supervisor) -> str:
    run = await supervisor.start(Agent(scripted(call(("hang", {}), ("look", {}))), TOOLS, profile=BARE), "Do it.")
    await anyio.sleep(0.1)
    run.cancel()
    return (await run.wait()).status


async def cancelled_stream(supervisor: Supervisor) -> str:
    run = await supervisor.start(Agent(scripted(say("half", stall=True)), TOOLS, profile=BARE), "Do it.")
    watching = run.events()
    async for _ in watching:
        break
    await watching.aclose()  # type: ignore[attr-defined]  # a generator
    run.threadsafe.cancel()
    return (await run.wait()).status


async def with_a_sub_agent(supervisor: Supervisor) -> str:
    child = Agent(scripted(call(("look", {})), say("found")), TOOLS, name="child", profile=BARE).as_tool()
    steps = call(("child", {"task": "it"})), say("done")
    run = await supervisor.start(Agent(scripted(*steps), [child], profile=BARE), "Do it.")
    return (await run.wait()).status


KINDS = {
    completed: "completed",
    with_a_thread: "completed",
    with_failures: "completed",
    with_a_sub_agent: "completed",
    stopped: "stopped",
    failed: "failed",
    cancelled: "cancelled",
    cancelled_stream: "cancelled",
}
"""What is run in turn, and how it must end."""


def sample(runs: int) -> Sample:
    gc.collect()
    memory = int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    files = len(os.listdir("/proc/self/fd")) - 1  # without that of the listing itself
    return Sample(runs, len(gc.get_objects()), memory, files, threading.active_count())


def series(library: str, runs: int, warm_up: int = WARM_UP) -> list[Sample]:
    """So many runs of all kinds in one supervisor, after a warm-up; how things stand every tenth of them.

    Raises ``AssertionError`` if one does not end as it must.
    """

    async def go() -> list[Sample]:
        kinds = itertools.cycle(KINDS.items())
        samples = []
        async with Supervisor(seams=VirtualSeams(), plugged=False) as supervisor:
            for number in range(warm_up + runs + 1):
                if number >= warm_up and (number - warm_up) % (runs // SAMPLES) == 0:
                    samples.append(sample(number - warm_up))
                kind, status = next(kinds)
                assert await kind(supervisor) == status, kind.__name__
        return samples

    name, options = backend(library)
    gc.collect()
    gc.freeze()  # what is there already is not looked through again and again
    try:
        return anyio.run(go, backend=name, backend_options=options)
    finally:
        gc.unfreeze()


def slope(samples: list[Sample], of: Callable[[Sample], int]) -> float:
    """By how much it grows with each run: the slope of the least squares."""
    n = len(samples)
    runs, values = [one.runs for one in samples], [of(one) for one in samples]
    middle, mean = sum(runs) / n, sum(values) / n
    across = sum((run - middle) ** 2 for run in runs)
    return sum((run - middle) * (value - mean) for run, value in zip(runs, values, strict=True)) / across
