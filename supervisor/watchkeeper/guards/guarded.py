"""A guard that somebody else wrote, held at arm's length: what is broken must not let things pass, nor break a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..messages import Event
from .guard import CallGuard, Decision, Proposal

if TYPE_CHECKING:
    from .answer import AnswerDecision, AnswerGuard, Draft


class Guarded:
    """Passes everything on to the guard. Once one of its folds has raised it knows no longer what has happened: its
    folds are left out from then on, and every call and answer is refused in its name.

    ``calls``, ``answers``: what it is a guard of. Raises :class:`ConfigurationError` if that is neither.
    """

    def __init__(self, guard: CallGuard | AnswerGuard) -> None:
        self._guard: Any = guard
        self.name = guard.name
        self.calls = callable(getattr(guard, "call", None))
        self.answers = callable(getattr(guard, "answer", None))
        if not self.calls and not self.answers:
            raise ConfigurationError(
                f"the guard {guard.name!r} guards nothing: it has neither a method call nor a method answer"
            )
        self.broken: str | None = None
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {
            kind: self._held(fold) for kind, fold in guard.folds.items()
        }

    def call(self, proposal: Proposal) -> Decision | None:
        if self.broken is not None:
            raise RuntimeError(self.broken)
        decision: Decision | None = self._guard.call(proposal)
        return decision

    def answer(self, draft: Draft) -> AnswerDecision | None:
        if self.broken is not None:
            raise RuntimeError(self.broken)
        decision: AnswerDecision | None = self._guard.answer(draft)
        return decision

    def _held(self, fold: Callable[[Any], None]) -> Callable[[Any], None]:
        def held(event: Event) -> None:
            if self.broken is None:
                try:
                    fold(event)
                except Exception as error:
                    self.broken = f"it failed at {type(event).__name__}: {type(error).__name__}: {error}"

        return held
