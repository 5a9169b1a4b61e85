"""Rounds and the ring of recent pairs: what counts once, and what is remembered how long."""

from __future__ import annotations

from watchkeeper.detect.recent import SHOWN
from watchkeeper.detect.round import FEW, RESULTS, Pair, Ring, Round
from watchkeeper.detect.round import SHOWN as SHOWN_CALLS


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
        ring.add(Round([again]))
        assert ring.count(again) == expected
    for left in (3, 2, 1, 0):
        ring.add(Round([pair(f"other {left}")]))
        assert ring.count(again) == left
    assert ring.count(pair("never seen")) == 0
    assert len(ring._pairs) == 4


def test_the_ring_says_what_is_new() -> None:
    ring, first, again, other = Ring(4), pair(), pair(), pair(result="another")
    for one in (first, again, other):
        ring.add(Round([one]))
    assert [one.novel for one in (first, again, other)] == [True, False, True]
    third = pair()
    ring.add(Round([third]))
    assert [one.stale for one in (first, again, other, third)] == [False, False, False, True]  # one look back is honest
    both = Round([pair(), pair("fresh")])
    ring.add(both)
    assert (both.novel, [one.novel for one in both.pairs]) == (True, [False, True])


def test_what_is_new_is_remembered_beyond_the_window() -> None:
    ring = Ring(4)
    for number in range(100):
        ring.add(Round([pair(f"other {number}")]))
    again = pair("other 0")
    ring.add(Round([again]))
    assert not again.novel


def test_what_has_drifted_is_new_though_it_is_equal() -> None:
    """It was only learned that what changes in it is volatile: that may be wrong."""
    ring, again = Ring(4), pair()
    ring.add(Round([pair()]))
    again.drifted = True
    ring.add(Round([again]))
    assert again.novel


def test_the_last_result_is_that_of_a_call_that_ran() -> None:
    ring = Ring(4)
    ring.recent.recognise("look", "k", "a", "one", "first")
    ring.add(Round([pair(result="one")]))
    ring.add(Round([pair(result="no", ran=False)]))
    assert ring.result("k") == "one"
    ring.recent.recognise("look", "k", "a", "two", "second")
    assert ring.result("k") == "two"
    assert ring.result("never made") is None


def fan_out(number: int) -> Round:
    """More calls at once than are looked at closely."""
    return Round([pair("used", f"{number}"), *(pair(f"{number} {place}") for place in range(FEW))])


def test_results_of_fan_outs_are_remembered_in_bounds_and_those_in_use_longest() -> None:
    ring = Ring(4)
    for number in range(200):
        ring.add(fan_out(number))
    assert len(ring._results) == RESULTS
    assert ring.result("used") == "199"
    assert ring.result("0 0") is None
    ring.add(Round([pair("used", "no", ran=False), *(pair(f"x {place}") for place in range(FEW))]))
    assert ring.result("used") == "199"


def test_what_is_known_of_a_call_is_the_result_of_the_last_that_ran() -> None:
    ring = Ring(4)
    ring.recent.recognise("look", "k", "a", "r", "what was found " * 100)
    shown = ring.content(pair(content="it is refused", ran=False))
    assert shown.startswith("what was found what was found")
    assert len(shown) <= SHOWN
    assert ring.content(pair(content="new" * 1000)) == ("new" * 1000)[:400]
    assert ring.content(pair("never kept", content="it is refused", ran=False)) == "it is refused"


def test_what_is_kept_of_a_round_is_bounded_and_holds_no_texts() -> None:
    whole = Round([pair(f"{number}", content="a long text" * 1000) for number in range(1000)])
    trace = whole.traced()
    assert trace is whole.traced()
    assert trace.fingerprint == whole.fingerprint
    assert len(trace.keys) == len(trace.calls) == SHOWN_CALLS
    assert all("a long text" not in repr(getattr(trace, name)) for name in trace.__slots__)


def test_a_wide_round_is_known_as_one() -> None:
    assert not Round([pair(f"{number}") for number in range(FEW)]).wide
    assert Round([pair(f"{number}") for number in range(FEW + 1)]).wide
