from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.stopwatch import Stopwatch


def test_it_stands_still_while_anything_holds_it() -> None:
    watch = Stopwatch(10.0)
    assert watch.seconds(12.0) == 2
    watch.hold("pause", 12.0)
    watch.hold("pause", 13.0)
    watch.hold("wait", 14.0)
    watch.release("pause", 20.0)
    assert (watch.running, watch.seconds(25.0)) == (False, 2)
    watch.release("wait", 30.0)
    watch.release("wait", 31.0)
    assert (watch.running, watch.seconds(31.5)) == (True, 3.5)


def test_what_begins_anew_is_still_held() -> None:
    watch = Stopwatch(0.0)
    watch.hold("pause", 5.0)
    watch.restart(7.0)
    assert watch.seconds(100.0) == 0
    watch.release("pause", 100.0)
    assert watch.seconds(101.0) == 1


@given(st.lists(st.tuples(st.sampled_from(["hold", "release"]), st.sampled_from("ab"), st.integers(0, 5))))
def test_it_counts_the_seconds_in_which_there_was_no_reason(acts: list[tuple[str, str, int]]) -> None:
    watch, now, expected, reasons = Stopwatch(0.0), 0.0, 0.0, set()
    for act, reason, seconds in acts:
        getattr(watch, act)(reason, now)
        (reasons.add if act == "hold" else reasons.discard)(reason)
        now += seconds
        expected += 0 if reasons else seconds
        assert watch.seconds(now) == expected
