"""Calls that the watchdog has blocked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..detect.arguments import spelling
from ..messages import Blocked as BlockedEvent
from ..messages import CallEnded, Event, UserMessage
from ..wording import Wording
from .guard import Proposal, Refuse

_encode = msgspec.json.Encoder(order="deterministic", enc_hook=str).encode


class Blocked:
    """Refuses what a verdict named: single calls by key, calls that differ in volatile parts only by what they have in
    common, or a tool that fails whatever it gets, by name.

    A call stays blocked until the user speaks. A whole tool is free again as soon as another one has found something,
    because that may have changed what it failed for.
    """

    name = "block"

    def __init__(self, wording: Wording) -> None:
        self._known: dict[str, str | None] = {}
        self._likes = False
        """Whether a call is blocked that comes with other arguments each time."""
        self._wording = wording

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            BlockedEvent: self._blocked,
            UserMessage: self._user_spoke,
            CallEnded: self._ended,
        }

    def call(self, proposal: Proposal) -> Refuse | None:
        if not self._known:
            return None
        tool = proposal.tool.name
        names = [(proposal.key, False), (f"tool:{tool}", True)]
        if self._likes:
            names.append((f"like:{spelling(tool, _encode(proposal.values).decode())}", False))
        for key, whole in names:
            if key in self._known:
                return Refuse(self._wording.blocked(tool, self._known[key], whole).text, "blocked")
        return None

    def _blocked(self, event: BlockedEvent) -> None:
        self._known.update(dict.fromkeys(event.keys, event.known))
        self._likes = self._likes or any(key.startswith("like:") for key in event.keys)

    def _user_spoke(self, event: UserMessage) -> None:
        self._known.clear()
        self._likes = False

    def _ended(self, event: CallEnded) -> None:
        if self._known and event.result.productive:
            own = f"tool:{event.result.tool}"
            for key in [key for key in self._known if key.startswith("tool:") and key != own]:
                del self._known[key]
