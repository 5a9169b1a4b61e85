"""The judge's guard: it carries out what was written down, and lets nothing pass that should have been judged."""

from __future__ import annotations

from typing import Any

import pytest
from asked import WORDING, Asked, is_guard

from watchkeeper import Tool, tool
from watchkeeper.guards.guard import Ask, Refuse
from watchkeeper.guards.judged import Judged
from watchkeeper.messages import OpinionGiven


@tool(effect="reads", judged=True)
def pay(what: str = "a") -> str:
    """Pay."""
    return what


@tool(effect="reads")
def look(what: str = "a") -> str:
    """Look."""
    return what


def asked(decision: Any, of: Tool = pay, **more: Any) -> Any:
    run = Asked(Judged(WORDING, every_turn=False))
    assert is_guard(run.guard)
    proposal = run.propose(of)
    run.tell(OpinionGiven, by="judge", decision=decision, call_id=proposal.call_id, **more)
    return run.guard.call(proposal)


def test_what_it_allows_passes() -> None:
    assert asked("allow") is None


@pytest.mark.parametrize(
    ("decision", "more", "error", "told"),
    [
        ("refuse", {"why": "too dear"}, "judge_refused", "did not allow this call (too dear)"),
        ("stop", {}, "judge_refused", "did not allow this call."),
        ("refuse", {"failed": "it hung"}, "judge_refused", "(it hung)"),
        ("replace", {"instead": "ask first"}, "judge_replaced", "That way is: ask first"),
        ("replace", {}, "judge_refused", "did not allow this call"),
    ],
)
def test_what_it_does_not_allow_is_refused(decision: str, more: dict[str, str], error: str, told: str) -> None:
    refused = asked(decision, **more)
    assert isinstance(refused, Refuse)
    assert (refused.error, refused.kind) == (error, "refused")
    assert told in refused.message


def test_what_a_person_has_to_decide_is_asked() -> None:
    assert asked("ask", why="is it meant?") == Ask("is it meant?")


def test_what_has_not_been_judged_does_not_pass() -> None:
    run = Asked(Judged(WORDING, every_turn=False))
    refused = run.guard.call(run.propose(pay))
    assert isinstance(refused, Refuse)
    assert "it has not been judged" in refused.message


def test_an_opinion_is_on_one_call_and_is_forgotten_with_it() -> None:
    run = Asked(Judged(WORDING, every_turn=False))
    first, second = run.propose(pay), run.propose(pay)
    run.tell(OpinionGiven, by="judge", decision="allow", call_id=first.call_id)
    assert run.guard.call(first) is None
    assert isinstance(run.guard.call(second), Refuse)
    run.end(first)
    assert isinstance(run.guard.call(first), Refuse)


def test_which_calls_it_sees() -> None:
    assert [Judged(WORDING, every_turn=False).covers(one) for one in (pay, look)] == [True, False]
    assert [Judged(WORDING, every_turn=False, named=["look"]).covers(one) for one in (pay, look)] == [True, True]
    assert [Judged(WORDING, every_turn=True).covers(one) for one in (pay, look)] == [True, True]
    run = Asked(Judged(WORDING, every_turn=False))
    assert run.ask(look) is None
