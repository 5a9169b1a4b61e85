"""Whole runs by seed: few here, thousands by ``sh scripts/reliability``."""

from __future__ import annotations

from collections import Counter

import pytest

from watchkeeper.messages import encode_event
from watchkeeper.testing import BACKENDS

from .chaos import chaos
from .seeds import SeedFailed, by_seed

SEEDS = range(25)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_keep_the_invariants_whatever_happens_to_them(backend: str) -> None:
    ended = by_seed("chaos", chaos, backend, SEEDS)
    assert sum(count for name, count in ended.items() if "(" in name) == len(SEEDS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_seed_is_the_same_run(backend: str) -> None:
    first = [list(lines_of(seed, backend)) for seed in (7, 8)]
    assert first == [list(lines_of(seed, backend)) for seed in (7, 8)]
    assert first[0] != first[1]


def lines_of(seed: int, backend: str) -> list[bytes]:
    """The facts of a run of chaos."""
    lines: list[bytes] = []

    async def recorded(seed: int) -> Counter[str]:
        return await chaos(seed, lambda run: lines.extend(map(encode_event, run.log.kept())))

    by_seed("chaos", recorded, backend, [seed])
    return lines


async def broken(seed: int) -> Counter[str]:
    assert seed != 3, "three"
    return Counter()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_seed_that_fails_says_how_to_run_it_again(backend: str) -> None:
    with pytest.raises(SeedFailed, match=f"sh scripts/reliability chaos --backend {backend} --seeds 3"):
        by_seed("chaos", broken, backend, range(5))
