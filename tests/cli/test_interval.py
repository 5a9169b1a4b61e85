"""The interval of a share: against values from Wilson's formula worked out elsewhere, and what must hold of any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cli.interval import Share


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),  # the example of Newcombe (1998), method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_known_values(hits: int, n: int, low: float, high: float) -> None:
    assert Share(hits, n).interval == pytest.approx((low, high), abs=5e-5)


def test_of_nothing_nothing_is_known() -> None:
    assert Share(0, 0).interval == (0.0, 1.0)
    assert Share(0, 0).value == 0.0


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_it_holds_the_share_and_stays_within_bounds(counts: tuple[int, int]) -> None:
    share = Share(*counts)
    low, high = share.interval
    assert 0.0 <= low <= share.value <= high <= 1.0
    assert low < high


@given(st.integers(1, 1000), st.integers(2, 50))
def test_more_of_the_same_makes_it_narrower(n: int, times: int) -> None:
    few, many = Share(n // 3, n).interval, Share(n // 3 * times, n * times).interval
    assert many[1] - many[0] < few[1] - few[0]
