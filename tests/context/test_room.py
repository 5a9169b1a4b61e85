"""When a view is made smaller, and the guard against going round in compactions."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import ConfigurationError, ContextLimits
from watchkeeper.context.room import Room


def room(window: int | None = 1000, /, **limits: object) -> Room:
    return Room(ContextLimits(**limits), window)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("window", "limits", "at"),
    [
        (1000, {}, 800),
        (1000, {"window": 500}, 400),
        (1000, {"start": 0.5}, 500),
        (1000, {"tokens": 300}, 300),
        (1000, {"tokens": 5000}, 800),
        (None, {"tokens": 300}, 300),
        (None, {"window": 2000}, 1600),
        (None, {}, math.inf),
        (0, {}, math.inf),
        (1000, {"compact": False}, math.inf),
    ],
)
def test_where_it_begins(window: int | None, limits: dict[str, object], at: float) -> None:
    assert room(window, **limits).at == at


def test_it_ends_at_a_share_of_where_it_begins() -> None:
    assert room(1000).target == 480
    assert room(None, tokens=300, target=0.5).target == 150


def test_one_compaction_in_so_many_turns() -> None:
    one = room(every=3)
    assert one.need(799, 1) == "no"
    assert one.need(800, 1) == "compact"
    assert one.compacted(800, 400, 1)
    assert [one.need(850, turn) for turn in (2, 3)] == ["no", "no"]  # it fits all the same
    assert one.need(850, 4) == "compact"


def test_sooner_only_if_nothing_would_fit_otherwise_and_not_for_ever() -> None:
    one = room(every=3, in_a_row=2)
    assert one.need(990, 1) == "compact"
    one.compacted(990, 400, 1)
    for turn in (2, 3):
        assert one.need(990, turn) == "compact"
        one.compacted(990, 400, turn)
    assert one.need(990, 4) == "full"
    assert one.full
    assert one.at == math.inf


def test_a_pause_in_between_counts_anew() -> None:
    one = room(every=2, in_a_row=1)
    for turn in (1, 2, 5, 6, 9, 10):
        assert one.need(990, turn) == "compact"
        one.compacted(990, 400, turn)
    assert one.need(990, 11) == "full"


@pytest.mark.parametrize(("before", "after"), [(900, 880), (900, 800), (900, 900), (820, 790)])
def test_what_frees_too_little_is_the_end_of_it(before: int, after: int) -> None:
    one = room()
    one.compacted(before, after, 1)
    assert one.full
    assert one.need(10**6, 9) == "no"


def test_a_refusal_teaches_where_the_window_ends() -> None:
    one = room(None)
    assert one.need(10**6, 1) == "no"
    assert one.refused(1000, 1) == "compact"
    assert one.at == pytest.approx(720)
    assert one.compacted(1000, 400, 1)
    assert one.refused(1000, 1) == "no"  # one compaction and one retry
    assert one.reply(900) is None  # what a refusal teaches is no window
    assert one.fits(10**6)


def test_a_refusal_that_names_the_window() -> None:
    one = room(None)
    assert one.refused(5000, 1, window=1000) == "compact"
    assert (one.window, one.at) == (1000, 800)
    told = room(4000)
    assert told.refused(3500, 1, window=10**6) == "compact"  # nobody makes it larger than it was said to be
    assert told.window == 4000


def test_refusals_one_after_the_other_come_to_an_end() -> None:
    one = room(None, in_a_row=2)
    said = []
    for turn in range(1, 6):
        said.append(one.refused(1000, turn))
        one.compacted(1000, 100, turn)
    assert said == ["compact", "compact", "compact", "full", "no"]


def test_without_compaction_a_refusal_is_the_end() -> None:
    assert room(compact=False).refused(1000, 1) == "no"


def test_the_reply_has_what_the_window_leaves() -> None:
    assert room(8000).reply(3000) == 5000
    assert room(8000).reply(7900) == 1000  # estimates are cautious: an eighth is always there
    assert room(80).reply(79) == 16
    assert room(None).reply(100) is None
    assert room(1000).fits(984)
    assert not room(1000).fits(985)


def test_summaries_come_no_more_often_than_compactions() -> None:
    assert room().sums_up(None, 1)
    assert not room(every=3).sums_up(4, 6)
    assert room(every=3).sums_up(4, 7)
    assert not room(summary=False).sums_up(None, 1)


@given(
    st.lists(st.tuples(st.integers(0, 1500), st.floats(0, 1), st.booleans()), max_size=60),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_however_it_goes_at_most_so_many_come_too_soon(
    turns: list[tuple[int, float, bool]], every: int, in_a_row: int
) -> None:
    one = room(every=every, in_a_row=in_a_row)
    done: list[int] = []
    for turn, (used, left, refused) in enumerate(turns, 1):
        was_full = one.full
        need = one.refused(used, turn) if refused else one.need(used, turn)
        if need == "compact":
            assert not was_full
            assert used >= one.at or refused or used >= 800
            one.compacted(used, int(used * left), turn)
            done.append(turn)
    soon = 0
    for earlier, later in pairwise(done):
        soon = soon + 1 if later - earlier < every else 0
        assert soon <= in_a_row
    assert len(done) == len(set(done))


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": 0},
        {"tokens": -1},
        {"start": 0},
        {"start": 1.1},
        {"target": 0},
        {"every": 0},
        {"keep": 0},
        {"in_a_row": 0},
        {"summary_tokens": 0},
        {"summary_seconds": math.inf},
        {"summary_seconds": math.nan},
    ],
)
def test_numbers_that_make_no_sense_are_an_error_where_they_are_said(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        ContextLimits(**wrong)  # type: ignore[arg-type]
