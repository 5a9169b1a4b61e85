"""One tool that finds nothing, wherever it looks."""

from __future__ import annotations

import pytest
from watched import Did, Watched, failed, steps_by

from watchkeeper.detect.fruitless import REMEMBERED, is_nothing
from watchkeeper.detect.round import Pair

FRUITLESS = steps_by("fruitless")
NUDGE = min(FRUITLESS)


def told(watched: Watched, *dids: Did) -> dict[int, list[tuple[str, str]]]:
    said = {number: watched.turn(did) for number, did in enumerate(dids, 1)}
    return {number: what for number, what in said.items() if what}


def search(number: int, content: str = "No results found.", tool: str = "search") -> Did:
    return Did(tool, f'{{"query":"question {number}"}}', content)


def test_searches_that_all_find_nothing() -> None:
    watched = Watched(only="fruitless")
    assert told(watched, *(search(number) for number in range(max(FRUITLESS) + 1))) == FRUITLESS
    assert watched.verdicts[0].finding.keys == ("tool:search",)


def test_one_that_finds_something_ends_it() -> None:
    found = (
        search(number, "One article was found: on cats." if number % (NUDGE - 1) == NUDGE - 2 else "[]")
        for number in range(60)
    )
    assert told(Watched(only="fruitless"), *found) == {}


def test_failures_find_nothing_either() -> None:
    mixed = (search(number) if number % 2 else failed("search", f"{number}") for number in range(max(FRUITLESS) + 1))
    assert told(Watched(only="fruitless"), *mixed) == FRUITLESS


def test_another_tool_in_between_changes_nothing() -> None:
    watched = Watched(only="fruitless")
    said = told(
        watched, *(did for number in range(NUDGE) for did in (search(number), Did("read", str(number), "a page")))
    )
    assert said == {2 * NUDGE - 1: FRUITLESS[NUDGE]}


def test_who_waits_for_something_to_come_is_judged_by_patience() -> None:
    assert (
        told(Watched(only="fruitless", polls=("inbox",)), *(search(number, "[]", "inbox") for number in range(40)))
        == {}
    )


def test_an_empty_answer_is_what_many_orders_get() -> None:
    assert told(Watched(only="fruitless"), *(search(number, "", "mark") for number in range(40))) == {}


def test_a_wide_fan_out_is_one_look() -> None:
    watched = Watched(only="fruitless")
    assert watched.turn(*(search(number) for number in range(40))) == []


def test_the_memory_is_bounded() -> None:
    watched = Watched(only="fruitless")
    told(watched, *(search(0, tool=f"tool {number}") for number in range(50)))
    (detector,) = (one for one in watched.judge._desks["main"].detectors if one.name == "fruitless")
    assert len(detector._streaks) == REMEMBERED  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("No matches found", True),
        ("no relevant open tickets were found", False),
        ("There are no such records.", True),
        ("nothing", True),
        ("0 results", True),
        ("10 results", False),
        ("[]", True),
        ("null", True),
        ('{"results": [], "total": 0}', True),
        ('{"results":[1],"total":1}', False),
        ("", False),
        ("3 matches", False),
        ("x" * 300 + " not found", False),
    ],
)
def test_what_says_that_there_is_nothing(content: str, expected: bool) -> None:
    pair = Pair(1, 0.0, "c1", "search", "k", "r", "finished")
    pair.content = content
    assert is_nothing(pair) is expected
