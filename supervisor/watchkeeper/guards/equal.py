"""Refuses an equal call by count alone, where a profile asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..messages import CallEnded, Event, UserMessage
from ..wording import Wording
from .guard import Proposal, Refuse

REMEMBERED = 256


class RefuseEqual:
    """Refuses the n-th proposal of an equal call since the last user message, whatever the tool."""

    name = "equal"

    def __init__(self, at: int, show_earlier: bool, wording: Wording) -> None:
        self._at = at
        self._show = show_earlier
        self._wording = wording
        self._proposed: dict[str, int] = {}
        self._earlier: dict[str, str] = {}
        self.folds: dict[type[Event], Callable[[Any], None]] = {UserMessage: self._user_spoke}
        if show_earlier:
            self.folds[CallEnded] = self._ended

    def call(self, proposal: Proposal) -> Refuse | None:
        count = self._proposed.get(proposal.key, 0) + 1
        self._proposed[proposal.key] = count
        if len(self._proposed) > REMEMBERED:
            self._proposed.pop(next(iter(self._proposed)))
        if count < self._at:
            return None
        earlier = self._earlier.get(proposal.key) if self._show else None
        return Refuse(self._wording.equal_refused(proposal.tool.name, count, earlier).text, "equal_call")

    def _ended(self, event: CallEnded) -> None:
        if event.result.kind in ("finished", "failed"):
            self._earlier[event.key] = event.result.content[:2000]
            if len(self._earlier) > REMEMBERED:
                self._earlier.pop(next(iter(self._earlier)))

    def _user_spoke(self, event: UserMessage) -> None:
        self._proposed.clear()
