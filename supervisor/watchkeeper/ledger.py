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
    writes: bool = False
    started: bool = False
    ended: int = 0
    """Number of the fact that says so; 0 before that."""
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
            wrote=self.writes and self.started,
            frame=self.frame,
            instead=self.instead,
        )


class Ledger:
    """Every call of a run and how it stands."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.open: dict[str, Entry] = {}
        """Calls that were proposed and have no result yet."""
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
        self.open[event.call_id].writes = bool(event.writes)

    def _replaced(self, event: CallReplaced) -> None:
        self.open[event.call_id].instead = event.instead

    def _started(self, event: CallStarted) -> None:
        entry = self.open[event.call_id]
        if not entry.started:
            self.by_tool[event.tool] = self.by_tool.get(event.tool, 0) + 1
        entry.started = True

    def _ended(self, event: CallEnded) -> None:
        result: Result = event.result
        entry = self.open.pop(result.call_id)  # a second result for one call is a KeyError: a defect of ours
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
