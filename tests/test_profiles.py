"""Profiles are data: each complete, and chosen by name. That they take effect is tested where runs are."""

from __future__ import annotations

import msgspec
import pytest

from watchkeeper import ConfigurationError, Limits, Profile
from watchkeeper.ladder import Ladder, steps_of
from watchkeeper.messages import Finding
from watchkeeper.profiles import PROFILES, profile_named
from watchkeeper.thresholds import Steps, Thresholds


def test_the_profiles_that_there_are() -> None:
    assert set(PROFILES) == {"default", "loopagent", "demo", "production", "safe-loop", "safe-runner"}
    assert all(profile.name == name for name, profile in PROFILES.items())


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_chosen_by_name_or_given(name: str) -> None:
    assert profile_named(name) is PROFILES[name]
    own = msgspec.structs.replace(PROFILES[name], name="own")
    assert profile_named(own) is own


@pytest.mark.parametrize("name", ["fast", "", "Default"])
def test_an_unknown_name_is_answered_with_those_that_there_are(name: str) -> None:
    message = f"there is no profile {name!r}; the profiles are default, demo, loopagent, production, safe-loop, safe-"
    with pytest.raises(ConfigurationError, match=message):
        profile_named(name)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_no_limit_is_left_open(profile: Profile) -> None:
    """LOOP-10: whatever is chosen, turns, calls, time, tokens and repetition end a run."""
    limits = profile.limits
    assert 0 < limits.max_turns <= 100
    for name in ("max_calls", "seconds", "tokens"):
        value = getattr(limits, name)
        assert value is not None
        assert 0 < value < float("inf")
    thresholds = profile.thresholds
    assert 0 < thresholds.breaker <= thresholds.window
    assert 0 < thresholds.silence <= 600
    assert profile.mode == "enforce"
    assert 0 < profile.remind_at <= profile.finish_at <= 1


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_ladder_ends_in_a_stop_and_climbs(profile: Profile) -> None:
    for detector, steps in steps_of(profile.thresholds).items():
        counts = [at for at in (steps.nudge, steps.block, steps.stop) if at is not None]
        assert steps.stop is not None, detector
        assert counts == sorted(set(counts)), detector


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_profile_is_data(profile: Profile) -> None:
    assert msgspec.json.decode(msgspec.json.encode(profile), type=Profile) == profile
    with pytest.raises(AttributeError):
        profile.name = "other"  # type: ignore[misc]


def test_the_defaults() -> None:
    limits = Limits()
    assert (limits.max_turns, limits.finish_turns, limits.max_calls) == (20, 3, 1000)
    assert (limits.seconds, limits.pushbacks, limits.grace, limits.parallel) == (1800, 2, 5, 16)
    default = PROFILES["default"]
    assert (default.limits, default.thresholds) == (limits, Thresholds())
    assert (default.remind_at, default.finish_at) == (0.7, 0.9)
    assert default.refuse_equal is default.interval is None
    assert default.deny == ()


def test_what_each_profile_is_there_for() -> None:
    """The settings that make them what they are, as they are documented."""
    loopagent, demo, production, loop, runner = (
        PROFILES[name] for name in ("loopagent", "demo", "production", "safe-loop", "safe-runner")
    )
    assert (loopagent.refuse_equal, loopagent.show_earlier, loopagent.writers_alone) == (2, True, True)
    assert loopagent.thresholds.failing == Steps(None, None, 3)
    assert loopagent.thresholds.failing_in_any_way
    assert (loopagent.limits.finish_turns, loopagent.limits.pushbacks) == (1 + 2, 2)
    # So many equal calls *before* the one that is judged; counts include it.
    assert (demo.thresholds.equal, demo.thresholds.breaker) == (Steps(5 + 1, None, 8 + 1), 10 + 1)
    assert (production.thresholds.equal, production.thresholds.breaker) == (Steps(10 + 1, None, 20 + 1), 30 + 1)
    assert (demo.limits.max_turns, demo.limits.finish_turns, demo.finish_at) == (10, 0, 1)
    assert (loop.limits.max_turns, loop.interval, loop.deny) == (15, 5, ("run_command", "delete_file"))
    assert (loop.remind_at, loop.thought_alert, loop.thought_force) == (0.7, 2, 3)
    assert (runner.limits.max_calls, runner.refuse_equal, runner.show_earlier) == (5, 3, False)
    assert runner.on_stop == "hand_over"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("default", {3: "nudge", 5: "block", 8: "stop"}),
        ("demo", {6: "nudge", 9: "stop"}),
        ("production", {11: "nudge", 21: "stop"}),
    ],
)
def test_when_equal_calls_are_told_and_stopped(name: str, expected: dict[int, str]) -> None:
    profile = PROFILES[name]
    ladder = Ladder(steps_of(profile.thresholds), profile.mode)
    found = {n: ladder.judge(Finding(detector="equal", pattern="p", count=n, keys=("k",))) for n in range(1, 40)}
    assert {count: action for count, action in found.items() if action} == expected
