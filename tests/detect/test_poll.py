"""Polls: patience in time, then a count; and the breaker, which nothing lifts."""

from __future__ import annotations

import pytest
from watched import Did, Watched, refused

from watchkeeper.detect.poll import REMEMBERED
from watchkeeper.thresholds import Steps, Thresholds

NUDGE, BLOCK, STOP = [("nudge", "poll")], [("block", "poll")], [("stop", "poll")]
# One poll a minute: the third is the first that is past the patience of two minutes, and the first that counts.
POLLING = {12: NUDGE, 22: BLOCK, 32: STOP}


def poll(watched: Watched, times: int, every: float, did: Did | None = None) -> dict[int, list[tuple[str, str]]]:
    said = {}
    for number in range(1, times + 1):
        said[number] = watched.turn(did or Did("status", content="running"))
        watched.t += every
    return {number: what for number, what in said.items() if what}


def test_unchanged_polls_to_the_exact_count_once_patience_has_run_out() -> None:
    watched = Watched(polls=("status",))
    assert poll(watched, 34, every=60) == POLLING
    assert "wait once, with a deadline" in watched.verdicts[0].message
    assert watched.verdicts[0].finding.known == "running"


def test_within_its_patience_nothing_is_said() -> None:
    """A hundred polls within two minutes are the tool's own business, and no reason to be told at once afterwards."""
    watched = Watched(polls=("status",))
    assert poll(watched, 100, every=1.2) == {}
    assert poll(watched, 10, every=1.2) == {10: NUDGE}


def test_patience_counts_from_the_last_change() -> None:
    watched = Watched(polls=("status",))
    assert poll(watched, 11, every=100) == {}
    assert poll(watched, 11, every=100, did=Did("status", content="running 50 %")) == {}
    assert poll(watched, 11, every=100) == {}


def test_progress_is_never_judged() -> None:
    """POLL-01"""
    watched = Watched(polls=("status",))
    for number in range(200):
        watched.t += 60
        assert watched.turn(Did("status", content=f"running {number} %")) == []


def test_other_calls_between_change_nothing() -> None:
    watched = Watched(polls=("status",))
    said = {}
    for number in range(1, 34):
        said[number] = watched.turn(Did("status", content="running"))
        watched.t += 60
        assert watched.turn(Did("look", str(number), str(number))) == []
    assert {number: what for number, what in said.items() if what} == POLLING


def test_refused_polls_go_on_counting() -> None:
    watched = Watched(polls=("status",))
    assert poll(watched, 22, every=60) == {12: NUDGE, 22: BLOCK}
    assert poll(watched, 10, every=60, did=refused("block", "status")) == {10: STOP}


def test_also_those_of_what_is_a_poll_by_its_answer_only() -> None:
    watched = Watched(only="poll")
    assert poll(watched, 22, every=60, did=Did("status", content="running")) == {12: NUDGE, 22: BLOCK}
    assert poll(watched, 10, every=60, did=refused("block", "status")) == {10: STOP}


def test_other_calls_are_none_however_many_polls_there_are() -> None:
    watched = Watched(only="poll")
    poll(watched, 11, every=60, did=Did("status", content="running"))
    assert poll(watched, 40, every=60, did=Did("look", content="as ever")) == {}


def test_it_names_the_last_polls_and_goes_back_to_the_first_with_this_answer() -> None:
    watched = Watched(only="poll", polls=("status",))
    poll(watched, 2, every=60, did=Did("status", content="not begun"))
    poll(watched, 12, every=60)
    (found,) = watched.findings
    assert found.calls == tuple(f"c{call}" for call in range(7, 15))
    assert (found.count, found.onset) == (10, 1 + 3 * 3)  # the first fact is that of the run


def test_patience_of_less_than_a_second() -> None:
    watched = Watched(Thresholds(poll_patience=0.5), polls=("status",))
    assert poll(watched, 20, every=0.4) == {12: NUDGE}


def test_polls_of_different_things_are_apart() -> None:
    watched = Watched(polls=("status",))
    for _ in range(11):
        assert watched.turn(Did("status", "one", "running"), Did("status", "two", "running")) == []
        watched.t += 60
    assert watched.turn(Did("status", "one", "running"), Did("status", "two", "done")) == NUDGE


def test_a_new_episode_climbs_anew() -> None:
    watched = Watched(polls=("status",))
    assert poll(watched, 12, every=60) == {12: NUDGE}
    watched.turn(Did("status", content="changed"))
    assert poll(watched, 32, every=60) == POLLING


def test_what_is_not_declared_a_poll_gets_no_patience() -> None:
    watched = Watched(polls=("other",))
    assert poll(watched, 3, every=60, did=Did("status", content="on fire")) == {3: [("nudge", "equal")]}


@pytest.mark.parametrize("content", ["running", '{"state": "queued"}', "Build 7 is in progress.", "not ready yet"])
def test_but_one_that_is_told_that_something_goes_on_does(content: str) -> None:
    assert poll(Watched(), 34, every=60, did=Did("status", content=content)) == POLLING


def test_without_times_each_look_counts() -> None:
    """Recorded runs: there is no patience to wait for."""
    said = Watched(polls=("status",)).turns(31, Did("status", content="running"))
    assert said == {10: NUDGE, 20: BLOCK, 30: STOP}


def test_the_memory_is_bounded_and_keeps_what_is_in_use() -> None:
    watched = Watched(polls=("status",))
    for number in range(11):
        watched.turn(Did("status", content="running"))
        for other in range(10):
            watched.turn(Did("status", f"{number} {other}", "x"))
        watched.t += 60
    assert watched.turn(Did("status", content="running")) == NUDGE
    (detector,) = (d for d in watched.judge._desks["main"].detectors if d.name == "poll")
    assert len(detector._streaks) == REMEMBERED


# -- the breaker ----------------------------------------------------------------------------------------------------

ONLY_BREAKER = Thresholds(breaker=5, window=12)


def test_so_many_equal_pairs_in_the_window_stop_at_once() -> None:
    watched = Watched(ONLY_BREAKER, only="breaker")
    assert watched.turns(5, Did()) == {5: [("stop", "breaker")]}
    assert watched.verdicts[0].reason == "breaker"


def test_it_says_so_once() -> None:
    """Whoever goes on all the same, as a recorded run does, need not hear it each time."""
    assert Watched(ONLY_BREAKER, only="breaker").turns(12, Did()) == {5: [("stop", "breaker")]}


@pytest.mark.parametrize("mode", ["observe", "nudge"])
def test_in_every_mode(mode: str) -> None:
    watched = Watched(ONLY_BREAKER, only="breaker", mode=mode)  # type: ignore[arg-type]  # a parameter
    assert watched.turns(5, Did()) == {5: [("stop", "breaker")]}


def test_whatever_stands_between_them() -> None:
    watched = Watched(ONLY_BREAKER, only="breaker")
    said = {}
    for number in range(1, 6):
        said[number] = watched.turn(Did())
        watched.turn(Did("other", str(number)))
    assert said == {1: [], 2: [], 3: [], 4: [], 5: [("stop", "breaker")]}


def test_what_has_left_the_window_does_not_count() -> None:
    watched = Watched(ONLY_BREAKER, only="breaker")
    for number in range(40):
        assert watched.turn(Did()) == []
        assert watched.turn(Did("other", str(number)), Did("more", str(number))) == []


def test_a_fan_out_counts_once_for_it_too() -> None:
    watched = Watched(ONLY_BREAKER, only="breaker")
    assert watched.turns(4, *[Did()] * 30) == {}


def test_by_default_it_takes_the_whole_window() -> None:
    thresholds = Thresholds(equal=Steps(), failing=Steps())
    assert Watched(thresholds).turns(30, Did()) == {
        20: [("nudge", "equal_any")],
        30: [("stop", "breaker")],
    }


def test_it_is_never_out_of_reach_of_its_window() -> None:
    """More than the window holds cannot be seen: then a full window is enough."""
    thresholds = Thresholds(equal=Steps(), equal_any=Steps(), breaker=99, window=10)
    assert Watched(thresholds).turns(10, Did()) == {10: [("stop", "breaker")]}


def test_polls_are_not_its_business() -> None:
    watched = Watched(ONLY_BREAKER, only="breaker", polls=("look",))
    assert watched.turns(50, Did()) == {}


WAIT = Did("wait", '{"seconds":60}', "ok")


@pytest.mark.parametrize("price", ["{number}", "{gauge}"])
def test_a_wait_between_looks_that_see_a_change_is_not_in_vain(price: str) -> None:
    """Recorded runs: there is no patience to wait for. What is seen may be a level that goes up and down."""
    watched = Watched(only="poll")
    for number in range(60):
        quote = price.format(number=number, gauge=90 + (number * 7) % 13)
        assert watched.turn(Did("get_quote", '{"name":"ABC"}', f"the price of ABC at the exchange is {quote}.25")) == []
        assert watched.turn(WAIT) == []


def test_a_wait_between_looks_that_see_none_is() -> None:
    watched = Watched(only="poll")
    said = []
    for _ in range(30):
        said += watched.turn(Did("get_quote", '{"name":"ABC"}', "the exchange is closed"))
        said += watched.turn(WAIT)
    assert said == [NUDGE[0], BLOCK[0], STOP[0]]
