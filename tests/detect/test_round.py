"""Rounds and the ring of recent pairs: what counts once, and what is remembered how long."""

from __future__ import annotations

from watchkeeper.detect.round import Pair, Ring, Round


def pair(key: str = "k", result: str = "r", content: str = "c", *, ran: bool = True) -> Pair:
    made = Pair(1, 0.0, "c1", "look", key, result, "finished")
    made.content, made.ran = content, ran
    return made


def test_equal_pairs_in_a_round_are_one() -> None:
    assert len(Round([pair(), pair(), pair("other")]).pairs) == 2
    assert len(Round([pair()] * 5).pairs) == 1


def test_rounds_of_the_same_pairs_are_equal_in_any_order_and_number() -> None:
    one, other = pair("a"), pair("b")
    assert Round([one, other]).fingerprint == Round([other, one, other]).fingerprint
    assert Round([one]).fingerprint == Round([one, one]).fingerprint
    assert Round([one]).fingerprint != Round([one, other]).fingerprint != Round([other]).fingerprint


def test_results_count_as_much_as_calls() -> None:
    assert Round([pair(result="x")]).fingerprint != Round([pair(result="y")]).fingerprint


def test_the_ring_counts_within_its_window() -> None:
    ring, again = Ring(4), pair()
    for expected in (1, 2, 3, 4, 4, 4):
        ring.add([again])
        assert ring.count(again) == expected
    for left in (3, 2, 1, 0):
        ring.add([pair(f"other {left}")])
        assert ring.count(again) == left
    assert ring.count(pair("never seen")) == 0
    assert len(ring._counts) == 4


def test_the_last_result_is_that_of_a_call_that_ran() -> None:
    ring = Ring(4)
    ring.add([pair(result="one", content="first")])
    ring.add([pair(result="no", content="refused", ran=False)])
    assert ring.last_result["k"] == ("one", "first")
    ring.add([pair(result="two", content="second")])
    assert ring.last_result["k"] == ("two", "second")


def test_results_are_remembered_in_bounds_and_those_in_use_longest() -> None:
    ring = Ring(4)
    for number in range(2000):
        ring.add([pair("used"), pair(f"other {number}")])
    assert len(ring.last_result) == 256
    assert "used" in ring.last_result
    assert "other 0" not in ring.last_result
