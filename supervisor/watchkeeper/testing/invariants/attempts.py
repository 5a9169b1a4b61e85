"""Attempts: where one was broken off another goes on, and nothing has its effect twice without a word."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ...messages import (
    ApprovalResolved,
    CallAdmitted,
    CallEnded,
    CallStarted,
    Event,
    ModelRequested,
    Recovered,
    RunStarted,
    Suspended,
)
from .rules import PERMITS, Say


class _Begun:
    """A call without a result that was admitted."""

    __slots__ = ("key", "leave", "started", "tool", "writes")

    def __init__(self, event: CallAdmitted) -> None:
        self.tool = event.tool
        self.writes = bool(event.writes)
        self.started: int | None = None
        """The attempt, counted from 0, in which it started last."""
        self.key = ""
        self.leave = False
        """Somebody has permitted it since it started last."""


class Attempts:
    """The rule ``attempt``. ``unasked`` names the tools whose calls of unknown outcome run again without a question."""

    def __init__(self, say: Say, unasked: Collection[str]) -> None:
        self._say = say
        self._unasked = frozenset(unasked)
        self._began = False
        self._number = 0
        """Of the attempt, as far as a fact has said so."""
        self._recoveries = 0
        self._given_back: Suspended | None = None
        """As long as no other attempt has it."""
        self._open: dict[str, _Begun] = {}
        self._unknown: frozenset[str] = frozenset()
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._run_started,
            Recovered: self._recovered,
            Suspended: self._suspended,
            ModelRequested: self._requested,
            CallAdmitted: self._admitted,
            CallStarted: self._started,
            CallEnded: self._ended,
            ApprovalResolved: self._resolved,
        }

    def finish(self, broken_off: bool) -> None:
        """Nothing is missing: a run that was given back may get its end without being executed again."""

    def _run_started(self, event: RunStarted) -> None:
        self._began = True

    def _recovered(self, event: Recovered) -> None:
        if not self._began:
            self._say("attempt", event, "it goes on with a run that never began")
        if event.attempt <= self._number:
            self._say("attempt", event, f"attempt {event.attempt} comes after attempt {self._number}")
        self._number, self._given_back = event.attempt, None
        self._recoveries += 1
        self._unknown = frozenset(event.unknown)
        named = self._unknown | {*event.again}
        under_way = {call_id for call_id, call in self._open.items() if call.started is not None}
        for call_id in sorted(under_way ^ named):
            was = "was under way, and is not named" if call_id in under_way else "is named, and was not under way"
            self._say("attempt", event, f"call {call_id} {was}")
        for call_id in event.again:
            if call_id in self._unknown or (call_id in self._open and self._open[call_id].writes):
                self._say("attempt", event, f"call {call_id} may have had its effect, and is to run again")

    def _suspended(self, event: Suspended) -> None:
        if event.attempt < self._number:
            self._say("attempt", event, f"attempt {event.attempt} gives back what attempt {self._number} has")
        self._number, self._given_back = event.attempt, event

    def _requested(self, event: ModelRequested) -> None:
        if self._given_back is not None:
            self._say("attempt", event, "the model is asked after the run was given back")

    def _admitted(self, event: CallAdmitted) -> None:
        self._open.setdefault(event.call_id, _Begun(event))

    def _started(self, event: CallStarted) -> None:
        call, name = self._open.get(event.call_id), f"call {event.call_id} ({event.tool})"
        if self._given_back is not None:
            self._say("attempt", event, f"{name} starts after the run was given back")
        if call is None:
            return
        if call.started is not None and call.started < self._recoveries and event.call_id in self._unknown:
            if not call.key:
                self._say("attempt", event, f"{name} had begun to write through a sub-agent, and runs again")
            elif call.key != event.idempotency_key:
                self._say("attempt", event, f"{name} is of unknown outcome, and runs again under another key")
            elif not call.leave and call.tool not in self._unasked:
                self._say("attempt", event, f"{name} is of unknown outcome, and runs again unasked")
        call.started, call.key, call.leave = self._recoveries, event.idempotency_key, False

    def _ended(self, event: CallEnded) -> None:
        self._open.pop(event.result.call_id, None)

    def _resolved(self, event: ApprovalResolved) -> None:
        if event.call_id in self._open:
            self._open[event.call_id].leave = event.how in PERMITS
