"""A set in a few kilobytes: what was added is known, what was not is seldom taken for known."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.bloom import Bloom

HALF = 400


def things(first: int, count: int) -> list[int]:
    return [hash((number, "a thing")) for number in range(first, first + count)]


@given(st.lists(st.integers(), max_size=HALF))
def test_what_was_added_is_known(added: list[int]) -> None:
    bloom = Bloom(HALF)
    for thing in added:
        bloom.add(thing)
    assert all(bloom.add(thing) for thing in added)


def test_what_was_not_added_is_seldom_taken_for_known() -> None:
    bloom = Bloom(HALF)
    wrong = sum(bloom.add(thing) for thing in things(0, 20_000))
    assert wrong <= 400  # one in fifty: two fields that are half full on average


def test_the_older_half_is_forgotten_and_what_comes_again_is_kept() -> None:
    bloom = Bloom(HALF)
    first, often = things(0, 1)[0], things(-1, 1)[0]
    bloom.add(first)
    bloom.add(often)
    for number in range(1, 40):
        for thing in things(number * 100, 100):
            bloom.add(thing)
        assert bloom.add(often)
    assert not bloom.add(first)


def test_at_least_so_many_of_the_last_things_are_known() -> None:
    bloom, last = Bloom(HALF), things(0, 5 * HALF)
    for thing in last:
        bloom.add(thing)
    assert all(bloom.add(thing) for thing in last[-HALF:])


def test_it_stays_small() -> None:
    bloom = Bloom(HALF)
    for thing in things(0, 10_000):
        bloom.add(thing)
    assert sys.getsizeof(bloom._young) + sys.getsizeof(bloom._old) < 5_000
