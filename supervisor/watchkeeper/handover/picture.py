"""When things happened in a run: bars for what took time, marks for what was done about it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ..messages import (
    Blocked,
    CallEnded,
    CallStarted,
    CancelRequested,
    Event,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Nudged,
    Overrun,
    Paused,
    Reminded,
    RunEnding,
    Stopped,
    UserMessage,
)

MODEL = ""
"""The lane of the model."""
BARS, MARKS = 4_000, 400
"""Bars and marks that are kept, the latest; what came before them is not drawn."""
TEXT = 160

MarkKind = Literal["user", "nudge", "block", "pause", "stop"]


class Bar(msgspec.Struct, frozen=True):
    """A call, or a request to the model, from ``began`` to ``ended`` on the run's clock."""

    lane: str
    began: float
    ended: float
    kind: str
    """How the call ended; of the model ``model``, or ``failed``."""


class Mark(msgspec.Struct, frozen=True):
    at: float
    kind: MarkKind
    text: str


class Picture(msgspec.Struct, frozen=True):
    """What is drawn: bars and marks in the order of their ends, and the time that it spans."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    began: float
    ended: float
    lost: int = 0
    """Bars that came before and are not kept."""


class Draft:
    """A fold over the facts of one run."""

    def __init__(self) -> None:
        self._bars: deque[Bar] = deque(maxlen=BARS)
        self._marks: deque[Mark] = deque(maxlen=MARKS)
        self._started: dict[str, float] = {}
        self._asked: float | None = None
        self._first: float | None = None
        self._last = 0.0
        self._made = 0
        self._told_for = -1
        """The cause of the last block or pause: the word to the model that comes with it is no mark of its own."""
        self._fold: dict[type[Event], Callable[[Any], None]] = {
            CallStarted: self._call_started,
            CallEnded: self._call_ended,
            ModelRequested: self._model_asked,
            ModelReplied: lambda event: self._model_ended(event, "model"),
            ModelRetried: lambda event: self._model_ended(event, "failed"),
            ModelFailed: lambda event: self._model_ended(event, "failed"),
            UserMessage: lambda event: self._mark(event, "user", event.text),
            Nudged: self._nudged,
            Reminded: lambda event: self._mark(event, "nudge", event.text),
            Blocked: self._blocked,
            Paused: self._paused,
            Stopped: lambda event: self._mark(event, "stop", event.verdict.finding.pattern),
            Overrun: lambda event: self._mark(event, "stop", f"overrun of {event.dimension}"),
            CancelRequested: lambda event: self._mark(event, "stop", event.reason),
            RunEnding: self._ending,
        }

    def observe(self, event: Event) -> None:
        if self._first is None:
            self._first = event.t if event.n > 1 else 0.0
        self._last = max(self._last, event.t)
        fold = self._fold.get(type(event))
        if fold is not None:
            fold(event)

    def picture(self) -> Picture:
        began = self._bars[0].began if self._made > len(self._bars) else self._first or 0.0
        return Picture(
            tuple(self._bars),
            tuple(mark for mark in self._marks if mark.at >= began),
            began,
            self._last,
            self._made - len(self._bars),
        )

    def _call_started(self, event: CallStarted) -> None:
        self._started.setdefault(event.call_id, event.t)

    def _call_ended(self, event: CallEnded) -> None:
        result = event.result
        began = self._started.pop(result.call_id, event.t - event.ran)
        self._add(Bar(result.tool, began, event.t, result.kind))

    def _model_asked(self, event: ModelRequested) -> None:
        self._asked = event.t

    def _model_ended(self, event: Event, kind: str) -> None:
        if self._asked is not None:
            self._add(Bar(MODEL, self._asked, event.t, kind))
        self._asked = None

    def _nudged(self, event: Nudged) -> None:
        if event.cause != self._told_for:
            self._mark(event, "nudge", event.text)

    def _blocked(self, event: Blocked) -> None:
        self._told_for = event.cause
        self._mark(event, "block", event.by)

    def _paused(self, event: Paused) -> None:
        if event.verdict is not None:
            self._told_for = event.cause
        self._mark(event, "pause", event.reason)

    def _ending(self, event: RunEnding) -> None:
        if event.status != "completed":
            self._mark(event, "stop", f"{event.status}: {event.reason}")

    def _add(self, bar: Bar) -> None:
        self._made += 1
        self._bars.append(bar)

    def _mark(self, event: Event, kind: MarkKind, text: str) -> None:
        self._marks.append(Mark(event.t, kind, text.partition("\n")[0][:TEXT]))
