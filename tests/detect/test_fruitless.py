"""One tool that finds nothing, wherever it looks."""

from __future__ import annotations

from watched import Did, Watched, failed, steps_by

from watchkeeper.detect.fruitless import REMEMBERED

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


def test_a_failure_in_between_found_neither_something_nor_nothing() -> None:
    mixed = (search(number) if number % 2 else failed("search", f"{number}") for number in range(2 * NUDGE))
    assert told(Watched(only="fruitless"), *mixed) == {2 * NUDGE: FRUITLESS[NUDGE]}


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
