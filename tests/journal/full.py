"""A disk that takes no more, at every place there is: files may grow up to so many bytes, and one byte in some more.

``python tests/journal/full.py --step 701`` tries every limit until nothing meets it, and prints what failed how often.
The limit is that of a process (RLIMIT_FSIZE), so this is a program: what exceeds it is written in part, or not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import TypeVar

import anyio

from watchkeeper.engine import Unavailable, Unusable
from watchkeeper.journal import SqliteEngine
from watchkeeper.testing.conformance.ground import SPEC, Facts, drained, taken

T = TypeVar("T")

TURNS = 6
OPEN = 24
"""Files that may be open after a life: threads that end by themselves are about to close theirs."""
_, MOST = resource.getrlimit(resource.RLIMIT_FSIZE)


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, MOST))


async def life(folder: Path, size: int) -> str:
    """A run from its submission on, with files of at most so many bytes until something fails: that is returned.

    Then there is room again, the same is asked again, and all goes on. Whatever failed, in the end each fact is there
    once.
    """
    failed = ""
    facts = Facts("one")

    async def insist(what: str, ask: Callable[[], Awaitable[T]]) -> T:
        nonlocal failed
        try:
            return await ask()
        except (Unavailable, Unusable) as error:
            told = str(error)
        assert not failed, f"{size} bytes: {failed} failed, then {what} with room enough: {told}"
        assert str(folder) in told, f"{size} bytes: {what}: no file is named: {told}"
        failed = what
        limit(MOST)
        return await ask()

    limit(size)
    try:
        async with AsyncExitStack() as stack:
            engine = await insist("open", lambda: stack.enter_async_context(SqliteEngine(folder, worker="main")))
            await insist("submit", lambda: engine.submit(SPEC, run="one"))
            lease = await insist("lease", lambda: taken(engine))
            for batch in (facts.start(), *(facts.turn(turn, content="x" * 3000) for turn in range(1, TURNS))):
                await insist("append", lambda batch=batch: lease.append(batch))  # type: ignore[misc]
    finally:
        limit(MOST)
    async with SqliteEngine(folder, worker="main") as engine:
        assert await drained(await taken(engine)) == facts.made, (
            f"{size} bytes: {failed}: facts are lost, or twice there"
        )
    return failed


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def lives(folder: Path, step: int) -> Counter[str]:
    """With each limit, ``step`` bytes apart, until nothing fails: how often what failed."""
    failed: Counter[str] = Counter()
    before = open_files()
    for size in count(0, step):
        what = await life(folder / str(size), size)
        if not what:
            break
        failed[what] += 1
        assert open_files() < before + OPEN, f"{size} bytes: {what}: files stay open"
    return failed


def main() -> None:
    options_of = argparse.ArgumentParser()
    options_of.add_argument("--step", type=int, default=701)
    options_of.add_argument("--backend", default="asyncio", choices=("asyncio", "trio"))
    options = options_of.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(anyio.run(lives, Path(folder), options.step, backend=options.backend)))


if __name__ == "__main__":
    main()
