"""How a worker stands: each rule, without a process."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.service.restarts import FIRST, MOST, WINDOW, Restarts
from watchkeeper.service.vitals import SILENT, START, Vitals
from watchkeeper.service.wire import AnySign, Beat, Blocked, Bye, Hello, Reloaded, Stack

GRACE = 5.0
BLOCK = Blocked(1.0, "f.py:1 in f", "stack")


def running(now: float = 0.0) -> Vitals:
    vitals = Vitals(GRACE, now)
    vitals.hear(Hello("trio"), now)
    return vitals


def beating(vitals: Vitals, start: float, end: float, **said: Any) -> float:
    """Beats four times a second from ``start`` to ``end``; asks what is to be done after each."""
    now = start
    while now < end:
        now += 0.25
        vitals.hear(Beat(**{"runs": 1, "lag": 0.0, **said}), now)
        assert vitals.act(now) is None
    return now


def test_it_starts_with_its_first_word_of_work() -> None:
    vitals = Vitals(GRACE, 100.0)
    vitals.hear(Beat(), 101.0)
    assert (vitals.state, vitals.act(101.0)) == ("starting", None)
    vitals.hear(Hello("trio"), 102.0)
    assert (vitals.state, vitals.since) == ("running", 102.0)


def test_one_that_does_not_start_is_killed() -> None:
    vitals = Vitals(GRACE, 0.0)
    vitals.hear(Beat(), START - 0.1)
    assert vitals.act(START - 0.1) is None
    assert vitals.act(START) == "kill"
    assert "not started" in vitals.why


def test_a_blocked_one_is_named_once_and_killed_at_its_grace() -> None:
    vitals = running()
    vitals.hear(BLOCK, 1.0)
    assert (vitals.state, vitals.act(1.0), vitals.act(1.1)) == ("blocked", "name", None)
    vitals.hear(BLOCK, 5.9)
    assert vitals.act(5.9) is None
    assert vitals.act(1.0 + GRACE) == "kill"
    assert "f.py:1 in f holds it" in vitals.why


def test_one_whose_loop_answers_again_works_again_and_has_its_whole_grace_the_next_time() -> None:
    vitals = running()
    vitals.hear(BLOCK, 1.0)
    assert vitals.act(1.0) == "name"
    vitals.hear(Beat(lag=4.0), 5.0)
    assert (vitals.state, vitals.act(5.0), vitals.why) == ("running", None, "")
    vitals.hear(BLOCK, 5.5)
    assert vitals.act(5.5) == "name"
    assert vitals.act(5.5 + GRACE - 0.1) is None


def test_a_beat_without_a_loop_ends_no_trouble() -> None:
    vitals = running()
    vitals.hear(BLOCK, 1.0)
    vitals.hear(Beat(), 1.5)
    assert vitals.state == "blocked"


def test_a_silent_one_is_named_and_killed() -> None:
    vitals = running()
    assert vitals.act(SILENT - 0.01) is None
    assert vitals.act(SILENT) == "name"
    assert vitals.state == "silent"
    assert vitals.act(SILENT + GRACE) == "kill"


def test_who_has_not_looked_says_of_nobody_that_he_was_silent() -> None:
    vitals = running()
    vitals.away(9.0, 10.0)
    assert vitals.act(10.0) is None
    assert vitals.act(9.0 + SILENT) == "name"
    vitals = running()
    vitals.hear(Beat(lag=0.0), 5.0)
    vitals.away(9.0, 6.0)
    assert (vitals.act(6.0 + SILENT - 0.01), vitals.act(6.0 + SILENT)) == (None, "name")


def test_calls_that_will_not_end_have_it_recycled_once() -> None:
    vitals = running()
    vitals.hear(Beat(lag=0.0, stuck=("slow",)), 1.0)
    now = beating(vitals, 1.0, GRACE, stuck=("slow",))
    vitals.hear(Beat(lag=0.0, stuck=("slow",)), now + 1.0)
    assert vitals.act(now + 1.0) == "recycle"
    vitals.told(GRACE, now + 1.0)
    assert (vitals.state, vitals.act(now + 1.0)) == ("draining", None)


def test_calls_that_end_after_all_recycle_nothing() -> None:
    vitals = running()
    now = beating(vitals, 0.0, GRACE - 1, stuck=("slow",))
    now = beating(vitals, now, now + 1)
    beating(vitals, now, now + GRACE - 1, stuck=("slow",))


def test_one_that_drains_has_the_time_of_the_drain_and_twice_its_grace() -> None:
    vitals = running()
    vitals.told(30.0, 10.0)
    now = beating(vitals, 10.0, 10.0 + 30.0 + GRACE - 1, stuck=("slow",))
    vitals.hear(Beat(lag=0.0, stuck=("slow",)), now + 1)
    assert vitals.act(now + 1) == "name"
    assert "slow" in vitals.why
    assert vitals.act(now + 1 + GRACE - 0.1) is None
    vitals.hear(Beat(lag=0.0), now + 1 + GRACE)
    assert vitals.act(now + 1 + GRACE) == "kill"


def test_a_second_order_can_only_shorten_the_first() -> None:
    vitals = running()
    vitals.told(0.0, 10.0)
    vitals.told(600.0, 11.0)
    vitals.hear(Beat(), 10.0 + GRACE)
    assert vitals.act(10.0 + GRACE) == "name"


def test_one_that_blocks_while_it_drains_is_killed_at_its_grace() -> None:
    vitals = running()
    vitals.told(600.0, 0.0)
    vitals.hear(BLOCK, 1.0)
    assert (vitals.state, vitals.act(1.0), vitals.act(1.0 + GRACE)) == ("draining", "name", "kill")


SIGNS = st.one_of(
    st.just(BLOCK),
    st.builds(Beat, st.integers(0, 3), st.none() | st.floats(0, 9), st.sampled_from([(), ("t",)])),
    st.just(Stack("s")),
    st.just(Reloaded()),
    st.just(Bye()),
    st.just(Hello("trio")),
)


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.none() | SIGNS | st.just("told")), max_size=15))
def test_whatever_it_says_nothing_is_named_twice_and_whoever_is_told_to_end_is_gone_in_time(
    course: list[tuple[float, AnySign | str | None]],
) -> None:
    vitals, now, told, named = running(), 0.0, None, 0
    for step, said in course:
        now += step
        if said == "told":
            vitals.told(1.0, now)
            told = now if told is None else told
        elif said is not None:
            vitals.hear(said, now)  # type: ignore[arg-type]
        act = vitals.act(now)
        if act == "kill":
            assert named
            return
        assert act != "name" or vitals.act(now) != "name"
        named += act == "name"
        assert told is None or now < told + 1.0 + 2 * GRACE + 2 * 3.0, "it has not been named, or not been killed"
    end = now + START + 10 * GRACE
    assert vitals.act(end) in ("name", "kill")  # silent by now
    assert vitals.act(end + GRACE) == "kill"


def test_the_first_start_is_at_once_and_others_are_spaced() -> None:
    restarts = Restarts(100)
    waits = [restarts.died("a", 0.0) for _ in range(9)]
    assert waits[:4] == [0.0, FIRST, 2 * FIRST, 4 * FIRST]
    assert waits[-1] == MOST
    assert restarts.died("b", 0.0) == 0.0
    assert restarts.died("a", 1000.0) == 0.0


def test_more_deaths_than_are_borne_are_too_many() -> None:
    restarts = Restarts(3, 60.0)
    assert None not in [restarts.died(name, 0.0) for name in "abc"]
    assert restarts.died("d", 60.0) is None
    assert Restarts(0).died("a", 0.0) is None


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from("abc")), max_size=20), st.integers(0, 10))
def test_it_gives_up_exactly_where_a_window_holds_too_many(deaths: list[tuple[float, str]], intensity: int) -> None:
    restarts, now, times = Restarts(intensity, 60.0), 0.0, []
    for step, name in deaths:
        now += step
        times.append(now)
        within = sum(now - one <= 60.0 for one in times)
        assert (restarts.died(name, now) is None) == (within > intensity)


@pytest.mark.parametrize("lived", [0.0, WINDOW + 1])
def test_a_quiet_time_forgets(lived: float) -> None:
    restarts = Restarts()
    restarts.died("a", 0.0)
    assert restarts.died("a", lived) == (FIRST if lived < WINDOW else 0.0)
