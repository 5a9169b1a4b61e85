"""The ladder: nudge, block, pause or stop; one step at a time, each once, anew for what begins anew."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.handover import HandOver
from watchkeeper.detect.judge import BUILT_IN
from watchkeeper.detect.volume import Volume
from watchkeeper.ladder import (
    CEILINGS,
    LAST,
    OF_RUNS,
    PRECEDENCE,
    REASONS,
    REMEMBERED,
    RESTED,
    GuardMode,
    Ladder,
    steps_of,
    strongest,
)
from watchkeeper.messages import Action, Finding
from watchkeeper.thresholds import Steps, Thresholds

STEPS = {"equal": Steps(3, 5, 8), "arguments": Steps(4, None, 5), "late": Steps(None, None, 3)}


def found(count: int, detector: str = "equal", **fields: Any) -> Finding:
    return Finding(detector=detector, pattern="a pattern", count=count, **{"keys": ("k",), "onset": 7, **fields})


def climb(ladder: Ladder, *counts: int, **fields: Any) -> list[Action | None]:
    return [ladder.judge(found(count, **fields)) for count in counts]


def actions(ladder: Ladder, upto: int, **fields: Any) -> dict[int, Action]:
    return {count: action for count in range(1, upto) if (action := ladder.judge(found(count, **fields)))}


def test_each_step_comes_once_and_at_its_count() -> None:
    assert actions(Ladder(STEPS), 20) == {3: "nudge", 5: "block", 8: "stop"}


def test_a_step_that_is_left_out_is_passed_over() -> None:
    assert actions(Ladder(STEPS), 20, detector="arguments") == {4: "nudge", 5: "stop"}
    assert actions(Ladder(STEPS), 20, detector="late") == {3: "stop"}
    assert actions(Ladder({"equal": Steps()}), 20) == {}


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20))
def test_it_never_goes_straight_to_the_stop(counts: list[int]) -> None:
    """However the count jumps, the steps below come first."""
    taken = [action for action in climb(Ladder(STEPS), *sorted(counts)) if action]
    assert taken == ["nudge", "block", "stop"][: len(taken)]


def test_a_jump_is_one_step_at_a_time() -> None:
    assert climb(Ladder(STEPS), 50, 51, 52, 53) == ["nudge", "block", "stop", None]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("enforce", {3: "nudge", 5: "block", 8: "stop"}),
        ("nudge", {3: "nudge"}),
        ("observe", {}),
    ],
)
def test_modes(mode: GuardMode, expected: dict[int, Action]) -> None:
    assert actions(Ladder(STEPS, mode), 20) == expected


@pytest.mark.parametrize("mode", ["enforce", "nudge", "observe"])
@pytest.mark.parametrize("detector", ["breaker", "silence"])
@pytest.mark.parametrize("attended", [False, True])
def test_a_hard_ceiling_stops_in_every_mode(mode: GuardMode, detector: str, attended: bool) -> None:
    ladder = Ladder(STEPS, mode, attended=attended)
    assert ladder.judge(found(1, detector)) == "stop"
    assert climb(ladder, 3, 5, 8)  # whatever else has been said, and however often the run was resumed
    assert ladder.judge(found(1, detector)) == "stop"


# -- attended: a pause instead of the stop, and again for a run that is let go on -------------------------------------


def test_an_attended_run_is_paused_instead_of_stopped() -> None:
    assert actions(Ladder(STEPS, attended=True), 9) == {3: "nudge", 5: "block", 8: "pause"}


def test_after_a_pause_half_as_many_laps_bring_the_next() -> None:
    """The streak goes on: whoever resumes is asked again, not told from the beginning."""
    assert actions(Ladder(STEPS, attended=True), 21) == {
        **{3: "nudge", 5: "block"},
        **{8: "pause", 12: "pause", 16: "pause", 20: "pause"},
    }


def test_half_of_an_odd_step_is_rounded_up() -> None:
    ladder = Ladder({"equal": Steps(3, 4, 5)}, attended=True)
    assert [count for count, action in actions(ladder, 16).items() if action == "pause"] == [5, 8, 11, 14]


def test_the_next_pause_counts_from_where_the_last_one_was() -> None:
    """A count that jumps is told and blocked first, and the pause comes late."""
    assert climb(Ladder(STEPS, attended=True), 10, 11, 12, 13, 15, 16, 20) == [
        *("nudge", "block", "pause"),
        *(None, None, "pause", "pause"),
    ]


def test_what_begins_anew_after_a_pause_is_told_first() -> None:
    ladder = Ladder(STEPS, attended=True)
    assert climb(ladder, 3, 5, 8) == ["nudge", "block", "pause"]
    assert climb(ladder, 3, 5, 8, onset=50) == ["nudge", "block", "pause"]


def test_two_detectors_that_see_the_same_call_ask_once() -> None:
    """While the one that has asked goes on; what is about another call is another question."""
    ladder = Ladder({**STEPS, "other": Steps(3, 5, 9)}, attended=True)
    said = []
    for count in range(1, 13):
        said += [(count, name) for name in ("equal", "other") if ladder.judge(found(count, name)) == "pause"]
    assert said == [(8, "equal"), (12, "equal")]
    climb(ladder, 3, 5, keys=("k2",))
    assert climb(ladder, 8, keys=("k2",)) == ["pause"]
    assert climb(ladder, 13, detector="other") == ["pause"]


def test_when_the_one_that_asked_has_ended_the_other_may() -> None:
    ladder = Ladder({**STEPS, "other": Steps(3, 5, 9)}, attended=True)
    climb(ladder, 3, 5, 8)
    assert "pause" not in climb(ladder, 3, 5, 9, 10, detector="other")
    assert "pause" in climb(ladder, *range(11, 30), detector="other")


@pytest.mark.parametrize("others", range(LAST - 4, LAST + 3))
def test_one_that_asked_goes_on_as_long_as_it_was_among_the_last_findings(others: int) -> None:
    """What other subjects find in between is the measure, not the time."""
    ladder = Ladder({**STEPS, "other": Steps(1, 2, 3)}, attended=True)
    climb(ladder, 1, 2, detector="other")
    assert climb(ladder, 3, 5, 8)[-1] == "pause"
    climb(ladder, *[1] * others, keys=("of something else",))
    asked = climb(ladder, 3, detector="other") == ["pause"]
    assert asked == (others + 1 >= LAST)


@pytest.mark.parametrize("mode", ["nudge", "observe"])
def test_no_pause_in_the_milder_modes(mode: GuardMode) -> None:
    assert "pause" not in actions(Ladder(STEPS, mode, attended=True), 50).values()


# -- episodes and subjects --------------------------------------------------------------------------------------------


def test_what_has_ended_and_begins_again_climbs_anew() -> None:
    ladder = Ladder(STEPS)
    assert climb(ladder, 2, 3, 5) == [None, "nudge", "block"]
    assert climb(ladder, 2, 3, 5, 8, onset=20) == [None, "nudge", "block", "stop"]


def test_another_onset_is_another_episode_whatever_the_count() -> None:
    """Also for a detector that speaks late: its counts need not fall."""
    ladder = Ladder({"equal": Steps(20, 45, 60)})
    assert climb(ladder, 20) == ["nudge"]
    assert climb(ladder, 20, 21, onset=90) == ["nudge", None]


def test_a_lower_count_is_another_episode_where_no_onset_is_given() -> None:
    ladder = Ladder(STEPS)
    assert climb(ladder, 3, 4, 2, 3, 4, 5, onset=0) == ["nudge", None, None, "nudge", None, "block"]


def test_subjects_climb_apart() -> None:
    ladder = Ladder(STEPS)
    assert climb(ladder, 3) == ["nudge"]
    assert climb(ladder, 3, keys=("other",)) == ["nudge"]
    assert climb(ladder, 4, 5) == [None, "block"]
    assert climb(ladder, 5, keys=("other",)) == ["block"]


def test_contexts_climb_apart() -> None:
    ladder = Ladder(STEPS)
    assert ladder.judge(found(3), "one") == "nudge"
    assert ladder.judge(found(3), "two") == "nudge"
    assert ladder.judge(found(4), "one") is None


def test_what_follows_the_run_climbs_as_one_in_all_contexts() -> None:
    ladder = Ladder(steps_of(Thresholds()))
    said = [ladder.judge(found(count, "handover"), context) for count, context in ((3, "a"), (4, "b"), (5, "a"))]
    assert said == ["nudge", "block", "stop"]
    assert {HandOver.name, Volume.name} == OF_RUNS


def test_a_subject_stays_one_though_its_keys_change() -> None:
    ladder = Ladder(STEPS)
    assert climb(ladder, 3, subject="look", keys=("a",)) == ["nudge"]
    assert climb(ladder, 4, 5, subject="look", keys=("tool:look",)) == [None, "block"]


def test_without_keys_the_pattern_is_the_subject() -> None:
    ladder = Ladder(STEPS)
    assert ladder.judge(Finding(detector="equal", pattern="one", count=3)) == "nudge"
    assert ladder.judge(Finding(detector="equal", pattern="two", count=3)) == "nudge"
    assert ladder.judge(Finding(detector="equal", pattern="one", count=4)) is None


def test_an_unknown_detector_climbs_by_the_steps_of_equal() -> None:
    assert actions(Ladder(STEPS), 20, detector="of a third party") == {3: "nudge", 5: "block", 8: "stop"}


class Declaring:
    def __init__(self, name: str, steps: Any) -> None:
        self.name = name
        self.steps = steps


def test_a_third_partys_detector_may_declare_its_steps() -> None:
    ladder = Ladder(STEPS)
    ladder.declare(Declaring("mine", Steps(2, None, 4)))
    ladder.declare(Declaring("silent", None))
    assert actions(ladder, 20, detector="mine") == {2: "nudge", 4: "stop"}
    assert actions(ladder, 20, detector="silent") == {3: "nudge", 5: "block", 8: "stop"}


@pytest.mark.parametrize("name", ["equal", "breaker"])
def test_nobody_declares_ours_otherwise(name: str) -> None:
    ladder = Ladder(STEPS)
    before = actions(Ladder(STEPS), 20, detector=name)
    ladder.declare(Declaring(name, Steps(None, None, None)))
    assert actions(ladder, 20, detector=name) == before


@pytest.mark.parametrize("steps", [(3, 5, 8), {"stop": 3}, 8])
def test_what_are_no_steps_is_an_error_that_names_the_detector(steps: Any) -> None:
    with pytest.raises(TypeError, match="the steps of 'mine' must be Steps, not"):
        Ladder(STEPS).declare(Declaring("mine", steps))


def test_the_memory_is_bounded_and_keeps_what_is_in_use() -> None:
    ladder = Ladder(STEPS)
    assert climb(ladder, 3) == ["nudge"]
    for number in range(1000):
        assert climb(ladder, 3, keys=(f"other {number}",)) == ["nudge"]
        assert climb(ladder, 4) == [None]
    assert climb(ladder, 5) == ["block"]
    assert len(ladder._climbs) <= REMEMBERED


def test_the_oldest_makes_room_when_it_has_rested() -> None:
    ladder = Ladder(STEPS)
    for number in range(REMEMBERED):
        climb(ladder, 3, keys=(f"old {number}",))
    assert climb(ladder, 3, 4, 5, keys=("new",)) == ["nudge", "nudge", "nudge"]
    climb(ladder, *range(3, 3 + RESTED), keys=("old 1",))
    assert climb(ladder, 6, 7, 8, keys=("new",)) == ["nudge", "block", "stop"]
    assert climb(ladder, 4, keys=("old 0",)) == ["nudge"]


def test_a_fan_out_comes_to_its_stop() -> None:
    """Were the oldest forgotten for each new one, a wide one would be told for ever and never be stopped."""
    for width in (REMEMBERED, REMEMBERED + 1, 3 * REMEMBERED):
        ladder = Ladder(STEPS)
        taken = {
            count: {ladder.judge(found(count, keys=(f"k{number}",))) for number in range(width)}
            for count in range(2, 9)
        }
        assert "block" in taken[5]
        assert "stop" in taken[8]


def test_the_memory_is_small() -> None:
    """All state of detection is to fit into 16 KB a run: a quarter of that at most, and hardly anything while there is
    nothing to say."""
    quiet, busy = Ladder(STEPS), Ladder(STEPS)
    for number in range(10_000):
        assert quiet.judge(found(2, keys=(f"{number:032x}" * 8,), onset=10**6 + number)) is None
        busy.judge(found(300 + number, keys=(f"{number:032x}" * 8,), onset=10**6 + number))
    assert len(busy._climbs) == REMEMBERED
    assert size(quiet) < 1024
    assert size(busy) < 4096


def size(ladder: Ladder) -> int:
    """Bytes that a ladder has grown to, beside its steps."""
    total = sum(map(sys.getsizeof, (ladder._climbs._names, ladder._climbs._table, ladder._highest)))
    for name, standing in ladder._highest.items():
        total += sys.getsizeof(name) + sys.getsizeof(standing) + sum(map(sys.getsizeof, standing))
    return total


@pytest.mark.parametrize("rested", [False, True])
def test_one_that_was_in_a_finding_not_long_ago_makes_no_room(rested: bool) -> None:
    ladder = Ladder(STEPS)
    for number in range(REMEMBERED):
        climb(ladder, 3, keys=(f"old {number}",))
    # All but the first go on; with the one that is to have its place so many findings have been since.
    climb(ladder, *[4] * (RESTED - REMEMBERED + rested), keys=("old 1",))
    assert climb(ladder, 3, keys=("new",)) == ["nudge"]
    assert climb(ladder, 4, keys=("new",)) == ([None] if rested else ["nudge"])


@pytest.mark.parametrize("count", [0, -1, -(2**40)])
def test_a_count_of_none_is_no_step(count: int) -> None:
    ladder = Ladder({"equal": Steps(1, 2, 3)})
    assert climb(ladder, count) == [None]
    assert ladder.standing() == {"equal": (0, 0)}
    assert climb(ladder, 1) == ["nudge"]


def test_numbers_of_any_size_are_taken() -> None:
    """As a third party's detector may give them."""
    for attended in (False, True):
        ladder = Ladder(STEPS, attended=attended)
        assert climb(ladder, 2**80, 2**80, 2**80, onset=-(2**90))[:2] == ["nudge", "block"]
        assert climb(ladder, -(2**80), 3) == [None, "nudge"]


def test_the_standing_is_the_highest_by_detector() -> None:
    ladder = Ladder(STEPS)
    climb(ladder, 2, keys=("a",))
    climb(ladder, 3, 5, 6, keys=("b",))
    climb(ladder, 4, detector="arguments")
    climb(ladder, 2, detector="late")
    assert ladder.standing() == {"equal": (2, 6), "arguments": (1, 4), "late": (0, 2)}


def test_which_guard_wins() -> None:
    assert PRECEDENCE == ("cancel", "ceiling", "budget", "evidence", "finish", "nudge")
    assert strongest([]) is None
    assert strongest(["nudge", "finish", "budget"]) == "budget"
    assert strongest(PRECEDENCE[::-1]) == "cancel"
    with pytest.raises(ValueError, match=r"tuple\.index"):
        strongest(["luck"])


def test_every_detector_has_its_steps_or_is_a_ceiling() -> None:
    names = {factory(Thresholds(), frozenset()).name for factory in BUILT_IN} | {"silence", HandOver.name, Volume.name}
    known = set(steps_of(Thresholds())) | set(CEILINGS)
    assert names <= known
    assert set(REASONS) <= known


def test_the_thresholds_are_those_that_are_documented() -> None:
    thresholds = Thresholds()
    assert (
        steps_of(thresholds).items()
        >= {
            "equal": Steps(3, 5, 8),
            "equal_any": Steps(20, 45, 60),
            "cycle": Steps(3, 4, 5),
            "poll": Steps(10, 20, 30),
            "failing": Steps(3, 5, 8),
            "arguments": Steps(4, None, 5),
            "handover": Steps(3, 4, 5),
            "volume": Steps(100, None, 150),
        }.items()
    )
    assert (thresholds.window, thresholds.breaker, thresholds.silence) == (30, 30, 120)


def test_every_threshold_says_why() -> None:
    """Each field of the table has its reason beside it."""
    source = inspect.getsource(Thresholds)
    for name in Thresholds.__struct_fields__:
        line = next(i for i, text in enumerate(source.splitlines()) if text.strip().startswith(f"{name}:"))
        assert source.splitlines()[line + 1].strip().startswith('"""'), name
