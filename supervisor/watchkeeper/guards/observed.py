"""A guard in the mode ``observe``: it says what it would have done, and lets pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..messages import Event, Would
from .guard import Ask, CallGuard, Decision, Note, Proposal, Refuse, Replace, Reuse


class Observed:
    """Passes everything on to the guard, and nothing of what it decides. One that fails is noted, too.

    ``note`` takes the fields of a ``WouldRefuse``.
    """

    def __init__(self, guard: CallGuard, note: Callable[..., object]) -> None:
        self._guard = guard
        self._note = note
        self.name = guard.name
        self.folds: Mapping[type[Event], Callable[[Any], None]] = guard.folds

    @property
    def observed(self) -> CallGuard:
        return self._guard

    def call(self, proposal: Proposal) -> None:
        try:
            decision = self._guard.call(proposal)
        except Exception as error:
            would: Would = "refuse"
            code, text = "guard_failed", f"{type(error).__name__}: {error}"
        else:
            if decision is None:
                return
            would, code, text = _told(decision)
        self._note(
            slot=proposal.slot,
            by=self.name,
            would=would,
            call_id=proposal.call_id,
            tool=proposal.tool.name,
            error=code,
            text=text,
        )


def _told(decision: Decision) -> tuple[Would, str, str]:
    if isinstance(decision, Refuse):
        return "deny" if decision.kind == "denied" else "refuse", decision.error, decision.message
    if isinstance(decision, Reuse):
        return "reuse", "", decision.message
    if isinstance(decision, Ask):
        return "ask", "", decision.why
    if isinstance(decision, Note):
        return "tell", "", decision.message
    if isinstance(decision, Replace):
        return "replace", decision.tool, decision.why
    return "wait", "", f"{decision.seconds:.3f} s"
