"""The ladder: nudge, block, stop; one step at a time, each once, anew for what begins anew."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.judge import BUILT_IN
from watchkeeper.ladder import CEILINGS, PRECEDENCE, REASONS, GuardMode, Ladder, steps_of, strongest
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
def test_a_hard_ceiling_stops_in_every_mode(mode: GuardMode, detector: str) -> None:
    assert Ladder(STEPS, mode).judge(found(1, detector)) == "stop"


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


def test_the_memory_is_bounded_and_keeps_what_is_in_use() -> None:
    ladder = Ladder(STEPS)
    assert climb(ladder, 3) == ["nudge"]
    for number in range(1000):
        assert climb(ladder, 3, keys=(f"other {number}",)) == ["nudge"]
        assert climb(ladder, 4) == [None]
    assert climb(ladder, 5) == ["block"]
    assert len(ladder._climbed) <= 256


def test_the_standing_is_the_highest_by_detector() -> None:
    ladder = Ladder(STEPS)
    climb(ladder, 2, keys=("a",))
    climb(ladder, 3, 5, 6, keys=("b",))
    climb(ladder, 4, detector="arguments")
    assert ladder.standing() == {"equal": (2, 6), "arguments": (1, 4)}


def test_which_guard_wins() -> None:
    assert PRECEDENCE == ("cancel", "ceiling", "budget", "evidence", "finish", "nudge")
    assert strongest([]) is None
    assert strongest(["nudge", "finish", "budget"]) == "budget"
    assert strongest(PRECEDENCE[::-1]) == "cancel"
    with pytest.raises(ValueError, match=r"tuple\.index"):
        strongest(["luck"])


def test_every_detector_has_its_steps_or_is_a_ceiling() -> None:
    names = {factory(Thresholds(), frozenset()).name for factory in BUILT_IN} | {"silence"}
    assert names == set(steps_of(Thresholds())) | set(CEILINGS)
    assert set(REASONS) <= names


def test_the_thresholds_are_those_that_are_documented() -> None:
    thresholds = Thresholds()
    assert steps_of(thresholds) == {
        "equal": Steps(3, 5, 8),
        "equal_any": Steps(20, 45, 60),
        "cycle": Steps(3, 4, 5),
        "poll": Steps(10, 20, 30),
        "failing": Steps(3, 5, 8),
        "arguments": Steps(4, None, 5),
    }
    assert (thresholds.window, thresholds.breaker, thresholds.silence) == (30, 30, 120)


def test_every_threshold_says_why() -> None:
    """Each field of the table has its reason beside it."""
    source = inspect.getsource(Thresholds)
    for name in Thresholds.__struct_fields__:
        line = next(i for i, text in enumerate(source.splitlines()) if text.strip().startswith(f"{name}:"))
        assert source.splitlines()[line + 1].strip().startswith('"""'), name
