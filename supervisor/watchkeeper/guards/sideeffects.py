"""Side effects that come again: told at the second time, asked about at the third; and those of unknown outcome."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..messages import CallAdmitted, CallEnded, ChildEnded, ChildStarted, Event, UserMessage
from ..occurrences import Unfinished
from ..planner import conflict
from ..tools import Effect
from ..wording import Wording
from .guard import Ask, Note, Proposal, Refuse

REMEMBERED = 256
ASKED_AT = 3
"""The time at which an equal side effect is asked about; at the one before it is told. In good recorded runs 12 of 508
repeat one once, 2 twice."""


class _Done:
    """How often a side effect has succeeded, and what it wrote."""

    __slots__ = ("count", "open", "writes")

    def __init__(self, writes: Effect) -> None:
        self.count = 0
        self.open = 0
        """Such calls that have no result yet."""
        self.writes = writes


class SideEffects:
    """Counts equal calls (tool and all arguments) that succeeded and are declared to write, unless writing twice does
    no harm (``idempotent``) or they are meant to be asked again (``poll``). A tool that declares no effect may well
    read only: of those it says nothing.

    It counts from the last message of the user; what another call has written to the same place, or a sub-agent
    anywhere, begins the count anew. ``unfinished``: writing calls of an earlier run of which nobody knows whether they
    had their effect. An equal one is asked about, whatever its tool declares save for ``idempotent``.
    """

    name = "side_effects"

    def __init__(self, wording: Wording, unfinished: Collection[Unfinished] = ()) -> None:
        self._wording = wording
        self._unfinished = {one.key: one for one in unfinished}
        self._again: dict[str, str] = {}
        """Keys of the unfinished ones that calls under way are once more, by call id."""
        self._done: dict[str, _Done] = {}
        """By identity; the one that was proposed last comes last."""
        self._proposed: dict[str, str] = {}
        """Identities by call id, of calls that count."""
        self._writing: dict[str, Effect] = {}
        """What calls that are under way write, by call id."""
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            CallAdmitted: self._admitted,
            CallEnded: self._ended,
            UserMessage: self._begin_anew,
            ChildStarted: self._begin_anew,
            ChildEnded: self._begin_anew,
        }

    def call(self, proposal: Proposal) -> Ask | Note | None:
        effect, tool = proposal.effect, proposal.tool
        if not effect.writes:
            return None
        if self._unfinished and (earlier := self._equal_unfinished(proposal)) is not None:
            self._again[proposal.call_id] = earlier.key
            if not tool.idempotent:
                return Ask(
                    self._wording.why_unknown(),
                    once=True,
                    nobody=Refuse(self._wording.outcome_unknown(tool.name).text, "outcome_unknown"),
                )
        if not tool.side_effect:
            return None
        done = self._done.pop(proposal.identity, None) or _Done(Effect(writes=effect.writes))
        self._done[proposal.identity] = done
        if len(self._done) > REMEMBERED:
            self._done.pop(next(iter(self._done)))
        self._proposed[proposal.call_id] = proposal.identity
        times = done.count + done.open + 1
        done.open += 1
        if times >= ASKED_AT:
            return Ask(
                self._wording.why_repeated(times),
                once=True,
                nobody=Refuse(self._wording.repeated_refused(tool.name, times).text, "repeated_effect"),
            )
        return Note(self._wording.repeated(tool.name, times).text) if times == ASKED_AT - 1 else None

    def _equal_unfinished(self, proposal: Proposal) -> Unfinished | None:
        found = (one for one in self._unfinished.values() if one.is_equal(proposal.tool.name, proposal.identity))
        return next(found, None)

    def _admitted(self, event: CallAdmitted) -> None:
        if event.writes:
            self._writing[event.call_id] = Effect(writes=event.writes)

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        writes = self._writing.pop(result.call_id, None)
        identity = self._proposed.pop(result.call_id, "")
        again = self._again.pop(result.call_id, "")
        if again and result.kind in ("finished", "failed"):
            self._unfinished.pop(again, None)
        own = self._done.get(identity)
        if own is not None:
            own.open = max(own.open - 1, 0)
        if writes is None or result.kind != "finished" or result.reused_from is not None:
            return
        for other in [one for one in self._done if one != identity and conflict(self._done[one].writes, writes)]:
            self._done[other].count = 0
        if own is not None and result.error is None:
            own.count += 1

    def _begin_anew(self, event: Event) -> None:
        for done in self._done.values():
            done.count = 0
