"""A guard that somebody else wrote, held at arm's length: what is broken must not let things pass, nor break a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..host import is_async
from ..messages import Event
from ..wording import Wording
from .guard import Ask, CallGuard, Decision, Proposal, Refuse
from .limited import TimeLimit

if TYPE_CHECKING:
    from .answer import AnswerDecision, AnswerGuard, Draft


class Guarded:
    """Passes everything on to the guard. Once one of its folds has raised it knows no longer what has happened: its
    folds are left out from then on, and every call and answer is refused in its name.

    ``calls``, ``answers``: what it is a guard of. ``limit``: what it may take for one of them. Raises
    :class:`ConfigurationError` for one that guards neither, or that would have to be awaited.
    """

    def __init__(self, guard: CallGuard | AnswerGuard, limit: TimeLimit, wording: Wording) -> None:
        call, answer = getattr(guard, "call", None), getattr(guard, "answer", None)
        if is_async(call) or is_async(answer):
            raise ConfigurationError(
                f"the guard {guard.name} is async, and guards are asked without waiting; make its call a plain function"
            )
        self.name = guard.name
        self.calls, self.answers = callable(call), callable(answer)
        if not self.calls and not self.answers:
            raise ConfigurationError(
                f"the guard {guard.name!r} guards nothing: it has neither a method call nor a method answer"
            )
        self._call = limit.hold(guard.name, call, self._stated) if callable(call) else None
        self._answer = limit.hold(guard.name, answer, self._stated_of_answer) if callable(answer) else None
        self._then = limit.then
        self._wording = wording
        self.broken: str | None = None
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {
            kind: self._held(fold) for kind, fold in guard.folds.items()
        }

    def call(self, proposal: Proposal) -> Decision | None:
        assert self._call is not None
        if self.broken is not None:
            raise RuntimeError(self.broken)
        decision: Decision | None = self._call(proposal)
        return decision

    def answer(self, draft: Draft) -> AnswerDecision | None:
        assert self._answer is not None
        if self.broken is not None:
            raise RuntimeError(self.broken)
        decision: AnswerDecision | None = self._answer(draft)
        return decision

    def _stated(self, proposal: Proposal) -> Decision | None:
        if self._then == "allow":
            return None
        if self._then == "ask":
            return Ask(f"the guard {self.name} takes too long")
        return Refuse(self._wording.overran(proposal.tool.name, self.name).text, "guard_overran", "denied")

    def _stated_of_answer(self, draft: Draft) -> AnswerDecision | None:
        """An answer cannot be asked about here: whatever is not allowed does not pass."""
        if self._then == "allow":
            return None
        raise RuntimeError("it takes too long and is asked no more")

    def _held(self, fold: Callable[[Any], None]) -> Callable[[Any], None]:
        def held(event: Event) -> None:
            if self.broken is None:
                try:
                    fold(event)
                except Exception as error:
                    self.broken = f"it failed at {type(event).__name__}: {type(error).__name__}: {error}"

        return held
