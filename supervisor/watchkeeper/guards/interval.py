"""A least interval between two calls of one tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..messages import CallAdmitted, CallEnded, Event
from ..wording import Wording
from .guard import Proposal, Refuse, Wait

WAITED = 1.0
"""Waits up to so many seconds are waited; longer ones are refused with the seconds left."""


class Interval:
    """Spaces the calls of each tool. A call that is not admitted, by this guard or another, uses up no slot."""

    name = "interval"

    def __init__(self, seconds: float, wording: Wording) -> None:
        self._seconds = seconds
        self._wording = wording
        self._free_at: dict[str, float] = {}
        self._at: dict[str, float] = {}
        """When the calls that were let pass are to start, by call id, until they are admitted or answered."""
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            CallAdmitted: self._admitted,
            CallEnded: self._ended,
        }

    def call(self, proposal: Proposal) -> Refuse | Wait | None:
        tool = proposal.tool.name
        wait = self._free_at.get(tool, proposal.t) - proposal.t
        if wait > WAITED:
            return Refuse(self._wording.too_soon(tool, wait).text, "too_soon")
        self._at[proposal.call_id] = proposal.t + max(wait, 0.0)
        return Wait(wait) if wait > 0 else None

    def _admitted(self, event: CallAdmitted) -> None:
        at = self._at.pop(event.call_id, None)
        if at is not None:
            self._free_at[event.tool] = at + self._seconds

    def _ended(self, event: CallEnded) -> None:
        self._at.pop(event.result.call_id, None)
