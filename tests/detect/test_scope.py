"""What a streak outlasts: our own messages, a pause and its end, a compaction, retries; and what belongs to whom."""

from __future__ import annotations

from typing import Any

import pytest
from watched import Did, Watched, failed, refused

from watchkeeper.messages import (
    Blocked,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    ContextChanged,
    DetectorFailed,
    EvidenceFound,
    Finding,
    FindingMade,
    LoopBlocked,
    ModelFirstChunk,
    ModelPartialDropped,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Nudged,
    Paused,
    PushedBack,
    Reminded,
    Resumed,
    RunStarted,
    TurnStarted,
    UserMessage,
)

SAME = {3: [("nudge", "equal")], 5: [("block", "equal")], 8: [("stop", "equal")]}
ROUND = {3: [("nudge", "cycle")], 4: [("block", "cycle")], 5: [("stop", "cycle")]}

OURS: list[tuple[Any, dict[str, Any]]] = [
    (Nudged, {"text": "Change your approach.", "by": "equal"}),
    (Reminded, {"text": "Converge.", "about": "turns"}),
    (PushedBack, {"text": "No evidence.", "by": "evidence", "answer": "It is so."}),
    (Blocked, {"keys": ("look a",), "by": "equal"}),
    (FindingMade, {"finding": Finding(detector="equal", pattern="p", count=3)}),
    (DetectorFailed, {"detector": "x", "error": "y"}),
]
OTHERS: list[tuple[Any, dict[str, Any]]] = [
    (Paused, {"reason": "lunch"}),
    (Resumed, {"reason": "back"}),
    (ContextChanged, {"reason": "compaction", "dropped": 40}),
    (TurnStarted, {}),
    (ModelRequested, {"model": "m"}),
    (ModelFirstChunk, {"seconds": 0.1}),
    (ModelRetried, {"attempt": 1, "error": "overloaded", "wait": 1.0}),
    (ModelPartialDropped, {"attempt": 1, "characters": 10, "calls": 1, "estimate": 5}),
    (EvidenceFound, {"calls": ("c1",)}),
    (LoopBlocked, {"seconds": 1.0, "frame": "f"}),
    (CancelRequested, {"mode": "after_turn", "reason": "x"}),
    (ChildStarted, {"child": "r2", "agent": "helper"}),
    (ChildEnded, {"child": "r2", "status": "completed", "reason": "answer", "calls": 3}),
]


def said(watched: Watched, laps: int, *turns: tuple[Did, ...], between: Any = None) -> dict[int, list[tuple[str, str]]]:
    """What was said in each lap of turns, with a fact before each turn."""
    heard: dict[int, list[tuple[str, str]]] = {}
    for lap in range(1, laps + 1):
        for turn in turns:
            if between is not None:
                kind, fields = between
                watched.tell(kind, **fields)
            heard.setdefault(lap, []).extend(watched.turn(*turn))
    return {lap: what for lap, what in heard.items() if what}


@pytest.mark.parametrize("between", OURS + OTHERS, ids=lambda pair: pair[0].__name__)
def test_no_fact_between_the_turns_resets_a_streak(between: Any) -> None:
    assert said(Watched(), 8, (Did(),), between=between) == SAME


@pytest.mark.parametrize("between", OURS + OTHERS, ids=lambda pair: pair[0].__name__)
def test_nor_a_cycle(between: Any) -> None:
    heard = said(Watched(), 5, (Did(),), (Did(arguments="b"),), between=between)
    assert {lap: [one for one in what if one[1] == "cycle"] for lap, what in heard.items()} == ROUND


@pytest.mark.parametrize("by", ["block", "equal"])
def test_what_we_refuse_goes_on_counting(by: str) -> None:
    """The call is refused from the block on; the words of the refusal are not a new result."""
    watched = Watched()
    heard = {number: watched.turn(Did()) for number in range(1, 6)}
    heard |= {number: watched.turn(refused(by, text=f"refused, number {number}")) for number in range(6, 9)}
    assert {number: what for number, what in heard.items() if what} == SAME


def test_failures_go_on_counting_over_a_nudge_and_a_pause() -> None:
    watched = Watched()
    heard = {}
    for number in range(1, 9):
        watched.tell(Nudged, text="x", by="failing")
        watched.tell(Paused, reason="x")
        watched.tell(Resumed)
        heard[number] = watched.turn(failed(arguments=str(number)))
    actions = [action for what in heard.values() for action, detector in what if detector == "failing"]
    assert actions == ["nudge", "block", "stop"]
    assert ("stop", "failing") in heard[8]


def test_a_reply_that_only_talks_or_is_dropped_changes_nothing() -> None:
    watched = Watched()
    heard = {}
    for number in range(1, 9):
        watched.tell(ModelReplied, text="", stored=False)
        heard[number] = watched.turn(Did())
    assert {number: what for number, what in heard.items() if what} == SAME


def test_a_run_that_is_taken_up_again_goes_on_where_it_was() -> None:
    """After a crash its log goes on with another start; what it did before still counts."""
    watched = Watched()
    heard = {}
    for number in range(1, 9):
        watched.tell(RunStarted, agent="a", task="t", continued=2 * (number - 1))
        heard[number] = watched.turn(Did())
    assert {number: what for number, what in heard.items() if what} == SAME


def test_another_run_does_not() -> None:
    watched = Watched()
    for _ in range(8):
        watched.tell(RunStarted, agent="a", task="t")
        assert watched.turn(Did()) == []


def test_the_user_begins_it_anew() -> None:
    watched = Watched()
    for _ in range(5):
        assert said(watched, 2, (Did(),)) == {}
        watched.user()


def test_agents_of_one_run_have_windows_of_their_own() -> None:
    """Each does the same thing twice: together that is ten times."""
    watched = Watched()
    for number in range(5):
        watched.context = f"agent {number}"
        assert said(watched, 2, (Did(),)) == {}


def test_a_streak_outlasts_another_agents_turns() -> None:
    watched = Watched()
    heard = {}
    for number in range(1, 9):
        watched.context = "other"
        watched.turn(Did("read", str(number), f"line {number}"))
        watched.context = "main"
        heard[number] = watched.turn(Did())
    assert {number: what for number, what in heard.items() if what} == SAME


def test_a_message_to_one_agent_leaves_the_others_theirs() -> None:
    watched = Watched()
    heard = {}
    for number in range(1, 9):
        watched.tell(UserMessage, text="x", context="other")
        heard[number] = watched.turn(Did())
    assert {number: what for number, what in heard.items() if what} == SAME


def test_verdicts_carry_what_was_spent_since_the_onset() -> None:
    watched = Watched()
    for number in range(4):
        watched.turn(Did("read", str(number), f"line {number}"))
    watched.turns(8, Did())
    stop = watched.verdicts[-1]
    assert stop.action == "stop"
    assert (stop.finding.onset_call, stop.finding.calls_since) == (5, 8)
    assert stop.reason == "loop"
    assert stop.message
