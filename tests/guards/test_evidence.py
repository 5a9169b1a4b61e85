"""The evidence gate: what an answer rests on must have succeeded, found something, and be new enough."""

from __future__ import annotations

from typing import Any

import pytest

from watchkeeper.guards.evidence import Evidence
from watchkeeper.messages import CallAdmitted, CallEnded, CallStarted, ChildEnded, ChildStarted, Event, Result


class Run:
    """The facts of a run, told to an evidence fold."""

    def __init__(self, **wanted: Any) -> None:
        self.evidence = Evidence(**wanted)
        self.n = 0
        self.calls = 0

    def tell(self, kind: type[Event], **fields: Any) -> None:
        self.n += 1
        apply = self.evidence.folds.get(kind)
        if apply is not None:
            apply(kind(n=self.n, run="r", at=0.0, t=0.0, **fields))

    def start(self, tool: str, writes: bool = False) -> str:
        self.calls += 1
        call_id = f"c{self.calls}"
        self.tell(CallAdmitted, call_id=call_id, tool=tool, key="k", writes=("x",) if writes else ())
        self.tell(CallStarted, call_id=call_id, tool=tool)
        return call_id

    def end(self, call_id: str, tool: str, productive: bool = True, **more: Any) -> None:
        fields = {"kind": "finished", "content": "x", "productive": productive, **more}
        self.tell(CallEnded, result=Result(call_id, tool, **fields))

    def ran(self, tool: str, *, writes: bool = False, **more: Any) -> None:
        self.end(self.start(tool, writes), tool, **more)

    @property
    def missing(self) -> tuple[list[str], list[str], list[str]]:
        missing = self.evidence.missing()
        assert bool(missing) is bool(missing.required or missing.any_of or missing.stale)
        return missing.required, list(missing.any_of), missing.stale


NONE: tuple[list[str], list[str], list[str]] = ([], [], [])


def test_who_wants_nothing_misses_nothing() -> None:
    run = Run()
    assert run.missing == NONE
    run.ran("look")
    assert run.evidence.calls == ["c1"]


def test_all_required_tools_must_have_found_something() -> None:
    run = Run(required=["look", "test"])
    assert run.missing == (["look", "test"], [], [])
    run.ran("test")
    assert run.missing == (["look"], [], [])
    run.ran("look")
    assert run.missing == NONE


@pytest.mark.parametrize("kind", ["failed", "refused", "denied", "timed_out", "cancelled", "abandoned", "not_run"])
def test_what_did_not_succeed_is_none(kind: str) -> None:
    """EVID-01: no run, or a run that failed."""
    run = Run(required=["test"])
    run.ran("test", kind=kind, productive=False)
    assert run.missing == (["test"], [], [])


def test_a_success_that_found_nothing_is_none() -> None:
    """EVID-01: exit 1, no hits."""
    run = Run(required=["search"], required_any=["search"])
    run.ran("search", productive=False)
    assert run.missing == (["search"], ["search"], [])
    assert run.evidence.calls == []


def test_one_of_several_is_enough() -> None:
    run = Run(required_any=["a", "b"])
    assert run.missing == ([], ["a", "b"], [])
    run.ran("c")
    assert run.missing == ([], ["a", "b"], [])
    run.ran("b")
    assert run.missing == NONE


def test_a_result_from_memory_counts_as_the_first_did() -> None:
    run = Run(required=["look"])
    run.ran("look", reused_from="c0", by="duplicate", productive=False)
    assert run.missing[0] == ["look"]
    run.ran("look", reused_from="c0", by="duplicate")
    assert run.missing == NONE


# -- fresh ----------------------------------------------------------------------------------------------------------


def fresh() -> Run:
    return Run(required=["test"], fresh=["test"])


def test_a_check_must_come_after_the_last_change() -> None:
    """EVID-01: a run before the last edit."""
    run = fresh()
    run.ran("test")
    assert run.missing == NONE
    run.ran("edit", writes=True)
    assert run.missing == ([], [], ["test"])
    run.ran("test")
    assert run.missing == NONE


def test_reading_makes_nothing_stale() -> None:
    run = fresh()
    run.ran("test")
    run.ran("look")
    assert run.missing == NONE


def test_a_check_that_writes_does_not_make_itself_stale() -> None:
    run = fresh()
    run.ran("test", writes=True)
    assert run.missing == NONE


def test_a_change_counts_from_its_start_whatever_comes_of_it() -> None:
    run = fresh()
    run.ran("test")
    edit = run.start("edit", writes=True)
    assert run.missing == ([], [], ["test"])
    run.end(edit, "edit", kind="failed", productive=False)
    assert run.missing == ([], [], ["test"])


def test_a_change_that_never_started_is_none() -> None:
    run = fresh()
    run.ran("test")
    run.tell(CallAdmitted, call_id="e", tool="edit", key="k", writes=("x",))
    run.tell(CallEnded, result=Result("e", "edit", "not_run", "x"))
    assert run.missing == NONE
    assert run.evidence._writing == {}


def test_a_check_that_failed_after_the_change_leaves_it_stale() -> None:
    run = fresh()
    run.ran("test")
    run.ran("edit", writes=True)
    run.ran("test", productive=False)
    assert run.missing == ([], [], ["test"])


def test_an_answer_from_memory_is_fresh() -> None:
    """Memory answers only if nothing that conflicts has started since: else it could never become fresh again."""
    run = fresh()
    run.ran("test")
    run.ran("edit", writes=True)
    run.ran("test", reused_from="c1", by="duplicate")
    assert run.missing == NONE


def test_what_a_sub_agent_did_is_not_seen_and_may_have_changed_anything() -> None:
    run = fresh()
    run.ran("test")
    run.tell(ChildStarted, child="r2", agent="helper")
    run.ran("test")
    run.tell(ChildEnded, child="r2", status="completed", reason="answer")
    assert run.missing == ([], [], ["test"])
    run.ran("test")
    assert run.missing == NONE


def test_a_sub_agent_that_is_the_check_is_fresh_when_it_returns() -> None:
    run = Run(required=["verifier"], fresh=["verifier"])
    call_id = run.start("verifier")
    run.tell(ChildStarted, child="r2", agent="verifier")
    run.tell(ChildEnded, child="r2", status="completed", reason="answer")
    run.end(call_id, "verifier")
    assert run.missing == NONE


def test_of_alternatives_a_fresh_one_is_enough() -> None:
    run = Run(required_any=["a", "b"], fresh=["a"])
    run.ran("a")
    run.ran("edit", writes=True)
    assert run.missing == ([], [], ["a"])
    run.ran("b")
    assert run.missing == NONE


def test_stale_alternatives_are_named() -> None:
    run = Run(required_any=["a", "b"], fresh=["a", "b"])
    run.ran("b")
    run.ran("a")
    run.ran("edit", writes=True)
    assert run.missing == ([], [], ["a", "b"])
    run.ran("a")
    assert run.missing == NONE


def test_a_tool_that_is_required_stays_so_though_it_is_an_alternative_too() -> None:
    run = Run(required=["a"], required_any=["a", "b"], fresh=["a"])
    run.ran("a")
    run.ran("edit", writes=True)
    run.ran("b")
    assert run.missing == ([], [], ["a"])
