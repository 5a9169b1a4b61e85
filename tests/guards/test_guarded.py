"""A guard of a third party at arm's length: what is broken lets nothing pass and breaks nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asked import Asked, is_guard

from watchkeeper import ConfigurationError, tool
from watchkeeper.guards.guard import Ask, Decision, Proposal, Refuse
from watchkeeper.guards.guarded import Guarded
from watchkeeper.guards.limited import TimeLimit
from watchkeeper.messages import CallEnded, Event, UserMessage
from watchkeeper.wording import Wording


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


class Time:
    """A clock that stands still until somebody takes his time."""

    def __init__(self, then: Any = "deny") -> None:
        self.now = 0.0
        self.noted: list[dict[str, Any]] = []
        self.limit = TimeLimit(1.0, then, lambda: self.now, lambda **fields: self.noted.append(fields))


def held(theirs: Any, time: Time | None = None) -> Guarded:
    return Guarded(theirs, (time or Time()).limit, Wording())


class Slow(Theirs):
    """Takes so many seconds for each call."""

    def __init__(self, time: Time, *takes: float, raising: bool = False) -> None:
        super().__init__()
        self.time, self.takes, self.raising, self.asked = time, list(takes), raising, 0

    def call(self, proposal: Proposal) -> Decision | None:
        self.asked += 1
        self.time.now += self.takes.pop(0)
        if self.raising:
            raise KeyError("a defect")
        return None


STATED = {"deny": Refuse, "ask": Ask, "allow": type(None)}


@pytest.mark.parametrize("then", STATED)
def test_one_that_takes_too_long_is_asked_no_more(then: str) -> None:
    time = Time(then)
    theirs = Slow(time, 1.0, 1.5)
    run = Asked(held(theirs, time))
    assert run.ask(look) is None
    assert time.noted == []
    assert run.ask(look) is None  # what it says late still counts
    assert time.noted == [{"by": "theirs", "seconds": 1.5, "limit": 1.0, "then": then}]
    for _ in range(2):
        assert isinstance(run.ask(look), STATED[then])
    assert theirs.asked == 2
    assert len(time.noted) == 1


def test_one_that_takes_too_long_and_then_raises() -> None:
    time = Time()
    run = Asked(held(Slow(time, 2.0, raising=True), time))
    with pytest.raises(KeyError):
        run.ask(look)
    found = run.ask(look)
    assert isinstance(found, Refuse)
    assert (found.error, found.kind) == ("guard_overran", "denied")
    assert found.message.startswith("This call of look was not run: the guard theirs takes too long")
    assert len(found.message.split("\n")) == 3


def test_one_that_would_have_to_be_awaited_is_an_error() -> None:
    class Waiting(Theirs):
        async def call(self, proposal: Proposal) -> Decision | None:  # type: ignore[override]
            return None

    with pytest.raises(ConfigurationError, match="the guard theirs is async, and guards are asked without waiting"):
        held(Waiting())


def test_what_works_is_passed_on() -> None:
    theirs = Theirs()
    run = Asked(held(theirs))
    assert is_guard(run.guard)
    assert run.guard.name == "theirs"
    assert run.ask(look) is None
    run.user()
    assert run.ask(look) == Refuse("no", "theirs")
    assert theirs.heard == ["CallEnded", "UserMessage", "CallEnded"]


def test_a_fold_that_raises_breaks_nothing_and_lets_nothing_pass_from_then_on() -> None:
    theirs = Theirs(UserMessage)
    run = Asked(held(theirs))
    assert run.ask(look) is None
    run.user()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="it failed at UserMessage: KeyError: 'a defect'"):
            run.guard.call(run.propose(look))
    run.end(run.propose(look))
    assert theirs.heard == ["CallEnded"]  # it knows no longer what has happened: it is told no more
