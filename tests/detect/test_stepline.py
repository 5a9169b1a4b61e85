"""The step line: its guarantee, which holds for any counts whatever, and what it rests on."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.stepline import step_line

COUNTS = st.lists(st.integers(0, 10_000), min_size=2, max_size=80)
ALPHAS = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9])


def left_out(counts: list[int], alpha: float) -> list[bool]:
    """Whether each run exceeds the line that is learned from all the others."""
    lines = [step_line(counts[:i] + counts[i + 1 :], alpha) for i in range(len(counts))]
    return [line is not None and count > line for count, line in zip(counts, lines, strict=True)]


@given(COUNTS, ALPHAS)
def test_the_guarantee(counts: list[int], alpha: float) -> None:
    """Exchangeable draws: each of n + 1 runs is the new one equally often. So the share of those that exceed the line
    of the others *is* the probability, given these counts; at most alpha for any counts is so for any distribution."""
    assert sum(left_out(counts, alpha)) <= alpha * len(counts) + 1e-9


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=80, unique=True), ALPHAS)
def test_without_ties_it_is_not_needlessly_high(counts: list[int], alpha: float) -> None:
    n = len(counts) - 1
    if step_line(counts[:n], alpha) is not None:
        assert sum(left_out(counts, alpha)) >= (alpha - 1 / (n + 1)) * (n + 1) - 1e-9


DRAWS: dict[str, Callable[[random.Random], int]] = {
    "few": lambda dice: dice.randint(3, 9),
    "long tail": lambda dice: int(dice.paretovariate(1.1) * 5),
    "two kinds": lambda dice: dice.randint(4, 8) if dice.random() < 0.9 else dice.randint(50, 400),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize(("n", "alpha"), [(19, 0.05), (40, 0.05), (60, 0.2)])
def test_the_guarantee_by_simulation(kind: str, n: int, alpha: float) -> None:
    """Drawn anew each time: past runs and the new one. Averaged over the draws it holds, within four deviations."""
    dice, draw, tries = random.Random(f"{kind} {n} {alpha}"), DRAWS[kind], 8000
    over = 0
    for _ in range(tries):
        line = step_line([draw(dice) for _ in range(n)], alpha)
        assert line is not None
        over += draw(dice) > line
    assert over / tries <= alpha + 4 * (alpha * (1 - alpha) / tries) ** 0.5


def test_runs_of_another_kind_are_not_covered() -> None:
    """The simulation can fail: where the new run is not exchangeable with the past ones nothing is promised."""
    dice = random.Random(1)
    over = 0
    for _ in range(1000):
        line = step_line([dice.randint(3, 9) for _ in range(40)], 0.05)
        assert line is not None
        over += dice.randint(6, 18) > line
    assert over > 500


def test_it_is_the_kth_smallest() -> None:
    assert step_line(range(1, 20)) == 19
    assert step_line(range(1, 40)) == 38
    assert step_line([9, 1, 8, 2, 7, 3, 6, 4, 5], 0.2) == 8
    assert step_line([9, 1, 8, 2, 7, 3, 6, 4, 5], 0.5) == 5


@pytest.mark.parametrize(("alpha", "least"), [(0.05, 19), (0.01, 99), (0.1, 9), (0.2, 4), (0.5, 1)])
def test_how_many_runs_it_takes(alpha: float, least: int) -> None:
    """Exactly so many, although no power of two is a hundredth."""
    assert step_line([1] * (least - 1), alpha) is None
    assert step_line([1] * least, alpha) == 1
    assert step_line([], alpha) is None


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2, float("nan")])
def test_an_alpha_that_is_none(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        step_line([1, 2, 3], alpha)
