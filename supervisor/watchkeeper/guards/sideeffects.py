"""Side effects that come again: told at the second time, asked about at the third; and those of unknown outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container
from itertools import islice
from typing import Any

from ..messages import CallEnded, ChildEnded, ChildStarted, Event, UserMessage
from ..occurrences import Unfinished
from ..planner import conflict
from ..tools import Effect
from ..wording import Wording
from .guard import Ask, Note, Proposal, Refuse

REMEMBERED = 256
WRITES_KEPT = 256
"""Writes by other calls that are looked through when one comes again; with more in between it counts as the first."""
ASKED_AT = 3
"""The time at which an equal side effect is asked about; at the one before it is told. In good recorded runs 12 of 508
repeat one once, 2 twice."""


class _Done:
    """How often a side effect has succeeded, and what it writes."""

    __slots__ = ("count", "last", "open", "writes")

    def __init__(self, writes: tuple[str, ...]) -> None:
        self.count = 0
        self.last = 0
        """The number of the write that the last success was."""
        self.open = 1
        """Such calls that have no result yet."""
        self.writes = writes


class SideEffects:
    """Counts equal calls (tool and all arguments) that succeeded and are declared to write, unless writing twice does
    no harm (``idempotent``) or they are meant to be asked again (``poll``). A tool that declares no effect may well
    read only: of those it says nothing.

    It counts from the last message of the user; what another call has written to the same place, or a sub-agent
    anywhere, begins the count anew. ``unfinished``: writing calls of an earlier run, or of an attempt at this one that
    died, of which nobody knows whether they had their effect. An equal one is asked about, unless its tool is run again
    after a crash (``after_crash``, ``idempotent``) or its key is among those ``cleared``: that one did not happen.
    """

    name = "side_effects"

    def __init__(
        self, wording: Wording, unfinished: Collection[Unfinished] = (), cleared: Container[str] = frozenset()
    ) -> None:
        self._wording = wording
        self._cleared = cleared
        self._unfinished = {one.key: one for one in unfinished}
        self._again: dict[str, str] = {}
        """Keys of the unfinished ones that calls under way are once more, by call id."""
        self._done: dict[str, _Done] = {}
        """By identity; the one that was proposed last comes last."""
        self._open: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Writing calls that were proposed and have no result yet, by call id: their identity and what they write."""
        self._writes: deque[tuple[str, tuple[str, ...]]] = deque(maxlen=WRITES_KEPT)
        """What was written last, and the identity of the call where it counts."""
        self._written = 0
        """How many writes there were."""

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            CallEnded: self._ended,
            UserMessage: self._begin_anew,
            ChildStarted: self._begin_anew,
            ChildEnded: self._begin_anew,
        }

    def call(self, proposal: Proposal) -> Ask | Refuse | Note | None:
        effect, tool = proposal.effect, proposal.tool
        if not effect.writes:
            return None
        self._open[proposal.call_id] = (proposal.identity, effect.writes)
        if self._unfinished and (earlier := self._equal_unfinished(proposal)) is not None:
            self._again[proposal.call_id] = earlier.key
            refuse = Refuse(self._wording.outcome_unknown(tool.name).text, "outcome_unknown")
            if tool.after_crash == "fail" and earlier.call_id == proposal.call_id:
                return refuse
            if tool.after_crash != "retry" and earlier.key not in self._cleared:
                return Ask(self._wording.why_unknown(), once=True, nobody=refuse)
        if not tool.side_effect:
            return None
        identity = proposal.identity
        done = self._done.pop(identity, None)
        if done is None:
            self._done[identity] = _Done(effect.writes)
            if len(self._done) > REMEMBERED:
                self._done.pop(next(iter(self._done)))
            return None
        self._done[identity] = done
        self._look_between(identity, done)
        times = done.count + done.open + 1
        done.open += 1
        if times >= ASKED_AT:
            return Ask(
                self._wording.why_repeated(times),
                once=True,
                nobody=Refuse(self._wording.repeated_refused(tool.name, times).text, "repeated_effect"),
            )
        return Note(self._wording.repeated(tool.name, times).text) if times == ASKED_AT - 1 else None

    def take_up(self, unfinished: Collection[Unfinished]) -> None:
        """There are such calls of an attempt before this one."""
        self._unfinished |= {one.key: one for one in unfinished}

    def known(self, key: str) -> None:
        """The outcome of one of them is known."""
        self._unfinished.pop(key, None)

    def _equal_unfinished(self, proposal: Proposal) -> Unfinished | None:
        """The call itself, of an attempt that died, before another one that is equal."""
        found = [one for one in self._unfinished.values() if one.is_equal(proposal.tool.name, proposal.identity)]
        return next((one for one in found if one.call_id == proposal.call_id), found[0] if found else None)

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        opened = self._open.pop(result.call_id, None)
        if opened is None:
            return
        if self._again and (again := self._again.pop(result.call_id, "")) and result.kind in ("finished", "failed"):
            self._unfinished.pop(again, None)
        identity, writes = opened
        own = self._done.get(identity)
        if own is not None and own.open:
            own.open -= 1
        if result.kind != "finished" or result.reused_from is not None:
            return
        if own is not None and result.error is None:
            self._look_between(identity, own)
            own.count += 1
            own.last = self._written + 1
        self._written += 1
        self._writes.append((identity, writes))

    def _look_between(self, identity: str, done: _Done) -> None:
        """Begin its count anew if another call has written to the same place since it last succeeded."""
        if not done.count:
            return
        since = self._written - done.last
        between = islice(reversed(self._writes), since)
        own = Effect(writes=done.writes)
        if since > len(self._writes) or any(
            one != identity and conflict(own, Effect(writes=names)) for one, names in between
        ):
            done.count = 0

    def _begin_anew(self, event: Event) -> None:
        self._done.clear()
