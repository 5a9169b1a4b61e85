"""What an answer guard is: a pure rule that sees an answer and lets it pass, sends it back, or has doubts about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..ledger import Entry
from ..messages import Event, Unverified


class Draft(msgspec.Struct, frozen=True):
    """An answer before it is accepted."""

    text: str
    value: Any
    """Of the agent's answer type; None without one."""
    goal: str
    """The task of the run."""
    calls: Mapping[str, Entry]
    """The calls of this run by id, as the ledger has them."""
    evidence: tuple[str, ...]
    """Ids of the productive ones, oldest first."""
    forced: bool = False
    """It was asked for because a limit is near."""
    typed: bool = False


class Reject(msgspec.Struct, frozen=True):
    """The answer goes back to the model, which reads ``message``; after the last time the run is stopped."""

    message: str


class Doubt(msgspec.Struct, frozen=True):
    """The answer goes back to the model, which reads ``message``; after the last time it is accepted, and the outcome
    marks these claims. Without a message it does not go back."""

    claims: tuple[Unverified, ...]
    message: str = ""


AnswerDecision = Reject | Doubt


@runtime_checkable
class AnswerGuard(Protocol):
    """A rule at the hook *answer*. Of one answer all guards are asked, so that the model reads everything at once.

    As with :class:`CallGuard`: ``folds`` says which facts it wants to see, one guard belongs to one run, and one that
    raises or answers nonsense lets no answer pass.
    """

    name: str

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]: ...

    def answer(self, draft: Draft) -> AnswerDecision | None: ...
