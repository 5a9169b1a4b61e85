"""Silence: nothing for too long, while nothing with a deadline of its own is going on."""

from __future__ import annotations

from typing import Any

import pytest

from watchkeeper.detect.silence import Silence
from watchkeeper.messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    ModelFailed,
    ModelFirstChunk,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    OpinionAsked,
    OpinionGiven,
    Paused,
    Result,
    Resumed,
    RunEnding,
    TurnStarted,
    UserMessage,
)

PROPOSED: tuple[type[Event], dict[str, Any]] = (CallProposed, {"call_id": "c", "tool": "look", "arguments": "{}"})
ENDED: tuple[type[Event], dict[str, Any]] = (CallEnded, {"result": Result("c", "look", "finished", "x")})
SPOKE: tuple[type[Event], dict[str, Any]] = (UserMessage, {"text": "hi"})
TURN: tuple[type[Event], dict[str, Any]] = (TurnStarted, {})
ASKED: tuple[type[Event], dict[str, Any]] = (ModelRequested, {"model": "m"})
RETRIED: tuple[type[Event], dict[str, Any]] = (ModelRetried, {"attempt": 1, "error": "busy", "wait": 600.0})
REPLIED: tuple[type[Event], dict[str, Any]] = (ModelReplied, {"text": "hi"})
GAVE_UP: tuple[type[Event], dict[str, Any]] = (ModelFailed, {"error": "x", "detail": "y"})
PAUSED: tuple[type[Event], dict[str, Any]] = (Paused, {"reason": "lunch"})
RESUMED: tuple[type[Event], dict[str, Any]] = (Resumed, {})
OPINION: tuple[type[Event], dict[str, Any]] = (OpinionAsked, {"by": "judge"})
GIVEN: tuple[type[Event], dict[str, Any]] = (OpinionGiven, {"by": "judge", "decision": "allow"})
ANSWER: dict[str, Any] = {"approval": "a", "call_id": "", "tool": ""}
APPROVAL: tuple[type[Event], dict[str, Any]] = (
    ApprovalRequested,
    {**ANSWER, "arguments": "42", "arguments_hash": "h", "seconds": 600.0},
)
RESOLVED: tuple[type[Event], dict[str, Any]] = (ApprovalResolved, {**ANSWER, "how": "once"})
ENDING: tuple[type[Event], dict[str, Any]] = (RunEnding, {"status": "completed", "reason": "answer"})


def after(*facts: tuple[type[Event], dict[str, Any]], seconds: float = 120.0) -> Silence:
    """What has been heard until second 10."""
    silence = Silence(seconds)
    for n, (kind, fields) in enumerate(facts, 1):
        silence.observe(kind(n=n, run="r", at=0.0, t=10.0, **fields))
    return silence


def test_it_is_seen_at_its_time_and_not_before() -> None:
    silence = after(SPOKE)
    assert silence.judge(10, 129.9) is None
    finding = silence.judge(10, 130)
    assert finding is not None
    assert (finding.detector, finding.pattern, finding.onset) == ("silence", "nothing for 120 s", 1)
    assert finding.count == 1


def test_where_nothing_was_ever_heard_it_is_counted_from_the_beginning() -> None:
    silence = after()
    assert silence.judge(0, 119.9) is None
    finding = silence.judge(0, 120)
    assert finding is not None
    assert finding.onset == 0


@pytest.mark.parametrize(
    "facts",
    [
        [PROPOSED],
        [PROPOSED, (CallStarted, {"call_id": "c", "tool": "look"})],
        [PROPOSED, PROPOSED, ENDED],
        [TURN],
        [TURN, ASKED],
        [ASKED, (ModelFirstChunk, {"seconds": 0.1})],
        [ASKED, RETRIED],
        [PAUSED],
        [ASKED, PAUSED, RESUMED],
        [PAUSED, ASKED, REPLIED],
        [PAUSED, PROPOSED, ENDED],
        [REPLIED, ENDING],
        [OPINION],
        [OPINION, APPROVAL, RESOLVED],
        [APPROVAL],
        [APPROVAL, OPINION, GIVEN],
    ],
)
def test_what_has_a_deadline_of_its_own_is_progress(facts: list[tuple[type[Event], dict[str, Any]]]) -> None:
    """WDOG-01: a call in flight, a request, a wait for the provider, a pause, the end."""
    assert after(*facts).judge(10, 10_000) is None


@pytest.mark.parametrize(
    "facts",
    [
        *([], [SPOKE], [PROPOSED, ENDED], [TURN, ASKED, REPLIED], [ASKED, RETRIED, GAVE_UP], [PAUSED, RESUMED]),
        *([OPINION, GIVEN], [APPROVAL, RESOLVED]),
    ],
)
def test_afterwards_it_is_silence_again(facts: list[tuple[type[Event], dict[str, Any]]]) -> None:
    assert after(*facts).judge(10, 10_000) is not None


def test_when_it_is_worth_looking_again() -> None:
    silence = after(SPOKE)
    assert silence.due(10, 10) == 120
    assert silence.due(10, 100) == 30
    assert 0 < silence.due(10, 500) < 0.1
    busy = after(ASKED)
    assert busy.due(10, 500) >= 120  # not again and again while something goes on


def test_a_look_that_comes_late_is_not_the_silence_of_the_run() -> None:
    """BLCK-02: the loop was blocked; the others could not speak either."""
    silence = after(SPOKE)
    silence.extend(60)
    assert silence.judge(10, 189) is None
    assert silence.due(10, 130) == 60
    assert silence.judge(10, 190) is not None


def test_an_old_delay_counts_no_more_once_something_was_heard() -> None:
    silence = after(SPOKE)
    silence.extend(600)
    silence.observe(UserMessage(n=2, run="r", at=0.0, t=10.0, text="hi"))
    assert silence.judge(10, 130) is not None
