"""Side effects that come again: what counts, what begins the count anew, and those of unknown outcome."""

from __future__ import annotations

from typing import Any

import pytest
from asked import WORDING, Asked, is_guard
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Effect, Tool, reads, tool, writes
from watchkeeper.fingerprint import idempotency_key
from watchkeeper.guards.guard import Ask, Note, Refuse
from watchkeeper.guards.sideeffects import REMEMBERED, WRITES_KEPT, SideEffects
from watchkeeper.messages import ChildEnded, ChildStarted
from watchkeeper.occurrences import Unfinished


def _at(to: str, **more: Any) -> Effect:
    return writes(f"mail/{to}")


@tool(effect=_at)
def send(to: str, text: str = "") -> str:
    """Send."""
    return "sent"


@tool(effect=writes("mail"))
def purge(n: int = 0) -> str:
    """Throw all mail away."""
    return "gone"


@tool(effect=_at, idempotent=True)
def put(to: str) -> str:
    """Put."""
    return "there"


@tool(effect="writes", poll=True)
def poke(to: str = "") -> str:
    """Poke."""
    return "poked"


@tool
def undeclared(to: str = "") -> str:
    """Do something."""
    return "done"


@tool(effect=reads("mail"))
def look(to: str = "") -> str:
    """Look."""
    return "mail"


def asked(*unfinished: Unfinished) -> Asked:
    return Asked(SideEffects(WORDING, unfinished))


def made(run: Asked, which: Tool, *, kind: str = "finished", error: str | None = None, **values: Any) -> str:
    """Make a call; what the guard said of it, in a word. It runs unless it is asked about."""
    proposal = run.propose(which, **values)
    decision = run.guard.call(proposal)
    if isinstance(decision, Ask):
        run.end(proposal, kind="refused", by="side_effects", error="repeated_effect")
        return "ask"
    run.start(proposal)
    run.end(proposal, kind=kind, error=error)
    return "note" if isinstance(decision, Note) else "pass"


def test_told_at_the_second_asked_about_from_the_third_on() -> None:
    run = asked()
    assert is_guard(run.guard)
    assert [made(run, send, to="a") for _ in range(5)] == ["pass", "note", "ask", "ask", "ask"]
    assert made(run, send, to="a", text="other") == "pass"


def test_what_is_said() -> None:
    run = asked()
    made(run, send, to="a")
    note = run.guard.call(run.propose(send, to="a"))
    assert isinstance(note, Note)
    assert "This very call of send had succeeded before; it was run again, as time number 2." in note.message
    ask = run.guard.call(run.propose(send, to="a"))
    assert isinstance(ask, Ask)
    assert ask.once
    assert "this would be time number 3" in ask.why
    assert isinstance(ask.nobody, Refuse)
    assert (ask.nobody.error, ask.nobody.kind) == ("repeated_effect", "refused")
    assert "has succeeded before, and this would be time number 3" in ask.nobody.message


@pytest.mark.parametrize("which", [put, poke, undeclared, look], ids=lambda one: one.name)
def test_what_may_come_again(which: Tool) -> None:
    run = asked()
    assert {made(run, which, to="a") for _ in range(6)} == {"pass"}


def test_a_batch_of_equal_ones_counts_before_they_have_run() -> None:
    run = asked()
    proposals = [run.propose(send, to="a") for _ in range(4)]
    decisions = [type(run.guard.call(proposal)) for proposal in proposals]
    assert decisions == [type(None), Note, Ask, Ask]


@pytest.mark.parametrize(
    ("kind", "error"), [("failed", "ValueError"), ("timed_out", "timeout"), ("refused", "x"), ("finished", "exit_1")]
)
def test_what_has_not_succeeded_does_not_count(kind: str, error: str) -> None:
    run = asked()
    assert {made(run, send, kind=kind, error=error, to="a") for _ in range(5)} == {"pass"}


def anew(run: Asked, how: str) -> None:
    if how == "user":
        run.user()
    elif how == "child":
        run.tell(ChildStarted, child="r2", agent="x")
    elif how == "child ends":
        run.tell(ChildEnded, child="r2", status="completed", reason="answer")
    elif how == "purge":
        made(run, purge)
    elif how == "undeclared":
        made(run, undeclared)
    elif how == "other text":
        made(run, send, to="a", text="b")
    elif how == "failing purge":
        made(run, purge, kind="failed", error="x")
    elif how == "elsewhere":
        made(run, send, to="b")
    else:
        made(run, look, to="a")


@pytest.mark.parametrize("how", ["user", "child", "child ends", "purge", "undeclared", "other text"])
def test_what_begins_the_count_anew(how: str) -> None:
    run = asked()
    for _ in range(3):
        assert made(run, send, to="a") == "pass"
        assert made(run, send, to="a") == "note"
        anew(run, how)


@pytest.mark.parametrize("how", ["look", "failing purge", "elsewhere"])
def test_what_changes_nothing_there_does_not(how: str) -> None:
    run = asked()
    found = []
    for _ in range(3):
        found.append(made(run, send, to="a"))
        anew(run, how)
    assert found == ["pass", "note", "ask"]


def test_what_is_remembered_is_bounded() -> None:
    run = asked()
    for n in range(REMEMBERED * 2):
        made(run, send, to=f"{n}")
    assert len(run.guard._done) == REMEMBERED
    assert not run.guard._open
    assert len(run.guard._writes) == WRITES_KEPT


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["finished", "failed", "user"])), max_size=40))
def test_no_more_than_two_succeed_unasked_since_the_last_word(steps: list[tuple[str, str]]) -> None:
    run = asked()
    succeeded: dict[str, int] = {}
    for to, what in steps:
        if what == "user":
            run.user()
            succeeded.clear()
            continue
        said = made(run, send, kind=what, to=to)
        count = succeeded.get(to, 0)
        assert said == ("ask" if count >= 2 else "note" if count else "pass")
        if said != "ask" and what == "finished":
            succeeded[to] = count + 1


# -- of unknown outcome -----------------------------------------------------------------------------------------------


def begun(run: Asked, which: Tool, **values: Any) -> Unfinished:
    """Such a call was begun in an earlier run, and nobody knows what came of it."""
    identity = run.propose(which, **values).identity
    return Unfinished("r0", "c9", which.name, idempotency_key("r0", identity, 1), 1)


@pytest.mark.parametrize("which", [send, undeclared, poke], ids=lambda one: one.name)
def test_an_equal_call_is_asked_about(which: Tool) -> None:
    run = asked(begun(asked(), which, to="a"))
    for _ in range(3):
        proposal = run.propose(which, to="a")
        ask = run.guard.call(proposal)
        assert isinstance(ask, Ask)
        assert ask.once
        assert "nobody knows whether it had its effect" in ask.why
        assert isinstance(ask.nobody, Refuse)
        assert (ask.nobody.error, ask.nobody.kind) == ("outcome_unknown", "refused")
        run.end(proposal, kind="denied", by="person", error="not_approved")
    assert made(run, which, to="b") == "pass"


def test_until_it_has_been_run_again() -> None:
    run = asked(begun(asked(), undeclared, to="a"))
    proposal = run.propose(undeclared, to="a")
    assert isinstance(run.guard.call(proposal), Ask)
    run.start(proposal)
    run.end(proposal)
    assert made(run, undeclared, to="a") == "pass"


@pytest.mark.parametrize("which", [put, look], ids=lambda one: one.name)
def test_what_does_no_harm_twice_is_not(which: Tool) -> None:
    run = asked(begun(asked(), which, to="a"))
    assert made(run, which, to="a") == "pass"


def test_the_call_of_another_tool_is_not() -> None:
    other = begun(asked(), send, to="a")
    run = asked(Unfinished(other.run, other.call_id, "undeclared", other.key, other.occurrence))
    assert made(run, send, to="a") == "pass"
