"""One pair that comes again and again among others that are new."""

from __future__ import annotations

from collections.abc import Iterator

from watched import Did, Watched, steps_by

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
    assert len(detector._streaks) <= REMEMBERED  # type: ignore[attr-defined]
