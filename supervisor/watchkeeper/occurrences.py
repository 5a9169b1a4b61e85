"""Which execution of a call this is, and which executions nobody knows the end of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from .fingerprint import idempotency_key
from .messages import CallEnded, CallStarted, Event

UNKNOWN_ENDS = frozenset({"abandoned", "cancelled", "timed_out"})
"""Kinds of results of calls that were started and may or may not have had their effect."""


class Unfinished(msgspec.Struct, frozen=True):
    """A writing call that was started and of which nobody knows whether it had its effect."""

    run: str
    call_id: str
    tool: str
    key: str
    """Its idempotency key: if it is run again, then under this one."""
    occurrence: int

    def is_equal(self, tool: str, identity: str) -> bool:
        """Whether a call, by its tool and all its arguments, is this one again."""
        return tool == self.tool and idempotency_key(self.run, identity, self.occurrence) == self.key


class Execution(msgspec.Struct, frozen=True):
    """One execution of a writing call, however many attempts it takes."""

    key: str
    occurrence: int
    first_run: str = ""


class Occurrences:
    """Numbers the executions of equal calls of a run, and makes the key of each.

    ``unfinished``: executions of an earlier run of unknown outcome: an equal call is that execution again and has its
    key, once. ``taken``: keys that this very run has used before it was recovered.
    """

    def __init__(self, run: str, unfinished: Iterable[Unfinished] = (), taken: Collection[str] = ()) -> None:
        self._run = run
        self._unfinished = list(unfinished)
        self._taken: Collection[str] = frozenset(taken) if taken else ()
        self._counts: dict[str, int] = {}

    def known(self, key: str) -> None:
        """The outcome of an unfinished one is known: an equal call is another one."""
        self._unfinished = [one for one in self._unfinished if one.key != key]

    def next(self, tool: str, identity: str, call_id: str = "") -> Execution:
        """One more execution. Of several unfinished ones the call is itself again before it is another one."""
        equal = [one for one in self._unfinished if one.is_equal(tool, identity)]
        if equal:
            one = next((one for one in equal if one.call_id == call_id), equal[0])
            self._unfinished.remove(one)
            return Execution(one.key, one.occurrence, "" if one.run == self._run else one.run)
        number = self._counts.get(identity, 0) + 1
        key = idempotency_key(self._run, identity, number)
        while key in self._taken:
            number += 1
            key = idempotency_key(self._run, identity, number)
        self._counts[identity] = number
        return Execution(key, number)


class Starts:
    """A fold over a log: the writing calls that were started and have no end that says what came of them."""

    def __init__(self) -> None:
        self._open: dict[str, Unfinished] = {}
        self.folds: dict[type[Event], Callable[[Any], None]] = {CallStarted: self._started, CallEnded: self._ended}

    @property
    def unfinished(self) -> tuple[Unfinished, ...]:
        """In the order in which they were started."""
        return tuple(self._open.values())

    def _started(self, event: CallStarted) -> None:
        if event.idempotency_key:
            self._open[event.call_id] = Unfinished(
                event.first_run or event.run, event.call_id, event.tool, event.idempotency_key, event.occurrence
            )

    def _ended(self, event: CallEnded) -> None:
        if event.result.kind not in UNKNOWN_ENDS:
            self._open.pop(event.result.call_id, None)


def unfinished(events: Iterable[Event]) -> tuple[Unfinished, ...]:
    """The writing calls of a log, whole or broken off, of which nobody knows whether they had their effect. Hand them
    to ``Supervisor.start(unfinished=…)`` with the history."""
    starts = Starts()
    for event in events:
        apply = starts.folds.get(type(event))
        if apply is not None:
            apply(event)
    return starts.unfinished
