"""Refuses an equal call by count alone, where a profile asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..messages import CallEnded, Event, UserMessage
from ..wording import Wording
from .guard import Proposal, Refuse

REMEMBERED = 256
SHOWN = 2000
"""Characters of an earlier result that are kept."""


class _Seen:
    """One call: how often it was proposed, and what came of it last."""

    __slots__ = ("count", "earlier")

    def __init__(self) -> None:
        self.count = 0
        self.earlier: str | None = None


class RefuseEqual:
    """Refuses the n-th proposal of an equal call (tool and all arguments) since the last user message."""

    name = "equal"

    def __init__(self, at: int, show_earlier: bool, wording: Wording) -> None:
        self._at = at
        self._show = show_earlier
        self._wording = wording
        self._seen: dict[str, _Seen] = {}
        """By identity; the one that was proposed last comes last."""
        self._open: dict[str, _Seen] = {}
        """By call id: those that were let pass and have no result yet."""
        self.folds: dict[type[Event], Callable[[Any], None]] = {UserMessage: self._user_spoke}
        if show_earlier:
            self.folds[CallEnded] = self._ended

    def call(self, proposal: Proposal) -> Refuse | None:
        seen = self._seen.pop(proposal.identity, None) or _Seen()
        self._seen[proposal.identity] = seen
        if len(self._seen) > REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        seen.count += 1
        if seen.count >= self._at:
            earlier = seen.earlier if self._show else None
            return Refuse(self._wording.equal_refused(proposal.tool.name, seen.count, earlier).text, "equal_call")
        if self._show:
            self._open[proposal.call_id] = seen
        return None

    def _ended(self, event: CallEnded) -> None:
        seen = self._open.pop(event.result.call_id, None)
        if seen is not None and event.result.kind in ("finished", "failed"):
            seen.earlier = event.result.content[:SHOWN]

    def _user_spoke(self, event: UserMessage) -> None:
        self._seen.clear()
