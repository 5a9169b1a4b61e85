"""Cycles with fresh calls in between."""

from __future__ import annotations

import pytest
from watched import Did, Watched, steps_by

from watchkeeper.detect.interleaved import FRESH
from watchkeeper.thresholds import PERIODS

LAPS = steps_by("interleaved")
MOST = max(LAPS)


def known(place: int) -> Did:
    return Did("look", f'{{"at":"{place}"}}', f"what stands at place {place}")


def fresh(number: int) -> Did:
    return Did("read", f'{{"leaf":"{number}"}}', f"what stands on page {number} of it")


def laps(watched: Watched, period: int, times: int, noise: int = 1) -> dict[int, list[tuple[str, str]]]:
    """What is said in each lap, with so many new calls after it."""
    said: dict[int, list[tuple[str, str]]] = {}
    for lap in range(1, times + 1):
        said[lap] = [word for place in range(period) for word in watched.turn(known(place))]
        for number in range(noise):
            assert watched.turn(fresh(1000 * lap + number + watched.n)) == []
    return {lap: what for lap, what in said.items() if what}


@pytest.mark.parametrize("noise", [1, 3, FRESH])
@pytest.mark.parametrize("period", PERIODS)
def test_every_period_to_the_exact_lap(period: int, noise: int) -> None:
    watched = Watched(only="interleaved")
    assert laps(watched, period, MOST + 1, noise) == LAPS
    assert watched.verdicts[0].finding.pattern == f"cycle of {period} among others"
    assert len(watched.verdicts[0].finding.keys) == period


def played(watched: Watched, places: str) -> list[int]:
    """Known calls, each with a new one after it; at which of them something was said, from 1."""
    said = []
    for number, place in enumerate(places, 1):
        if watched.turn(known(ord(place))):
            said.append(number)
        watched.turn(fresh(watched.n))
    return said


def test_a_round_of_another_kind_begins_the_count_anew() -> None:
    watched = Watched(only="interleaved")
    assert played(watched, "abx") == []
    assert played(watched, "abab" + "xbxbxb") == [9]  # the third time that b and x follow each other, and the first


@pytest.mark.parametrize(("lap", "period"), [("abcbcbc", 2), ("abcbc", 5)])
def test_the_most_laps_win_and_of_equally_many_those_of_the_smallest_period(lap: str, period: int) -> None:
    watched = Watched(only="interleaved")
    assert played(watched, "abcxx") == []  # all of it is known by now, and x is not what they begin with
    played(watched, lap * (min(LAPS) - 1))
    assert watched.findings[-1].pattern == f"cycle of {period} among others"
    assert watched.findings[-1].count == min(LAPS)


def test_one_known_call_over_and_over_is_no_cycle() -> None:
    assert played(Watched(only="interleaved"), "a" * 30) == []


def test_it_rests_on_the_calls_of_the_last_lap_and_goes_back_to_the_first_that_was_known() -> None:
    watched = Watched(only="interleaved")
    played(watched, "ab" * min(LAPS))
    (found,) = watched.findings
    assert found.calls == ("c13", "c15")
    assert found.onset == 3 * 5  # the fifth call, with which a is there again
    assert found.count == min(LAPS)


def test_one_call_that_tells_something_is_enough() -> None:
    watched = Watched(only="interleaved")
    said = {}
    for lap in range(1, MOST + 1):
        watched.turn(Did("scroll", "{}", "ok"))
        said[lap] = watched.turn(known(1))
        watched.turn(fresh(lap))
    assert {lap: what for lap, what in said.items() if what} == LAPS


@pytest.mark.parametrize("period", PERIODS)
def test_with_so_much_news_in_between_it_is_no_cycle(period: int) -> None:
    assert laps(Watched(only="interleaved"), period, 12, FRESH + 1) == {}


def test_noise_in_the_middle_of_a_lap() -> None:
    watched = Watched(only="interleaved")
    said = []
    for lap in range(MOST + 1):
        for place in range(3):
            said += watched.turn(known(place))
            if (lap + place) % 2:
                watched.turn(fresh(10 * lap + place))
    assert [[word] for word in said] == list(LAPS.values())


def test_a_cycle_without_noise_is_judged_elsewhere() -> None:
    assert laps(Watched(only="interleaved"), 3, 10, noise=0) == {}


def test_a_known_call_with_another_result_moves_on() -> None:
    watched = Watched(only="interleaved")
    for lap in range(12):
        for place in range(3):
            assert watched.turn(known(place)) == []
        assert watched.turn(Did("test", "{}", f"{'abcdefghijkl'[lap] * 6} is what fails now")) == []


def test_orders_that_are_acknowledged_are_no_cycle() -> None:
    watched = Watched(only="interleaved")
    for lap in range(12):
        for tool in ("scroll", "click"):
            assert watched.turn(Did(tool, "{}", "ok")) == []
        assert watched.turn(fresh(lap)) == []


STEPS = (
    Did("open", "{}", "Window: record an invoice"),
    Did("press", '{"key":"Book"}', "The document has been put down"),
)


def test_nor_is_dealing_with_one_thing_after_the_other() -> None:
    """A new order is acknowledged in each lap, and nothing is complained of."""
    watched = Watched(only="interleaved")
    for number in range(12):
        for did in (STEPS[0], Did("type", f'{{"text":"invoice {number}"}}', "OK"), STEPS[1]):
            assert watched.turn(did) == []


def test_but_for_one_that_fails_each_time() -> None:
    watched = Watched(only="interleaved")
    said = {}
    for lap in range(1, MOST + 1):
        watched.turn(STEPS[0])
        watched.turn(Did("type", f'{{"text":"invoice {lap}"}}', "OK"))
        said[lap] = watched.turn(Did("press", '{"key":"Book"}', "The period is not open: nothing was booked"))
    assert {lap: what for lap, what in said.items() if what} == LAPS


def test_what_was_ordered_before_it_began_is_none_of_it() -> None:
    watched = Watched(only="interleaved")
    watched.turn(Did("type", '{"text":"hello"}', "OK"))
    for number in range(FRESH + 1):
        watched.turn(fresh(number))
    assert laps(watched, 3, MOST) == LAPS


def test_nor_is_a_wait_and_a_look() -> None:
    watched = Watched(only="interleaved")
    for lap in range(12):
        assert watched.turn(Did("sleep", '{"seconds":5}', "")) == []
        assert watched.turn(Did("status", "{}", "pending")) == []
        assert watched.turn(fresh(lap)) == []


def edit(number: int) -> Did:
    return Did("apply_patch", f'{{"file":"src/part{number}.py","text":"new text {number}"}}', "Success. Updated 1 file")


def checks(watched: Watched, rounds: int, tests: str, types: str) -> list[list[tuple[str, str]]]:
    """What is said while so many edits are checked by the same two commands."""
    said = []
    for number in range(rounds):
        watched.turn(edit(number))
        said += [watched.turn(Did("shell", "pytest -q", tests)), watched.turn(Did("shell", "mypy src", types))]
    return said


def test_green_checks_between_edits_are_how_work_is_done() -> None:
    assert not any(checks(Watched(only="interleaved"), 12, "41 passed in the tests", "Success: no issues found"))


def test_checks_that_find_the_same_each_time_are_a_cycle() -> None:
    said = checks(Watched(only="interleaved"), 12, "2 failed, 39 passed in the tests", "Success: no issues found")
    assert [word for word in said if word][:3] == [LAPS[lap] for lap in sorted(LAPS)]
