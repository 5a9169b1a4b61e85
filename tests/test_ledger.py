"""The ledger as a fold: each call from proposed to ended, and its line in the outcome."""

from __future__ import annotations

from typing import Any

import pytest

from watchkeeper.ledger import Ledger
from watchkeeper.messages import (
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallRecord,
    CallReplaced,
    CallStarted,
    Event,
    Result,
)


class Facts:
    """Appends facts to a ledger, numbered as in a log."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.n = 0

    def __call__(self, kind: type[Event], **fields: Any) -> None:
        self.n += 1
        self.ledger.folds[kind](kind(n=self.n, run="r", at=0.0, t=0.0, turn=2, slot=3, **fields))

    def ended(self, call_id: str, kind: Any = "finished", **more: Any) -> None:
        productive = more.pop("productive", False)
        self(CallEnded, result=Result(call_id, "look", kind, "x", productive=productive), **more)


@pytest.fixture
def facts() -> Facts:
    return Facts()


def test_a_call_from_proposed_to_ended(facts: Facts) -> None:
    facts(CallProposed, call_id="c", tool="look", arguments="{}")
    assert set(facts.ledger.open) == {"c"}
    facts(CallAdmitted, call_id="c", tool="look", key="k", writes=("x",))
    assert facts.ledger.entries["c"].writes
    assert not facts.ledger.entries["c"].started
    facts(CallStarted, call_id="c", tool="look")
    assert facts.ledger.entries["c"].started
    facts.ended("c", productive=True, wait=1.5, ran=2.5)
    assert facts.ledger.open == {}
    assert facts.ledger.entries["c"].ended == 4
    assert facts.ledger.ended == 1
    record = CallRecord("c", "look", 2, 3, "finished", 1.5, 2.5, productive=True, wrote=True)
    assert facts.ledger.records() == (record,)


def test_before_anything_is_known_it_is_not_run(facts: Facts) -> None:
    facts(CallProposed, call_id="c", tool="look", arguments="{}")
    entry = facts.ledger.entries["c"]
    assert (entry.started, entry.ended, entry.instead, entry.writes) == (False, 0, "", False)
    assert facts.ledger.records() == (CallRecord("c", "look", 2, 3, "not_run"),)
    assert facts.ledger.ended == 0


def test_what_only_reads_and_what_never_ran_has_not_written(facts: Facts) -> None:
    for call_id, writes, runs in (("reads", (), True), ("waits", ("x",), False), ("writes", ("x",), True)):
        facts(CallProposed, call_id=call_id, tool="look", arguments="{}")
        facts(CallAdmitted, call_id=call_id, tool="look", key="k", writes=writes)
        if runs:
            facts(CallStarted, call_id=call_id, tool="look")
        facts.ended(call_id, "failed")
    assert {record.id: record.wrote for record in facts.ledger.records()} == {
        "reads": False,
        "waits": False,
        "writes": True,
    }


def test_calls_of_a_tool_count_once_however_often_they_are_tried(facts: Facts) -> None:
    for call_id in ("a", "b"):
        facts(CallProposed, call_id=call_id, tool="look", arguments="{}")
        for attempt in (1, 2, 3):
            facts(CallStarted, call_id=call_id, tool="look", attempt=attempt)
    facts(CallProposed, call_id="c", tool="other", arguments="{}")
    facts(CallStarted, call_id="c", tool="other")
    assert facts.ledger.by_tool == {"look": 2, "other": 1}
    assert facts.ledger.entries["a"].started


def test_an_abandoned_call_says_where_it_stands(facts: Facts) -> None:
    for call_id, kind in (("a", "abandoned"), ("f", "failed")):
        facts(CallProposed, call_id=call_id, tool="look", arguments="{}")
        facts.ended(call_id, kind, detail="file.py:3")
    assert [record.frame for record in facts.ledger.records()] == ["file.py:3", None]
    assert [record.kind for record in facts.ledger.records()] == ["abandoned", "failed"]
    assert facts.ledger.ended == 2


def test_a_call_in_the_place_of_another(facts: Facts) -> None:
    facts(CallProposed, call_id="c", tool="write", arguments="{}")
    facts(CallReplaced, call_id="c", by="guard", tool="write", instead="read")
    assert facts.ledger.records()[0].instead == "read"
    assert facts.ledger.records()[0].tool == "write"


def test_a_second_result_is_a_defect_and_is_not_taken(facts: Facts) -> None:
    facts(CallProposed, call_id="c", tool="look", arguments="{}")
    facts.ended("c")
    with pytest.raises(KeyError):
        facts.ended("c", "failed")
    assert facts.ledger.records()[0].kind == "finished"


def test_a_call_that_was_never_started_ends_too(facts: Facts) -> None:
    facts(CallProposed, call_id="c", tool="look", arguments="{}")
    facts.ended("c", "refused")
    assert facts.ledger.open == {}
    assert facts.ledger.by_tool == {}
