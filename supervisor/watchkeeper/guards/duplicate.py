"""The duplicate guard: an equal call of a stable tool is answered from memory while nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..messages import CallAdmitted, CallEnded, CallStarted, ChildEnded, ChildStarted, Event, UserMessage
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

    A call whose effect is not declared writes everything, so it clears the memory; so does a message of the user, and
    a sub-agent, whose calls are not seen here. What is remembered is the answer to exactly these arguments, whatever
    the tool declares for detection. Equal reads within one batch are the executor's: they run once and share.
    """

    name = "duplicate"

    def __init__(self, tools: Mapping[str, Tool], wording: Wording) -> None:
        self._stable = frozenset(tool.name for tool in tools.values() if tool.stable)
        self._wording = wording
        self._memory: dict[str, _Memory] = {}
        self._identities: dict[str, str] = {}
        """Of proposed calls of stable tools, by call id."""
        self._running: dict[str, Effect] = {}
        self._children = 0

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            CallAdmitted: self._admitted,
            CallStarted: self._started,
            CallEnded: self._ended,
            UserMessage: self._user_spoke,
            ChildStarted: self._child_started,
            ChildEnded: self._child_ended,
        }

    def call(self, proposal: Proposal) -> Reuse | None:
        if proposal.tool.name not in self._stable:
            if self._identities:  # it may stand in place of one that is stable
                self._identities.pop(proposal.call_id, None)
            return None
        found = self._memory.get(proposal.identity)
        if found is None or proposal.effect.writes:
            self._identities[proposal.call_id] = proposal.identity
            return None
        told = self._wording.duplicate(proposal.tool.name, found.turn, found.content)
        return Reuse(told.text, found.call_id, found.productive)

    def _admitted(self, event: CallAdmitted) -> None:
        self._running[event.call_id] = Effect(event.reads, event.writes)

    def _started(self, event: CallStarted) -> None:
        effect = self._running.get(event.call_id)
        if effect is not None and effect.writes and self._memory:
            for key in [key for key, memory in self._memory.items() if conflict(memory.effect, effect)]:
                del self._memory[key]

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        effect = self._running.pop(result.call_id, None)
        identity = self._identities.pop(result.call_id, None)
        if effect is None or identity is None or result.kind != "finished" or result.error or result.reused_from:
            return
        if self._children or effect.writes or any(conflict(effect, other) for other in self._running.values()):
            return
        self._memory[identity] = _Memory(result.call_id, result.content, event.turn, result.productive, effect)
        if len(self._memory) > REMEMBERED:
            self._memory.pop(next(iter(self._memory)))

    def _user_spoke(self, event: UserMessage) -> None:
        self._memory.clear()

    def _child_started(self, event: ChildStarted) -> None:
        self._children += 1
        self._memory.clear()

    def _child_ended(self, event: ChildEnded) -> None:
        self._children -= 1
