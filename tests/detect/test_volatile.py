"""What varies and says nothing, what is news, and what is learned: two texts, compared part by part."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watchkeeper.detect.drift import LEARNED, Drift
from watchkeeper.detect.volatile import CHANGES, NEWS, PARTS, Change, changes, masked, plain

FORMS = [
    ("at 2026-03-01T12:00:00Z", "at 2026-03-02T13:07:59+01:00"),
    ("at 2026-03-01 12:00:00.123", "at 2026-03-01 12:00:01.456"),
    ("report of 2026-03-01", "report of 2026-03-02"),
    ("01/Mar/2026:12:00:00 +0000 GET", "01/Mar/2026:12:00:09 +0000 GET"),
    ("it is 12:01", "it is 12:02"),
    ("now: 1700000000", "now: 1700000555"),
    ("now: 1700000000123", "now: 1700000000999"),
    ("took 12 ms", "took 1450 ms"),
    ("done in 1.23s", "done in 41.2s"),
    ("done in 1m3s", "done in 59s"),
    ("id 123e4567-e89b-12d3-a456-426614174000", "id 9b2e4567-e89b-42d3-b456-526614174fff"),
    ("<object at 0x7f8a58929840>", "<object at 0x7fac1797a840>"),
    ("wrote /tmp/abc123/out", "wrote /tmp/xyz999/out"),
    ("wrote pytest-17/out", "wrote pytest-18/out"),
    ("sshd[1234]: ok", "sshd[4321]: ok"),
    ("from 127.0.0.1:43211", "from 127.0.0.1:43999"),
    ("on localhost:8123", "on localhost:9123"),
]
NAMES = [
    ("pid 1234 is up", "pid 987 is up"),
    ("request_id: abc1", "request_id: zz9"),
    ("Request-Id=abc1", "Request-Id=zz9"),
    ("attempt 3 of it", "attempt 4 of it"),
    ("tried 3 times", "tried 4 times"),
    ('"etag": "abc123"', '"etag": "xyz987"'),
    ("tick 3", "tick 4"),
    ("cursor: aGVsbG8x", "cursor: d29ybGQy"),
    ('File "x.py", line 17, in f', 'File "x.py", line 18, in f'),
]
DATES = [
    ("Nov 30", "Dec 1"),
    ("Mon Nov 30 03:06", "Tue Dec 1 03:07"),
    ("Sat May 30 at noon", "Sun May 31 at noon"),
]
NUMBERS = [
    ("10 rows", "11 rows", 10, 11),
    ("11 rows", "10 rows", 11, 10),
    ("page 3", "page 4", 3, 4),
    ("1,999 rows", "2,000 rows", 1999, 2000),
    ("got 1,234,567 of it", "got 2,345,678 of it", 1234567, 2345678),
    ("12% of it", "13.5% of it", 12, 13.5),
    ("-3 degrees", "4 degrees", -3, 4),
    ("app1 is up", "app2 is up", 1, 2),
    ("width: 52px", "width: 48px", 52, 48),
    ("item order17", "item order18", 17, 18),
    ("line 17 of the text", "line 18 of the text", 17, 18),
]
NEWS_OF = [
    ("red", "green"),
    ("status: ok", "status: failed"),
    ("3/24 done", "4/24 done"),
    ("request failed", "request passed"),
    ("user bob", "user ann"),
    ("it may fail", "it can fail"),
    ("May 3", "May go"),
    ("a", "a b"),
    ("", "something"),
    ("app1", "api2"),
    ("true", "false"),
]


@pytest.mark.parametrize(("before", "after"), FORMS + NAMES + DATES)
def test_a_form_or_a_name_says_that_it_is_no_information(before: str, after: str) -> None:
    assert changes([before], [after]) == []
    assert changes([after], [before]) == []


@pytest.mark.parametrize(("before", "after", "one", "other"), NUMBERS)
def test_other_numbers_have_a_direction(before: str, after: str, one: float, other: float) -> None:
    found = changes([before], [after])
    assert found is not None
    assert [(change.before, change.after) for change in found] == [(one, other)]


@pytest.mark.parametrize(("before", "after"), NEWS_OF)
def test_other_words_are_news(before: str, after: str) -> None:
    assert changes([before], [after]) is None
    assert changes([after], [before]) is None


def test_an_id_without_a_known_form_has_no_direction() -> None:
    for before, after in (("key qX9fT2pLm", "key aB3kZ8wQr"), ("key 7x7a1-bq9z3", "key 1x5c8-ds4w7")):
        found = changes([before], [after])
        assert found is not None
        assert [(change.before, change.after) for change in found] == [(0, 0)]


def test_a_name_before_a_plain_word_hides_nothing() -> None:
    """ "request 17" is an id; "request failed" is news."""
    assert changes(["request 17"], ["request 18"]) == []
    assert changes(["session open"], ["session closed"]) is None


def test_case_makes_no_difference() -> None:
    assert changes(["Done: OK"], ["done: ok"]) == []


def test_one_part_with_news_among_several_may_be_a_matter_of_course() -> None:
    before = ["nothing was found", "tip: red", "that is all"]
    found = changes(before, ["nothing was found", "tip: blue", "that is all"])
    assert found == [Change((1, NEWS))]
    assert changes(before, ["nothing was found", "tip: blue", "that was all"]) is None
    assert changes(before, [*before, "and more"]) is None


def test_with_too_many_changes_it_is_another_text() -> None:
    def numbers(first: int, count: int) -> str:
        return " ".join(f"{first + place} rows" for place in range(count))

    found = changes([numbers(100, CHANGES)], [numbers(200, CHANGES)])
    assert found is not None
    assert len(found) == CHANGES
    assert changes([numbers(100, CHANGES + 1)], [numbers(200, CHANGES + 1)]) is None


def test_numbers_beyond_many_differing_parts_are_taken_to_differ_in_the_same_way() -> None:
    before, after = [f"took {n} ms" for n in range(PARTS)], [f"took {n + 1} ms" for n in range(PARTS)]
    assert changes([*before, "level 7"], [*after, "level 8"]) == []
    assert changes([*before, "red"], [*after, "green"]) == [Change((PARTS, NEWS))]
    assert changes(["red", *before], ["green", *after]) == [Change((0, NEWS))]


def test_the_process_that_a_shell_has_started_says_nothing() -> None:
    assert changes(["[1] 4711"], ["[1] 5012"]) == []


def test_addresses_of_memory_say_nothing_and_places_in_a_program_do() -> None:
    assert changes(["object at 0x7f3a1c2b4d50"], ["object at 0x7f3a1c2b4e10"]) == []
    assert changes(["0x0000000000401136 in main"], ["0x0000000000401140 in main"]) != []


def test_a_drawing_says_something_where_it_changes() -> None:
    assert changes(["#", "|  @  |", "#"], ["#", "| @   |", "#"]) == [Change((1, NEWS))]


def test_a_text_that_was_cut_may_end_elsewhere() -> None:
    assert changes(["took 5 ms", "the end is ne"], ["took 6 ms", "the end is near"], cut=True) == []
    assert changes(["took 5 ms", "the end"], ["took 6 ms", "the end", "and more"], cut=True) == []
    assert changes(["took 5 ms", "the end is ne"], ["took 6 ms", "the end is near"]) is None
    assert changes(["5", "ning of it"], ["5", "beginning of it"], cut=True, backwards=True) == []


VOCABULARY = """
    pid at request_id: 3 4 17 0x7f red green 12:00:01 12:00:02 3/24 4/24 app1 app2 took ms s nov dec may line in ( ) =
    id 12% 1,024 2026-03-01 a1b2c3d4e qX9fT2pLm aB3kZ8wQr ok status: a=1 a=2 pid=3 pid=4 times [12]: résumé ² ٣
"""
WORDS = st.sampled_from(VOCABULARY.split())
LINES = st.lists(st.text() | st.lists(WORDS, max_size=6).map(" ".join), max_size=5)


@given(LINES, LINES, st.booleans(), st.booleans())
@example(["1" * 400], ["2" * 400], False, False)
@example(["١٢"], ["٣٤"], False, False)
@example(["²"], ["³"], True, True)
def test_it_never_raises_and_equal_texts_give_nothing(
    before: list[str], after: list[str], cut: bool, backwards: bool
) -> None:
    found = changes(before, after, cut=cut, backwards=backwards)
    assert found is None or len(found) <= CHANGES
    assert changes(before, before, cut=cut, backwards=backwards) == []
    Drift().is_volatile(found or [])


@given(st.lists(WORDS, max_size=4), WORDS, WORDS, st.lists(WORDS, max_size=4))
def test_what_is_news_is_news_in_both_directions(left: list[str], one: str, other: str, right: list[str]) -> None:
    before, after = " ".join([*left, one, *right]), " ".join([*left, other, *right])
    forth, back = changes([before], [after]), changes([after], [before])
    assert (forth is None) == (back is None)
    if forth is not None and back is not None:
        assert [(change.before, change.after) for change in forth] == [(change.after, change.before) for change in back]


# -- what is learned --------------------------------------------------------------------------------------------------


def moves(*numbers: float) -> list[bool]:
    """What is said of each change of one number after the first."""
    drift = Drift()
    return [drift.is_volatile([Change((0, 1), before, after)]) for before, after in itertools.pairwise(numbers)]


def test_a_number_that_goes_one_way_may_be_on_its_way() -> None:
    assert moves(1, 2, 3, 50, 51) == [False] * 4
    assert moves(9, 7, 4, 1) == [False] * 3


def test_a_number_that_goes_up_and_down_leads_nowhere() -> None:
    assert moves(1, 2, 1, 2) == [False, True, True]
    assert moves(5, 3, 4, 6, 9) == [False, True, True, True]  # what has once turned round does not count as a way again


def test_one_that_moves_three_times_by_the_same_is_on_its_way_once_more() -> None:
    """A place in a lane, a level of a zoom: it comes back, and goes on."""
    assert moves(5, 3, 4, 5, 6) == [False, True, True, False]
    assert moves(0.5, 1.0, 1.5, 1.0, 0.5, 0.0, -0.5) == [False, False, True, True, False, False]
    assert moves(20, 21, 20, 21, 20) == [False, True, True, True], "to and fro by the same is no way"


def test_among_many_that_go_up_and_down_one_may_not_have_turned_yet() -> None:
    drift = Drift()
    up = [Change((0, place), 1, 2) for place in range(4)]
    down = [Change((0, place), 2, 1) for place in range(3)] + [Change((0, 3), 2, 3)]
    assert not drift.is_volatile(up)
    assert not drift.is_volatile([Change((0, 0), 2, 1), *[Change((0, place), 2, 3) for place in range(1, 4)]])
    drift = Drift()
    assert not drift.is_volatile(up)
    assert drift.is_volatile(down)


def test_ids_say_nothing_whichever_they_are() -> None:
    assert Drift().is_volatile([Change((0, 1))])


def test_a_part_that_always_holds_other_words_is_volatile_from_its_third_change_on() -> None:
    drift, tip = Drift(), [Change((1, NEWS))]
    assert [drift.is_volatile(tip) for _ in range(5)] == [False] * (LEARNED - 1) + [True] * 3


def test_other_words_in_another_place_begin_anew() -> None:
    drift = Drift()
    for place in (1, 1, 2, 1, 1):
        assert not drift.is_volatile([Change((place, NEWS))])


# -- arguments, and what a terminal shows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("request_id: a7", "request_id: #"),
        ("filter.requestId: 3", "filter.requestId: #"),
        ("attempt: 3", "attempt: #"),
        ("timestamp: 2026-03-01T12:00:13Z", "timestamp: #"),
        ("now: 1700000013", "now: #"),
        ("cmd: date -d 2026-03-01T12:00:13Z", "cmd: date -d #"),
        ("url: http://a/?ts=17&x=1&nonce=abc", "url: http://a/?ts=#&x=1&nonce=#"),
        ("note: try=3 of it", "note: try=# of it"),
        # What may be what is asked about.
        ("id: 7", "id: 7"),
        ("page: 3", "page: 3"),
        ("day: 2026-03-01", "day: 2026-03-01"),
        ("port: 8080", "port: 8080"),
        ("path: /tmp/x", "path: /tmp/x"),
        # A time on the minute, or the last second of one, was chosen.
        ("now: 2026-03-01T12:00:00Z", "now: 2026-03-01T12:00:00Z"),
        ("until: 2026-03-01T23:59:59Z", "until: 2026-03-01T23:59:59Z"),
        ("now: 1700000000", "now: 1700000000"),
        # A value that stands alone is what is asked about.
        ("x: 1700000013", "x: 1700000013"),
        ("at: 2026-03-01T12:00:13Z", "at: 2026-03-01T12:00:13Z"),
        ("session: 3", "session: 3"),
        ("timeout: 30", "timeout: 30"),
        ("q: Red", "q: Red"),
    ],
)
def test_far_less_is_volatile_in_a_question(part: str, expected: str) -> None:
    assert masked(part) == expected


@given(st.text())
def test_masking_never_raises(part: str) -> None:
    assert isinstance(masked(part), str)
    assert isinstance(masked(f"name: {part}"), str)


def test_what_a_terminal_would_not_show() -> None:
    assert plain("\x1b[31mred\x1b[0m") == "red"
    assert plain("\\u001b[1mbold\\u001b[0m") == "bold"
    assert plain(" 10%\r 20%\r100%\n") == "100%\n"
    assert plain("one\r\ntwo\r\n") == "one\ntwo\n"
    assert plain("⠋ loading") == " loading"
    assert plain("ordinary text, 5 €") == "ordinary text, 5 €"


@given(st.text(), st.text(alphabet="0123456789;", max_size=6))
def test_colours_are_never_seen(text: str, colour: str) -> None:
    assert not re.search("\x1b\\[[0-9;]*m", plain(f"{text}\x1b[{colour}m{text}"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HEAD is a1b2c3d4e5", "HEAD is 0f9e8d7c6b"),
        ("task 123e4567-e89b-12d3-a456-426614174000", "task 9b2e4567-e89b-42d3-b456-526614174fff"),
    ],
)
def test_an_id_without_a_telling_name_is_a_change_that_says_nothing(one: str, other: str) -> None:
    """It may be the next of many things of a kind: what recurs is asked about that, what comes in a row is not."""
    (change,) = changes([one], [other]) or ()
    assert change.before == change.after == 0


# -- many parts at once ----------------------------------------------------------------------------------------------

LOG = [f"2026-03-01T12:00:{second:02}Z worker[{second}]: took {second} ms" for second in range(10, 50)]
LATER = [f"2026-04-02T21:17:{99 - second:02}Z worker[{99 - second}]: took {99 - second} ms" for second in range(10, 50)]


@pytest.mark.parametrize("count", [2, 3, PARTS, PARTS + 2, 40])
@pytest.mark.parametrize("cut", [False, True])
def test_many_parts_that_differ_in_times_are_the_same(count: int, cut: bool) -> None:
    assert changes(LOG[:count], LATER[:count], cut=cut) == []
    assert changes(LOG[:count], LATER[:count], cut=cut, backwards=cut) == []


@pytest.mark.parametrize("place", [0, 4, 8])
def test_one_number_among_many_times_is_seen(place: int) -> None:
    one, other = LOG[:9], LATER[:9]
    one[place], other[place] = "13 rows", "14 rows"
    assert changes(one, other) == [Change((place, 0), 13.0, 14.0)]


@pytest.mark.parametrize("end", ["done [17]", "see [17]"])
def test_a_form_that_ends_a_part_does_so_among_others(end: str) -> None:
    other = end.replace("17", "18")
    assert changes([end], [other]) == []
    assert changes([end, *LOG[:5]], [other, *LATER[:5]]) == []


@given(st.lists(st.sampled_from((*FORMS, *NUMBERS)), min_size=3, max_size=PARTS))
def test_many_parts_differ_where_each_of_them_does(pairs: list[tuple[str, ...]]) -> None:
    alone = [changes([pair[0]], [pair[1]]) for pair in pairs]
    there = [
        Change((part, one.place[1]), one.before, one.after) for part, found in enumerate(alone) for one in found or ()
    ]
    assert changes([pair[0] for pair in pairs], [pair[1] for pair in pairs]) == (
        there if len(there) <= CHANGES else None
    )
