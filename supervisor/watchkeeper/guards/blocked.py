"""Calls that the watchdog has blocked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..messages import Blocked as BlockedEvent
from ..messages import CallEnded, Event, UserMessage
from ..wording import Wording
from .guard import Proposal, Refuse


class Blocked:
    """Refuses what a verdict named: single calls by key, or a tool that fails whatever it gets, by name.

    A call stays blocked until the user speaks. A whole tool is free again as soon as another one has found something,
    because that may have changed what it failed for.
    """

    name = "block"

    def __init__(self, wording: Wording) -> None:
        self._known: dict[str, str | None] = {}
        self._wording = wording
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            BlockedEvent: self._blocked,
            UserMessage: self._user_spoke,
            CallEnded: self._ended,
        }

    def call(self, proposal: Proposal) -> Refuse | None:
        if not self._known:
            return None
        tool = proposal.tool.name
        for key, whole in ((proposal.key, False), (f"tool:{tool}", True)):
            if key in self._known:
                return Refuse(self._wording.blocked(tool, self._known[key], whole).text, "blocked")
        return None

    def _blocked(self, event: BlockedEvent) -> None:
        self._known.update(dict.fromkeys(event.keys, event.known))

    def _user_spoke(self, event: UserMessage) -> None:
        self._known.clear()

    def _ended(self, event: CallEnded) -> None:
        if self._known and event.result.productive:
            own = f"tool:{event.result.tool}"
            for key in [key for key in self._known if key.startswith("tool:") and key != own]:
                del self._known[key]
