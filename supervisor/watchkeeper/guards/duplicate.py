"""The duplicate guard: an equal call of a stable tool is answered from memory while nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..messages import CallAdmitted, CallEnded, CallStarted, Event, UserMessage
from ..planner import conflict
from ..tools import Effect, Tool
from ..wording import Wording
from .guard import Proposal, Reuse

REMEMBERED = 256


class _Memory(msgspec.Struct, frozen=True):
    call_id: str
    content: str
    turn: int
    productive: bool
    effect: Effect


class Duplicate:
    """Remembers the results of ``stable`` tools that only read, until a call that conflicts with them starts.

    A call whose effect is not declared writes everything, so it clears the memory; so does a message of the user.
    Equal reads within one batch are the executor's: they run once and share.
    """

    name = "duplicate"

    def __init__(self, tools: Mapping[str, Tool], wording: Wording) -> None:
        self._stable = frozenset(tool.name for tool in tools.values() if tool.stable)
        self._wording = wording
        self._memory: dict[str, _Memory] = {}
        self._running: dict[str, tuple[str, Effect]] = {}
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            CallAdmitted: self._admitted,
            CallStarted: self._started,
            CallEnded: self._ended,
            UserMessage: self._user_spoke,
        }

    def call(self, proposal: Proposal) -> Reuse | None:
        found = self._memory.get(proposal.key) if self._memory else None
        if found is None or proposal.effect.writes:
            return None
        told = self._wording.duplicate(proposal.tool.name, found.turn, found.content)
        return Reuse(told.text, found.call_id, found.productive)

    def _admitted(self, event: CallAdmitted) -> None:
        self._running[event.call_id] = (event.key, Effect(event.reads, event.writes))

    def _started(self, event: CallStarted) -> None:
        known = self._running.get(event.call_id)
        if known is not None and known[1].writes:
            self._forget(known[1])

    def _user_spoke(self, event: UserMessage) -> None:
        self._memory.clear()

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        known = self._running.pop(result.call_id, None)
        if known is None or result.kind != "finished" or result.tool not in self._stable or result.reused_from:
            return
        key, effect = known
        if effect.writes or any(conflict(effect, other) for _, other in self._running.values()):
            return
        self._memory[key] = _Memory(result.call_id, result.content, event.turn, result.productive, effect)
        if len(self._memory) > REMEMBERED:
            self._memory.pop(next(iter(self._memory)))

    def _forget(self, effect: Effect) -> None:
        for key in [key for key, memory in self._memory.items() if conflict(memory.effect, effect)]:
            del self._memory[key]
