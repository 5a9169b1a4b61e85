"""Refuses an equal call by count alone, where a profile asks for it."""

from __future__ import annotations

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

    def call(self, proposal: Proposal) -> Refuse | None:
        count = self._proposed.get(proposal.key, 0) + 1
        self._proposed[proposal.key] = count
        if len(self._proposed) > REMEMBERED:
            self._proposed.pop(next(iter(self._proposed)))
        if count < self._at:
            return None
        earlier = self._earlier.get(proposal.key) if self._show else None
        return Refuse(self._wording.equal_refused(proposal.tool.name, count, earlier).text, "equal_call")

    def apply(self, event: Event) -> None:
        if type(event) is CallEnded:
            if self._show and event.result.kind in ("finished", "failed"):
                self._earlier[event.key] = event.result.content[:2000]
                if len(self._earlier) > REMEMBERED:
                    self._earlier.pop(next(iter(self._earlier)))
        elif type(event) is UserMessage:
            self._proposed.clear()
