"""The duplicate guard: answered from memory only while nothing can have changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asked import WORDING, Asked, is_guard

from watchkeeper import Effect, reads, tool, writes
from watchkeeper.guards.duplicate import REMEMBERED, Duplicate
from watchkeeper.guards.guard import Reuse
from watchkeeper.messages import ChildEnded, ChildStarted
from watchkeeper.wording import KNOWN


@tool(effect=lambda path, page=1: reads(path), stable=True, loop_key=["path"])
def read(path: str, page: int = 1) -> str:
    """Read."""
    return path


@tool(effect=lambda path: writes(path))
def write(path: str) -> str:
    """Write."""
    return path


@tool(effect="reads")
def look(path: str) -> str:
    """Read, and the answer may change."""
    return path


@tool
def undeclared() -> str:
    """Do something."""
    return ""


@tool(effect="nothing", stable=True)
def calculate(text: str) -> str:
    """Touch nothing."""
    return text


@tool(effect="writes", stable=True)
def stable_writer() -> str:
    """Write, though it says that its answer is stable."""
    return ""


TOOLS = {one.name: one for one in (read, write, look, undeclared, calculate, stable_writer)}


def asked() -> Asked:
    return Asked(Duplicate(TOOLS, WORDING))


def test_an_equal_call_is_answered_with_what_the_first_found() -> None:
    run = asked()
    assert is_guard(run.guard)
    assert run.ask(read, path="a") is None
    run.turn = 4
    decision = run.ask(read, path="a")
    assert isinstance(decision, Reuse)
    assert (decision.earlier, decision.productive) == ("c1", True)
    assert "You made this very call of read in turn 1" in decision.message
    assert "Its result was: found" in decision.message
    assert isinstance(run.ask(read, path="a"), Reuse)


Between = Callable[[Asked], Any]


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        (lambda run: run.ask(write, path="b"), True),
        (lambda run: run.ask(look, path="a"), True),
        (lambda run: run.ask(calculate, text="1"), True),
        (lambda run: run.ask(read, path="b"), True),
        (lambda run: run.pass_by(undeclared), True),
        (lambda run: run.admit(run.pass_by(write, path="a")), True),
        (lambda run: run.ask(write, path="a"), False),
        (lambda run: run.ask(write, path="a/b"), False),
        (lambda run: run.ask(write, path=""), False),
        (lambda run: run.ask(undeclared), False),
        (lambda run: run.ask(stable_writer), False),
        (lambda run: run.start(run.pass_by(write, path="a")), False),
        (lambda run: run.user(), False),
        (lambda run: run.tell(ChildStarted, child="r2", agent="helper"), False),
    ],
)
def test_what_clears_the_memory(between: Between, kept: bool) -> None:
    run = asked()
    run.ask(read, path="a")
    between(run)
    assert isinstance(run.ask(read, path="a"), Reuse) is kept


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("failed", {}),
        ("timed_out", {}),
        ("cancelled", {}),
        ("abandoned", {}),
        ("not_run", {}),
        ("finished", {"error": "exit_1"}),
        ("finished", {"reused_from": "c0"}),
    ],
)
def test_only_a_success_is_remembered(kind: str, more: dict[str, Any]) -> None:
    run = asked()
    proposal = run.pass_by(read, path="a")
    run.start(proposal)
    run.end(proposal, kind=kind, **more)
    assert run.ask(read, path="a") is None


def test_a_success_that_found_nothing_is_remembered_as_that() -> None:
    run = asked()
    proposal = run.pass_by(read, path="a")
    run.start(proposal)
    run.end(proposal, "", productive=False)
    decision = run.ask(read, path="a")
    assert isinstance(decision, Reuse)
    assert not decision.productive


def test_only_exactly_equal_arguments_are_equal() -> None:
    """For detection the page of this tool does not count; for an answer it does."""
    run = asked()
    assert run.propose(read, path="a", page=1).key == run.propose(read, path="a", page=2).key
    assert run.ask(read, path="a", page=1) is None
    assert run.ask(read, path="a", page=2) is None
    assert isinstance(run.ask(read, path="a", page=2), Reuse)


def test_only_stable_tools_that_read_are_remembered() -> None:
    run = asked()
    for one, values in ((look, {"path": "a"}), (write, {"path": "a"}), (undeclared, {}), (stable_writer, {})):
        assert run.ask(one, **values) is None
        assert run.ask(one, **values) is None
    assert run.ask(calculate, text="1+1") is None
    assert isinstance(run.ask(calculate, text="1+1"), Reuse)


def test_what_a_writer_may_have_touched_meanwhile_is_not_remembered() -> None:
    """The writer is still at work when the read ends."""
    run = asked()
    writing = run.pass_by(write, path="b")
    run.start(writing)
    reading = run.pass_by(read, path="")
    run.start(reading)
    run.end(reading)
    run.end(writing)
    assert run.ask(read, path="") is None
    assert isinstance(run.ask(read, path=""), Reuse)


def test_while_a_sub_agent_is_at_work_nothing_is_remembered() -> None:
    run = asked()
    run.tell(ChildStarted, child="r2", agent="helper")
    run.tell(ChildStarted, child="r3", agent="helper")
    run.ask(read, path="a")
    run.tell(ChildEnded, child="r2", status="completed", reason="answer")
    run.ask(read, path="a")
    assert run.ask(read, path="a") is None
    run.tell(ChildEnded, child="r3", status="completed", reason="answer")
    assert run.ask(read, path="a") is None
    assert isinstance(run.ask(read, path="a"), Reuse)


def test_a_call_that_another_guard_refused_leaves_nothing_behind() -> None:
    run = asked()
    for _ in range(10):
        run.end(run.pass_by(read, path="a"), kind="refused", by="another")
    assert run.guard._identities == run.guard._running == {}
    assert run.ask(read, path="a") is None


def test_the_memory_is_bounded_and_so_is_what_is_shown() -> None:
    run = asked()
    for number in range(REMEMBERED + 50):
        run.ask(calculate, text=str(number))
    assert len(run.guard._memory) == REMEMBERED
    assert run.ask(calculate, text="0") is None
    proposal = run.pass_by(read, path="long")
    run.start(proposal)
    run.end(proposal, "x" * 100_000)
    decision = run.ask(read, path="long")
    assert isinstance(decision, Reuse)
    assert len(decision.message) < KNOWN + 500


def test_effects_are_those_of_the_call() -> None:
    run = asked()
    assert run.propose(read, path="a").effect == Effect(reads=("a",))
