"""One pair that comes again and again among others that are new."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from watched import Did, Watched, refused, steps_by

from watchkeeper.detect.recurring import APART, REMEMBERED

RECURRING = steps_by("recurring")
NUDGE = min(RECURRING)
RED = "2 of 40 tests fail: test_sum, test_mean"


def edit(number: int) -> Did:
    return Did("edit", f'{{"path":"part_{number}.py"}}', f"replaced line {number * 7} of part {number}")


def told(watched: Watched, times: int, again: Did, between: int = 1) -> dict[int, list[tuple[str, str]]]:
    """What is said at each time of a call with some new ones after it."""
    said = {}
    fresh = iter(range(10_000 * watched.n, 10_000 * (watched.n + 1)))
    for time in range(1, times + 1):
        said[time] = watched.turn(again)
        for _ in range(between):
            assert watched.turn(edit(next(fresh))) == []
    return {time: what for time, what in said.items() if what}


def test_a_check_that_says_the_same_after_each_of_many_changes() -> None:
    watched = Watched(only="recurring")
    assert told(watched, max(RECURRING) + 1, Did("test", "{}", RED)) == RECURRING
    finding = watched.verdicts[0].finding
    assert (finding.tool, finding.known, finding.onset) == ("test", RED, watched.verdicts[-1].finding.onset)


def test_one_that_says_something_else_in_between_does_not() -> None:
    watched = Watched(only="recurring")
    for number in range(40):
        fails = "test_sum, test_mean" if number % 4 else f"test_of_part_{number}"
        assert watched.turn(Did("test", "{}", f"2 of 40 tests fail: {fails}")) == []
        assert watched.turn(edit(number)) == []


GAUGE = Did("gauge", "{}", "the pressure in the tank is at three bar")


def test_what_complains_of_nothing_counts_half() -> None:
    watched = Watched(only="recurring", mode="observe")
    told(watched, 2 * max(RECURRING), GAUGE)
    assert [finding.count for finding in watched.findings] == sorted(RECURRING)  # each once
    assert told(Watched(only="recurring"), 2 * NUDGE, GAUGE) == {2 * NUDGE - 1: RECURRING[NUDGE]}


def test_that_all_is_well_may_be_seen_as_often_as_one_likes() -> None:
    assert told(Watched(only="recurring"), 5 * NUDGE, Did("test", "{}", "40 tests, all of them passed")) == {}


@pytest.mark.parametrize(
    "did",
    [
        Did("gauge", "{}", "it is as it is", kind="failed", error="ValueError", detail="Traceback\nit is as it is"),
        refused("policy", "gauge", "{}", "see the rules", kind="denied", error="denied"),
    ],
)
def test_what_fails_or_is_turned_away_counts_in_full_whatever_it_says(did: Did) -> None:
    assert told(Watched(only="recurring"), NUDGE, did) == {NUDGE: RECURRING[NUDGE]}


def test_what_comes_back_after_a_while_is_counted_anew() -> None:
    watched = Watched(only="recurring")
    assert told(watched, NUDGE - 1, Did("test", "{}", RED)) == {}
    for number in range(APART):
        watched.turn(edit(number))
    assert told(watched, NUDGE, Did("test", "{}", RED)) == {NUDGE - 1: RECURRING[NUDGE]}  # once it is known already


@pytest.mark.parametrize("many", [0, 1])
def test_so_many_checks_in_turn_are_followed(many: int) -> None:
    watched = Watched(only="recurring")
    said = []
    for number in range(NUDGE):
        for check in range(REMEMBERED + many):
            said += watched.turn(
                Did("test", f'{{"part":"{"abcdefghijk"[check]}"}}', f"{RED} of {'abcdefghijk'[check]}")
            )
        watched.turn(edit(number))
    assert len(said) == (0 if many else REMEMBERED)


def test_of_a_wide_fan_out_nothing_is_followed() -> None:
    watched = Watched(only="recurring")
    for number in range(2 * NUDGE):
        assert watched.turn(*(Did("test", f"{place}", RED) for place in range(9))) == []
        watched.turn(edit(number))


def test_what_comes_in_a_row_is_judged_elsewhere() -> None:
    assert Watched(only="recurring").turns(20, Did("test", "{}", RED)) == {}


def test_an_acknowledgement_cannot_recur() -> None:
    """ "Scroll down" is answered alike each time; what comes of it is seen by another call."""
    assert told(Watched(only="recurring"), 30, Did("scroll", "{}", "ok")) == {}


def test_what_is_looked_at_now_and_then_does_not_recur() -> None:
    assert told(Watched(only="recurring"), NUDGE + 1, Did("test", "{}", RED), between=APART - 1) == {
        NUDGE: RECURRING[NUDGE]
    }
    assert told(Watched(only="recurring"), NUDGE + 1, Did("test", "{}", RED), between=APART) == {}


def test_nor_does_a_poll() -> None:
    assert told(Watched(only="recurring"), 20, Did("status", "{}", "running")) == {}
    assert told(Watched(only="recurring", polls=("status",)), 20, Did("status", "{}", "at place 3 of 9")) == {}


def test_several_at_once_and_the_memory_is_bounded() -> None:
    watched = Watched(only="recurring")

    def checks() -> Iterator[Did]:
        return (Did("test", f'{{"part":"{name}"}}', f"{RED} of {name}") for name in "ab")

    said = []
    for number in range(NUDGE):
        for check in checks():
            said += watched.turn(check)
        watched.turn(edit(number))
    assert said == [("nudge", "recurring")] * 2
    for number in range(200):
        for _ in range(3):
            watched.turn(Did("read", f"{number}", f"{RED} in file {number}"))
    (detector,) = (one for one in watched.judge._desks["main"].detectors if one.name == "recurring")
    assert len(detector._streaks) <= REMEMBERED
