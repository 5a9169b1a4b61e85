"""An attempt at a run that is over before its run: what may break it off, and what counts of it."""

from __future__ import annotations

import pytest

from watchkeeper.attempt import Attempt, Broken


@pytest.mark.parametrize(
    ("why", "ending", "may"),
    [("suspended", False, True), ("fenced", False, True), ("suspended", True, False), ("fenced", True, True)],
)
def test_an_end_that_is_on_its_way_stands_unless_another_attempt_has_the_run(
    why: Broken, ending: bool, may: bool
) -> None:
    assert Attempt().may_break_off(why, ending=ending) is may


@pytest.mark.parametrize("first", ["suspended", "fenced"])
@pytest.mark.parametrize("second", ["suspended", "fenced"])
def test_the_first_reason_counts(first: Broken, second: Broken) -> None:
    attempt = Attempt()
    attempt.break_off(first, 7)
    assert not attempt.may_break_off(second, ending=False)
    assert attempt.broken == first
    assert attempt.is_fenced is (first == "fenced")


def test_what_is_behind_the_breaking_off_does_not_count() -> None:
    attempt = Attempt()
    assert attempt.keeps(1_000)
    assert attempt.last(1_000) == 1_000
    attempt.break_off("suspended", 7)
    assert [attempt.keeps(n) for n in (7, 8)] == [True, False]
    assert [attempt.last(n) for n in (5, 7, 12)] == [5, 7, 7]
