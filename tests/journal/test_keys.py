"""Names of journal entries: by turn and slot, one entry each."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from watchkeeper.journal.keys import END, name_of, names
from watchkeeper.messages import (
    ApprovalResolved,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    ModelReplied,
    ModelRequested,
    OpinionGiven,
    Outcome,
    Result,
    RunEnded,
    UserMessage,
)

AT: dict[str, Any] = {"n": 900, "run": "r", "at": 1.0, "t": 2.0, "turn": 3, "slot": 2, "user_turn": 4}


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (ModelReplied(text="", **AT), "model:3"),
        (CallEnded(result=Result("c", "t", "finished", ""), **AT), "tool:3:2"),
        (CallStarted(call_id="c", tool="t", **AT), "tool:3:2:started"),
        (CallStarted(call_id="c", tool="t", attempt=3, **AT), "tool:3:2:started:3"),
        (UserMessage(text="", **AT), "user:4"),
        (OpinionGiven(by="judge", decision="allow", **AT), "opinion:3:2:judge"),
        (ApprovalResolved(approval="a7", call_id="c", tool="t", how="once", **AT), "approval:a7"),
        (RunEnded(outcome=Outcome(run="r", status="failed", reason="crash", message=""), **AT), END),
        (ModelRequested(model="m", **AT), None),
        (CallProposed(call_id="c", tool="t", arguments="{}", **AT), None),
    ],
)
def test_what_holds_an_output_has_a_name(event: Event, name: str | None) -> None:
    assert name_of(event) == name


def test_a_name_does_not_depend_on_when_it_was() -> None:
    early, late = ({**AT, "n": n, "at": at, "t": at} for n, at in ((1, 0.0), (10_000, 99.0)))
    assert name_of(ModelReplied(text="", **early)) == name_of(ModelReplied(text="", **late))


def test_what_is_found_again_says_by_which_attempt() -> None:
    assert list(islice(names("tool:3:2", 4), 4)) == ["tool:3:2", "tool:3:2@4", "tool:3:2@4#2", "tool:3:2@4#3"]
