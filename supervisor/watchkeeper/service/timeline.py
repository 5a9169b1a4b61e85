"""When things happened in a run, for whoever draws it while it goes on: bars in rows, and what was spent. Pure.

``handover.picture`` is the same for a run that is over and a page of one size; here bars may still be open, calls at
the same time lie in rows of their own, and each bar names its fact and its call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    Blocked,
    CallEnded,
    CallStarted,
    CancelRequested,
    ChildEnded,
    Event,
    FindingMade,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Nudged,
    Overrun,
    Paused,
    Reminded,
    Resumed,
    RunEnded,
    RunEnding,
    Settled,
    Stopped,
    UserMessage,
)

LaneName = Literal["model", "tools", "watchdog"]
BARS = 2_000
"""Bars of a lane that are kept, the latest."""
POINTS = 400
"""Points of the curve of what was spent: when there are twice as many, every second one goes."""
TEXT = 160


class Bar(msgspec.Struct, rename={"began": "from", "ended": "to"}):
    """From ``from`` to ``to`` in seconds on the run's clock; ``to`` is null as long as it goes on, and equal to
    ``from`` for what took no time.

    ``kind``: for calls how they ended, ``running``, or ``waiting`` for an approval; for the model ``reply``, ``failed``
    or ``running``; for the watchdog ``finding``, ``nudge``, ``block``, ``pause``, ``stop``, and ``user`` and ``cancel``
    for what people said and wanted. ``n`` is the number of the fact with which it began.
    """

    began: float
    ended: float | None
    row: int
    label: str
    kind: str
    n: int
    call: str = ""


class Lane(msgspec.Struct, frozen=True):
    lane: LaneName
    bars: tuple[Bar, ...]
    lost: int = 0
    """Bars before these, which are not kept."""


class Point(msgspec.Struct, frozen=True):
    t: float
    spent: dict[str, float]
    """So far in all, sub-agents included, by dimension."""


class Timeline(msgspec.Struct, frozen=True):
    lanes: tuple[Lane, ...]
    spend: tuple[Point, ...]
    now: float
    """The run's clock: where bars that go on end for now."""


class Course:
    """A fold over the facts of one run."""

    def __init__(self) -> None:
        self._lanes: dict[LaneName, deque[Bar]] = {
            "model": deque(maxlen=BARS),
            "tools": deque(maxlen=BARS),
            "watchdog": deque(maxlen=BARS),
        }
        self._made: dict[LaneName, int] = {"model": 0, "tools": 0, "watchdog": 0}
        self._open: dict[tuple[LaneName, str], Bar] = {}
        self._spend: list[Point] = []
        self._spent: dict[str, float] = {}
        self._t = 0.0
        self._at = 0.0
        self._over = False
        self._fold: dict[type[Event], Callable[[Any], None]] = {
            ModelRequested: self._model_requested,
            ModelReplied: lambda event: self._close("model", "", event.t, "reply"),
            ModelRetried: lambda event: self._close("model", "", event.t, "failed"),
            ModelFailed: lambda event: self._close("model", "", event.t, "failed"),
            CallStarted: self._call_started,
            CallEnded: self._call_ended,
            ApprovalRequested: self._approval_requested,
            ApprovalResolved: lambda event: self._close("tools", f"approval {event.call_id}", event.t, event.how),
            FindingMade: lambda event: self._mark(event, event.finding.pattern, "finding"),
            Nudged: lambda event: self._mark(event, event.text, "nudge"),
            Reminded: lambda event: self._mark(event, event.text, "nudge"),
            Blocked: lambda event: self._mark(event, event.by, "block"),
            Paused: lambda event: self._begin("watchdog", "pause", event, event.reason, "pause"),
            Resumed: lambda event: self._close("watchdog", "pause", event.t, "pause"),
            Stopped: lambda event: self._mark(event, event.verdict.finding.pattern, "stop"),
            Overrun: lambda event: self._mark(event, f"overrun of {event.dimension}", "stop"),
            UserMessage: lambda event: self._mark(event, event.text, "user"),
            CancelRequested: lambda event: self._mark(event, event.reason, "cancel"),
            RunEnding: self._ending,
            RunEnded: self._ended,
            Settled: lambda event: self._charge(event.t, event.amounts),
            ChildEnded: lambda event: self._charge(event.t, event.spent),
        }

    def observe(self, event: Event) -> None:
        self._t = max(self._t, event.t)
        self._at = max(self._at, event.at)
        fold = self._fold.get(type(event))
        if fold is not None:
            fold(event)

    def timeline(self, at: float) -> Timeline:
        """As it is at that time (UTC, seconds since the epoch)."""
        since = 0.0 if self._over or not self._at else max(at - self._at, 0.0)
        return Timeline(
            tuple(Lane(name, tuple(bars), self._made[name] - len(bars)) for name, bars in self._lanes.items()),
            tuple(self._spend),
            self._t + since,
        )

    # -- facts ---------------------------------------------------------------------------------------------------------

    def _model_requested(self, event: ModelRequested) -> None:
        self._end("model", "", event.t, "failed")
        self._begin("model", "", event, event.model or "model", "running")

    def _call_started(self, event: CallStarted) -> None:
        if ("tools", event.call_id) not in self._open:
            self._begin("tools", event.call_id, event, event.tool, "running", event.call_id)

    def _call_ended(self, event: CallEnded) -> None:
        result = event.result
        if not self._end("tools", result.call_id, event.t, result.kind):
            self._begin("tools", result.call_id, event, result.tool, result.kind, result.call_id)
            self._end("tools", result.call_id, event.t, result.kind)

    def _approval_requested(self, event: ApprovalRequested) -> None:
        key = f"approval {event.call_id}"
        self._begin("tools", key, event, event.tool or "answer", "waiting", event.call_id)

    def _ending(self, event: RunEnding) -> None:
        if event.status not in ("completed", "cancelled"):
            self._mark(event, f"{event.status}: {event.reason}", "stop")

    def _ended(self, event: RunEnded) -> None:
        self._over = True
        for (lane, key), bar in [*self._open.items()]:
            self._end(lane, key, event.t, "abandoned" if bar.kind == "running" else bar.kind)

    # -- bars ----------------------------------------------------------------------------------------------------------

    def _begin(self, lane: LaneName, key: str, event: Event, label: str, kind: str, call: str = "") -> None:
        taken = {bar.row for (name, _), bar in self._open.items() if name == lane}
        row = next(row for row in range(len(taken) + 1) if row not in taken)
        bar = Bar(event.t, None, row, label.partition("\n")[0][:TEXT], kind, event.n, call)
        self._lanes[lane].append(bar)
        self._made[lane] += 1
        self._open[lane, key] = bar

    def _end(self, lane: LaneName, key: str, t: float, kind: str) -> bool:
        bar = self._open.pop((lane, key), None)
        if bar is None:
            return False
        bar.ended = max(t, bar.began)
        bar.kind = kind
        return True

    def _close(self, lane: LaneName, key: str, t: float, kind: str) -> None:
        self._end(lane, key, t, kind)

    def _mark(self, event: Event, label: str, kind: str) -> None:
        key = f"mark {event.n}"
        self._begin("watchdog", key, event, label, kind)
        self._end("watchdog", key, event.t, kind)

    def _charge(self, t: float, amounts: dict[str, float]) -> None:
        for dimension, amount in amounts.items():
            self._spent[dimension] = self._spent.get(dimension, 0.0) + amount
        self._spend.append(Point(t, dict(self._spent)))
        if len(self._spend) > 2 * POINTS:
            del self._spend[1::2]
