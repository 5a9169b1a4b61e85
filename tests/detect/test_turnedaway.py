"""Calls that never run: unknown, forbidden or refused, whichever they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from watched import Did, Watched, bad, failed, refused, steps_by

from watchkeeper.thresholds import Steps, Thresholds

AWAY = steps_by("turned_away")
NUDGE, STOP = AWAY


def told(watched: Watched, *dids: Did) -> dict[int, list[tuple[str, str]]]:
    said = {number: watched.turn(did) for number, did in enumerate(dids, 1)}
    return {number: what for number, what in said.items() if what}


def unknown(number: int) -> Did:
    return refused("unknown_tool", f"made_up_{number}", f"{number}")


@pytest.mark.parametrize(
    "away",
    [
        unknown,
        lambda n: refused("policy", f"tool_{n}", f"{n}", kind="denied", error="denied"),
        lambda n: refused("interval", f"tool_{n}", f"{n}", error="too_soon"),
        lambda n: failed(f"made_up_{n}", f"{n}", text=f"Unknown tool: made_up_{n}"),
        lambda n: failed("run", f"{n}", text=f"Tool 'made_up_{n}' not found. Try one of these."),
    ],
    ids=["unknown", "denied", "refused", "failed", "not found"],
)
def test_whichever_they_are(away: Callable[[int], Did]) -> None:
    watched = Watched(only="turned_away")
    assert told(watched, *(away(number) for number in range(STOP + 2))) == AWAY
    assert watched.verdicts[-1].reason == "loop"


def test_it_names_the_last_turns_and_what_they_were_told() -> None:
    watched = Watched(Thresholds(turned_away=Steps(None, None, 10)), only="turned_away")
    told(watched, Did(), *(refused("interval", f"tool_{n}", "", "Not so soon again. " * 30) for n in range(10)))
    (found,) = watched.findings
    assert found.calls == tuple(f"c{call}" for call in range(4, 12))
    assert (found.count, found.onset, found.known) == (10, 6, ("Not so soon again. " * 30)[:400])


def test_one_of_them_is_none_to_speak_of() -> None:
    watched = Watched(only="turned_away", mode="observe")
    told(watched, *map(unknown, range(4)))
    assert [finding.count for finding in watched.findings] == [2, 3, 4]


@pytest.mark.parametrize("before", range(1, NUDGE))
def test_a_turn_in_which_something_runs_ends_it(before: int) -> None:
    watched = Watched(only="turned_away")
    turns = [*map(unknown, range(before)), Did(), *map(unknown, range(10, 9 + NUDGE))]
    assert told(watched, *turns) == {}


def test_all_kinds_count_together() -> None:
    dids = (unknown(1), refused("policy", kind="denied", error="denied"), refused("interval", error="too_soon"))
    assert told(Watched(only="turned_away"), *dids) == {NUDGE: AWAY[NUDGE]}


def test_one_call_that_runs_ends_it() -> None:
    watched = Watched(only="turned_away")
    for number in range(10):
        assert told(watched, unknown(number), unknown(number + 100), Did(arguments=f"{number}")) == {}
        assert watched.turn(unknown(number), Did("read", f"{number}")) == []


@pytest.mark.parametrize(
    "other",
    [
        lambda n: refused("tools", arguments=f"{n}", error="tools_off"),
        lambda n: refused("calls", arguments=f"{n}", error="too_many_calls"),
        lambda n: bad(arguments=f"{n}"),
        lambda n: refused("block", arguments=f"{n}"),
        lambda n: refused("equal", arguments=f"{n}"),
        lambda n: failed(arguments=f"{n}", text=f"no such file: {n}"),
        lambda n: Did(arguments=f"{n}", content="Unknown tool: a result that says so is a result"),
    ],
    ids=["tools off", "calls used up", "arguments", "block", "equal", "failure", "result"],
)
def test_what_others_judge_does_not_count(other: Callable[[int], Did]) -> None:
    watched = Watched(only="turned_away")
    assert told(watched, *(other(number) for number in range(12))) == {}


def test_a_turn_of_several_counts_once() -> None:
    watched = Watched(only="turned_away")
    said = [watched.turn(*(unknown(10 * turn + slot) for slot in range(4))) for turn in range(STOP)]
    assert {turn: what for turn, what in enumerate(said, 1) if what} == AWAY
