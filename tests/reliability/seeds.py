"""Programs that are run by seed, in virtual time; one that fails says its seed and how to run it again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext

import anyio

from watchkeeper.testing import backend


class SeedFailed(AssertionError):
    """Raised for the first seed that fails; the message names it and the command that runs it again."""


def by_seed(
    part: str, program: Callable[[int], Awaitable[Counter[str]]], library: str, seeds: Iterable[int]
) -> Counter[str]:
    """Run the program with each seed on a back end; the sum of what it counts."""
    counted: Counter[str] = Counter()
    for seed in seeds:
        name, options = backend(library)
        try:
            with _scheduled_by(seed) if library == "trio" else nullcontext():
                counted += anyio.run(program, seed, backend=name, backend_options=options)
        except Exception as error:
            again = f"sh scripts/reliability {part} --backend {library} --seeds {seed}"
            raise SeedFailed(f"seed {seed} of {part} on {library} fails: run it again by `{again}`") from error
    return counted


@contextmanager
def _scheduled_by(seed: int) -> Iterator[None]:
    """trio draws the order in which tasks run; drawn by seed, an equal seed is an equal interleaving."""
    import trio._core._run as scheduler

    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = True, random.Random(seed)
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = before
