"""One tool that finds nothing, wherever it looks."""

from __future__ import annotations

from watched import Did, Watched, failed, refused, steps_by

from watchkeeper.detect.fruitless import REMEMBERED
from watchkeeper.thresholds import Steps, Thresholds

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


def test_it_names_the_last_calls_and_what_they_were_told() -> None:
    watched = Watched(only="fruitless")
    told(watched, Did("read"), *(search(number, "no results for that " * 9) for number in range(NUDGE)))
    (found,) = watched.findings
    assert found.calls == tuple(f"c{number}" for number in range(NUDGE - 6, NUDGE + 2))
    assert (found.count, found.onset, found.known) == (NUDGE, 6, "no results for that " * 9)


def test_searches_that_are_refused_count_on_once_they_are_blocked() -> None:
    _, block, stop = sorted(FRUITLESS)
    watched = Watched(only="fruitless")
    told(watched, *(search(number) for number in range(block)))
    assert told(watched, *(refused("block", "search", str(n)) for n in range(stop - block))) == {
        stop - block: FRUITLESS[stop]
    }


def test_a_refusal_before_its_block_says_nothing() -> None:
    watched = Watched(only="fruitless")
    told(watched, *(search(number) for number in range(NUDGE - 1)))
    assert told(watched, *(refused("block", "search", str(number)) for number in range(9))) == {}
    assert watched.turn(search(100)) == FRUITLESS[NUDGE]


def test_nor_does_a_denial_after_it_or_a_refusal_where_nothing_is_blocked() -> None:
    _, block, stop = sorted(FRUITLESS)
    watched = Watched(only="fruitless")
    told(watched, *(search(number) for number in range(block)))
    assert told(watched, *(refused("policy", "search", str(n), kind="denied") for n in range(stop))) == {}
    watched = Watched(Thresholds(fruitless=Steps(3, None, 6)), only="fruitless")
    told(watched, *(search(number) for number in range(3)))
    assert told(watched, *(refused("block", "search", str(number)) for number in range(9))) == {}


def test_nor_does_a_failure_whatever_it_says() -> None:
    watched = Watched(only="fruitless")
    mixed = (failed("search", f"{n}", text="no results found") if n % 2 else search(n) for n in range(2 * NUDGE - 2))
    assert told(watched, *mixed) == {}


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
    assert len(detector._streaks) == REMEMBERED


def test_a_command_that_fails_without_a_word_has_found_nothing() -> None:
    """As a search does that ends with a status of its own: looking for many things is no row of failures."""
    watched = Watched()
    silent = [
        failed("bash", f'{{"command":"grep -rn {word} ."}}', "exit_1", "Exit code: 1")
        for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota")
    ]
    for one in silent:
        one.detail = "Exit code: 1"
    assert told(watched, *silent) == {}
    watched = Watched(only="fruitless")
    many = [failed("bash", f'{{"command":"grep -rn word{number} ."}}', "exit_1", "") for number in range(NUDGE)]
    for one in many:
        one.detail, one.result["content"] = "", "Exit code: 1"
    assert told(watched, *many) == {NUDGE: FRUITLESS[NUDGE]}
