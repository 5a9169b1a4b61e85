"""The ledger: each call's state and its one result, as a fold over the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .messages import CallAdmitted, CallEnded, CallProposed, CallRecord, CallReplaced, CallStarted, Event, Kind, Result


class Entry(msgspec.Struct, eq=False, gc=False):
    """One call on its way from proposed to ended."""

    call_id: str
    tool: str
    turn: int
    slot: int
    key: str = ""
    writes: bool = False
    started: int = 0
    """Number of its last ``CallStarted``; 0 if it never ran."""
    ended: int = 0
    kind: Kind = "not_run"
    productive: bool = False
    wait: float = 0.0
    ran: float = 0.0
    frame: str | None = None
    instead: str = ""

    def record(self) -> CallRecord:
        return CallRecord(
            id=self.call_id,
            tool=self.tool,
            turn=self.turn,
            slot=self.slot,
            kind=self.kind,
            wait=self.wait,
            ran=self.ran,
            productive=self.productive,
            wrote=self.writes and self.started > 0,
            frame=self.frame,
            instead=self.instead,
        )


class Ledger:
    """Every call of a run and how it stands."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.open: dict[str, Entry] = {}
        """Calls that were proposed and have no result yet."""
        self.running: dict[str, Entry] = {}
        self.ended = 0
        self.by_tool: dict[str, int] = {}
        """Calls that were started, by tool."""

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            CallProposed: self._proposed,
            CallAdmitted: self._admitted,
            CallReplaced: self._replaced,
            CallStarted: self._started,
            CallEnded: self._ended,
        }

    def _proposed(self, event: CallProposed) -> None:
        entry = Entry(event.call_id, event.tool, event.turn, event.slot)
        self.entries[event.call_id] = self.open[event.call_id] = entry

    def _admitted(self, event: CallAdmitted) -> None:
        entry = self.open[event.call_id]
        entry.key = event.key
        entry.writes = bool(event.writes)

    def _replaced(self, event: CallReplaced) -> None:
        self.open[event.call_id].instead = event.instead

    def _started(self, event: CallStarted) -> None:
        entry = self.open[event.call_id]
        if not entry.started:
            self.by_tool[event.tool] = self.by_tool.get(event.tool, 0) + 1
        entry.started = event.n
        self.running[event.call_id] = entry

    def _ended(self, event: CallEnded) -> None:
        result: Result = event.result
        entry = self.open.pop(result.call_id)  # a second result for one call is a KeyError: a defect of ours
        self.running.pop(result.call_id, None)
        entry.ended = event.n
        entry.kind = result.kind
        entry.productive = result.productive
        entry.wait = event.wait
        entry.ran = event.ran
        if result.kind == "abandoned":
            entry.frame = event.detail
        self.ended += 1

    def records(self) -> tuple[CallRecord, ...]:
        return tuple(entry.record() for entry in self.entries.values())
