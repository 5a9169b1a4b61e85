"""Nothing is left of runs that have ended: some here, thousands by ``sh scripts/reliability``."""

from __future__ import annotations

import pytest

from watchkeeper.testing import BACKENDS

from .leaks import Sample, series, slope

RUNS = 80
NOISE = {"asyncio": 0.2, "trio": 20.0}
"""Objects a run: those that hold the samples, and on trio what it keeps in caches of its own; a run has hundreds."""


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_left_does_not_grow_with_the_runs(backend: str) -> None:
    samples = series(backend, RUNS, warm_up=40)
    assert slope(samples, lambda one: one.objects) < NOISE[backend]
    assert slope(samples, lambda one: one.files) == 0
    assert slope(samples, lambda one: one.threads) < 0.05  # one that idles may end while it is counted


def test_the_slope_is_what_grows_with_each_run() -> None:
    samples = [Sample(runs, 1000 + 3 * runs, 0, 7, 2) for runs in range(0, 100, 10)]
    assert slope(samples, lambda one: one.objects) == pytest.approx(3)
    assert slope(samples, lambda one: one.files) == 0
