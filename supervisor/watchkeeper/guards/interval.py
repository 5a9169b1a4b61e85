"""A least interval between two calls of one tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..messages import Event
from ..wording import Wording
from .guard import Proposal, Refuse, Wait

WAITED = 1.0
"""Waits up to so many seconds are waited; longer ones are refused with the seconds left."""


class Interval:
    """Spaces the calls of each tool. A refused call uses up no slot."""

    name = "interval"

    def __init__(self, seconds: float, wording: Wording) -> None:
        self._seconds = seconds
        self._wording = wording
        self._free_at: dict[str, float] = {}
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def call(self, proposal: Proposal) -> Refuse | Wait | None:
        tool = proposal.tool.name
        wait = self._free_at.get(tool, proposal.t) - proposal.t
        if wait > WAITED:
            return Refuse(self._wording.too_soon(tool, wait).text, "too_soon")
        self._free_at[tool] = proposal.t + max(wait, 0.0) + self._seconds
        return Wait(wait) if wait > 0 else None
