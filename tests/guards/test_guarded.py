"""A guard of a third party at arm's length: what is broken lets nothing pass and breaks nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asked import Asked, is_guard

from watchkeeper import tool
from watchkeeper.guards.guard import Decision, Proposal, Refuse
from watchkeeper.guards.guarded import Guarded
from watchkeeper.messages import CallEnded, Event, UserMessage


@tool
def look() -> str:
    """Look."""
    return ""


class Theirs:
    """Keeps what it is told; raises at the facts that it is told to raise at."""

    name = "theirs"

    def __init__(self, *raises_at: type[Event]) -> None:
        self.raises_at = raises_at
        self.heard: list[str] = []
        self.folds: dict[type[Event], Callable[[Any], None]] = {UserMessage: self._hear, CallEnded: self._hear}

    def call(self, proposal: Proposal) -> Decision | None:
        return Refuse("no", "theirs") if "UserMessage" in self.heard else None

    def _hear(self, event: Event) -> None:
        if type(event) in self.raises_at:
            raise KeyError("a defect")
        self.heard.append(type(event).__name__)


def test_what_works_is_passed_on() -> None:
    theirs = Theirs()
    run = Asked(Guarded(theirs))
    assert is_guard(run.guard)
    assert run.guard.name == "theirs"
    assert run.ask(look) is None
    run.user()
    assert run.ask(look) == Refuse("no", "theirs")
    assert theirs.heard == ["CallEnded", "UserMessage", "CallEnded"]


def test_a_fold_that_raises_breaks_nothing_and_lets_nothing_pass_from_then_on() -> None:
    theirs = Theirs(UserMessage)
    run = Asked(Guarded(theirs))
    assert run.ask(look) is None
    run.user()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="it failed at UserMessage: KeyError: 'a defect'"):
            run.guard.call(run.propose(look))
    run.end(run.propose(look))
    assert theirs.heard == ["CallEnded"]  # it knows no longer what has happened: it is told no more
