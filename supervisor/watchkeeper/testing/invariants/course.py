"""The course of a run: its beginning and end, cancels, pauses, sub-agents, and what the watchdog says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...messages import (
    Blocked,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    DetectorFailed,
    Event,
    FindingMade,
    ModelRequested,
    Nudged,
    Paused,
    Recovered,
    RunEnded,
    RunEnding,
    RunStarted,
    Stopped,
)
from .rules import Say

AFTER_ENDING = (FindingMade, DetectorFailed, Recovered, RunEnded)
"""Facts that may follow ``RunEnding``; an attempt may have died behind it, and the next one writes the end record."""
CLOCK = 1e-6
"""Seconds by which a sum of times may be off."""


class Course:
    """The rules ``end``, ``alive``, ``cancel`` and, of limits and verdicts, ``authority``; of pauses ``bound``."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._n = 0
        self._t = 0.0
        self._began = False
        self._ending: RunEnding | None = None
        self._end: RunEnded | None = None
        self._cancel: CancelRequested | None = None
        self._now = False
        """A cancel has come that lets no new call start."""
        self._confirmed = False
        self._children: dict[str, bool] = {}
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._run_started,
            RunEnding: self._run_ending,
            RunEnded: self._run_ended,
            ModelRequested: self._requested,
            CallStarted: self._started,
            CancelRequested: self._cancelled,
            CancelConfirmed: self._cancel_confirmed,
            ChildStarted: self._child_started,
            ChildEnded: self._child_ended,
            Paused: self._paused,
            **dict.fromkeys((Blocked, Nudged, Stopped), self._verdict),
        }

    def see(self, event: Event) -> None:
        """Each fact, of whatever kind."""
        if event.n != self._n + 1:
            self._say("end", event, f"it follows fact {self._n}")
        if event.t < self._t - CLOCK:
            self._say("end", event, f"its time is {event.t}, after {self._t}")
        self._n, self._t = event.n, event.t
        if self._end is not None:
            self._say("end", event, f"{type(event).__name__} comes after the end record")
        elif self._ending is not None and not isinstance(event, AFTER_ENDING):
            self._say("end", event, f"{type(event).__name__} comes after RunEnding")

    def finish(self, broken_off: bool) -> None:
        if self._end is None and not broken_off:
            self._say("end", self._n, "there is no end record")

    def _run_started(self, event: RunStarted) -> None:
        if self._began:
            self._say("authority", event, "the run begins a second time, with limits of its own")
        self._began = True

    def _run_ending(self, event: RunEnding) -> None:
        self._ending = event
        if event.status == "cancelled" and self._began and not self._confirmed:
            self._say("cancel", event, "the cancel is not confirmed")

    def _run_ended(self, event: RunEnded) -> None:
        self._end, outcome = event, event.outcome
        if outcome.run != event.run:
            self._say("end", event, f"the outcome is that of run {outcome.run}")
        if self._ending is not None and (outcome.status, outcome.reason) != (self._ending.status, self._ending.reason):
            self._say("end", event, f"{outcome.status} ({outcome.reason}) after RunEnding said {self._ending.status}")
        if outcome.status == "cancelled" and outcome.reason != "supervisor_closed":
            first = (self._cancel.status, self._cancel.reason) if self._cancel is not None else None
            if first != (outcome.status, outcome.reason):
                self._say("cancel", event, f"nobody asked first for the cancel that it ends with ({outcome.reason})")

    def _requested(self, event: ModelRequested) -> None:
        if self._cancel is not None:
            self._say("cancel", event, f"the model is asked after the cancel at fact {self._cancel.n}")

    def _started(self, event: CallStarted) -> None:
        if self._now:
            self._say("cancel", event, f"call {event.call_id} ({event.tool}) starts after the cancel")

    def _cancelled(self, event: CancelRequested) -> None:
        self._cancel = self._cancel or event
        self._now |= event.mode != "after_turn"
        if event.status != self._cancel.status:
            self._say("cancel", event, f"it asks for {event.status}, and the first one for {self._cancel.status}")

    def _cancel_confirmed(self, event: CancelConfirmed) -> None:
        self._confirmed = True

    def _child_started(self, event: ChildStarted) -> None:
        if event.child in self._children:
            self._say("authority", event, f"sub-agent {event.child} is started twice")
        self._children[event.child] = False

    def _child_ended(self, event: ChildEnded) -> None:
        if self._children.get(event.child, True):
            self._say("alive", event, f"sub-agent {event.child} ends, and was not at work")
        self._children[event.child] = True

    def _paused(self, event: Paused) -> None:
        if event.deadline is None or not event.deadline < float("inf"):
            self._say("bound", event, "the pause has no deadline")
        if event.verdict is not None:
            self._verdict(event)

    def _verdict(self, event: Blocked | Nudged | Stopped | Paused) -> None:
        if event.cause and event.cause >= event.n:
            self._say("authority", event, f"{type(event).__name__} is caused by fact {event.cause}, which comes later")
