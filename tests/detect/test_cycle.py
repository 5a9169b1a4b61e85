"""Cycles: any period from two to eight, told within three laps, stopped within five."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched import Did, Watched, failed, refused

from watchkeeper.thresholds import PERIODS


def laps(watched: Watched, calls: Sequence[Did], times: int) -> dict[tuple[int, int], list[tuple[str, str]]]:
    """Play the cycle so many times; what was said, by lap and place in the lap (from 1)."""
    said = {(lap, place): watched.turn(did) for lap in range(1, times + 1) for place, did in enumerate(calls, 1)}
    return {when: what for when, what in said.items() if what}


def different(period: int) -> list[Did]:
    return [Did(arguments=str(place), content=f"result {place}") for place in range(period)]


@pytest.mark.parametrize("period", PERIODS)
def test_every_period_to_the_exact_lap(period: int) -> None:
    watched = Watched(only="cycle")
    assert laps(watched, different(period), 6) == {
        (3, period): [("nudge", "cycle")],
        (4, period): [("block", "cycle")],
        (5, period): [("stop", "cycle")],
    }
    assert watched.verdicts[0].finding.pattern == f"cycle of {period}"
    assert [verdict.finding.count for verdict in watched.verdicts] == [3, 4, 5]


def test_the_periods_that_are_looked_for() -> None:
    assert list(PERIODS) == [2, 3, 4, 5, 6, 7, 8]
    assert laps(Watched(only="cycle"), different(9), 6) == {}


@pytest.mark.parametrize("period", PERIODS)
def test_whoever_speaks_first_it_is_told_within_three_laps_and_stopped_within_five(period: int) -> None:
    """In a long lap there are enough rounds without news for another detector to speak before."""
    said = laps(Watched(), different(period), 6)
    assert "nudge" in {action for (lap, _), what in said.items() if lap <= 3 for action, _ in what}
    assert "stop" in {action for (lap, _), what in said.items() if lap <= 5 for action, _ in what}
    assert not any(lap < 2 for lap, _ in said)


@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize("period", PERIODS)
def test_what_came_before_does_not_matter(period: int, before: int) -> None:
    watched = Watched(only="cycle")
    for number in range(before):
        watched.turn(Did("other", str(number)))
    assert list(laps(watched, different(period), 5)) == [(3, period), (4, period), (5, period)]


@pytest.mark.parametrize("cut", range(3))
def test_a_cycle_with_a_repetition_in_it_is_found_wherever_it_is_cut(cut: int) -> None:
    watched = Watched(only="cycle")
    pattern = ["a", "a", "b"]
    calls = [Did(arguments=name) for name in pattern[cut:] + pattern[:cut]]
    assert list(laps(watched, calls, 5).values()) == [[("nudge", "cycle")], [("block", "cycle")], [("stop", "cycle")]]


@given(st.lists(st.sampled_from("ab"), min_size=2, max_size=8).filter(lambda names: len(set(names)) == 2))
def test_any_cycle_of_two_calls_is_stopped_within_five_laps(names: list[str]) -> None:
    """Whatever its inner structure, by one detector or another."""
    watched = Watched()
    said = laps(watched, [Did(arguments=name) for name in names], 6)
    assert any(action == "stop" for what in said.values() for action, _ in what)
    assert min(lap for (lap, _), what in said.items() if ("nudge", "cycle") in what or what) <= 3


def test_read_edit_test_with_equal_results() -> None:
    """LOOP-04"""
    watched = Watched()
    cycle = [Did("read", "f", "text"), failed("edit", "f", text="no match"), failed("test", "", text="red")]
    assert set(laps(watched, cycle, 3)) == {(3, 2), (3, 3)}  # the failing edit is told as well
    assert {verdict.action for verdict in watched.verdicts} == {"nudge"}


def test_the_smallest_period_is_named() -> None:
    watched = Watched(only="cycle")
    laps(watched, different(2), 4)
    assert {verdict.finding.pattern for verdict in watched.verdicts} == {"cycle of 2"}


def test_of_equally_many_laps_those_of_the_smallest_period_are_named() -> None:
    """Within a long lap there may be as many of a short one."""
    watched = Watched(only="cycle")
    laps(watched, [Did(arguments=name) for name in "abcbcbc"], 3)
    assert watched.findings[-1].count == 3
    assert watched.findings[-1].pattern == "cycle of 2"


@pytest.mark.parametrize("known", [False, True])
def test_one_round_of_another_kind_begins_the_count_anew(known: bool) -> None:
    """Whether it was ever seen or not: what comes after it is a cycle with it, and needs three laps of its own."""
    watched = Watched(only="cycle")
    if known:
        watched.turn(Did("x"))
    said = [watched.turn(Did(name)) for name in "ababxbxbx"]
    assert [number for number, what in enumerate(said, 1) if what] == [9]


def test_equal_rounds_are_no_cycle_of_any_period() -> None:
    watched = Watched(only="cycle")
    assert watched.turns(40, Did()) == {}
    assert watched.findings == []


def test_a_streak_of_one_call_is_no_cycle() -> None:
    watched = Watched()
    said = watched.turns(20, Did())
    assert {detector for what in said.values() for _, detector in what} == {"equal"}


def test_a_result_that_changes_in_each_lap_may_be_progress() -> None:
    watched = Watched()
    for lap in range(10):
        assert watched.turn(Did("edit", content=f"edit {lap}")) == []
        assert watched.turn(failed("test", "", text="red" * (lap + 1))) == []


def test_a_lap_that_differs_begins_anew() -> None:
    watched = Watched(only="cycle")
    assert laps(watched, different(3), 2) == {}
    assert watched.turn(Did("other")) == []
    assert list(laps(watched, different(3), 3)) == [(3, 3)]


def test_a_cycle_of_turns_with_several_calls() -> None:
    watched = Watched(only="cycle")
    said = {}
    for lap in range(1, 6):
        said[lap, 1] = watched.turn(Did("look", "a"), Did("look", "b"))
        said[lap, 2] = watched.turn(Did("look", "b"), Did("look", "c"))
        said[lap, 3] = watched.turn(Did("read"))
    assert [when for when, what in said.items() if ("nudge", "cycle") in what] == [(3, 3)]
    finding = next(v.finding for v in watched.verdicts if v.finding.detector == "cycle")
    assert finding.keys == ("look a", "look b", "look c", "read a")
    assert finding.tool == "look → look → read"


def test_the_order_within_a_turn_is_none() -> None:
    watched = Watched(only="cycle")
    one, other = (Did("look", "a"), Did("look", "b")), Did("read")
    for lap in range(1, 4):
        watched.turn(*(one if lap % 2 else one[::-1]))
        last = watched.turn(other)
    assert last == [("nudge", "cycle")]


def test_refused_calls_go_on_counting() -> None:
    watched = Watched(only="cycle")
    laps(watched, different(2), 4)
    blocked = [refused("block", arguments=str(place), text=f"blocked {place}") for place in range(2)]
    assert laps(watched, blocked, 1) == {(1, 2): [("stop", "cycle")]}


def test_a_poll_and_the_wait_between_are_left_to_the_patience_of_the_poll() -> None:
    """POLL-02: this is how one polls."""
    watched = Watched(polls=("status",))  # of all detectors
    assert laps(watched, [Did("status", content="running"), Did("sleep", "30", "slept")], 8) == {}


def test_one_poll_in_the_lap_is_enough_for_that() -> None:
    watched = Watched(only="cycle", polls=("status",))
    assert laps(watched, [Did("status", content="running"), Did("look")], 8) == {}


def test_the_finding_rests_on_the_calls_of_the_last_lap() -> None:
    watched = Watched(only="cycle")
    laps(watched, different(2), 4)
    nudge, block = (verdict.finding for verdict in watched.verdicts)
    assert nudge.calls == ("c5", "c6")
    assert block.calls == ("c7", "c8")
    assert nudge.onset == block.onset == 3  # the first result of the first lap
    assert nudge.keys == ("look 0", "look 1")


def test_a_cycle_of_huge_turns_is_named_in_bounds() -> None:
    watched = Watched(only="cycle")
    big = [Did("look", str(number)) for number in range(200)]
    for _ in range(3):
        watched.turn(*big)
        watched.turn(Did("read"))
    finding = next(v.finding for v in watched.verdicts if v.finding.detector == "cycle")
    assert len(finding.calls) <= 64


def test_a_new_cycle_climbs_anew() -> None:
    watched = Watched(only="cycle")
    assert list(laps(watched, different(2), 4)) == [(3, 2), (4, 2)]
    watched.turn(Did("other"))
    watched.user()
    assert list(laps(watched, different(2), 4).values()) == [[("nudge", "cycle")], [("block", "cycle")]]
