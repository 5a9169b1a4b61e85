"""The proof of a cancel: what was in flight when the run took it, and what ended when. A fold over its facts; pure."""

from __future__ import annotations

import msgspec

from ..messages import (
    CallEnded,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    Event,
    Kind,
    ModelFailed,
    ModelPartialDropped,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    RunEnded,
    RunEnding,
)

MODEL = "model"
"""What stands for the tool of a request to the model, which is no call."""


class InFlight(msgspec.Struct, frozen=True):
    """A call that was at work, or a request to the model. ``since``: UTC, seconds since the epoch."""

    run: str
    call: str
    tool: str
    since: float


class Ended(msgspec.Struct, frozen=True):
    """What was in flight or came after the cancel, how it ended and how many seconds after the run took the cancel."""

    run: str
    call: str
    tool: str
    kind: Kind
    seconds: float


class Proof:
    """A fold over the facts of one run. Without a cancel in them nothing was in flight.

    ``seconds``: from the cancel to the last task joined, as the run itself has measured it, or to its end record; None
    as long as neither is there.
    """

    def __init__(self) -> None:
        self._open: dict[str, InFlight] = {}
        self._cancelled: CancelRequested | None = None
        self.in_flight: list[InFlight] = []
        self.ended: list[Ended] = []
        self.seconds: float | None = None

    def observe(self, event: Event) -> None:
        cancelled = self._cancelled
        match event:
            case CallStarted():
                self._open.setdefault(event.call_id, InFlight(event.run, event.call_id, event.tool, event.at))
            case CallEnded(result=result):
                self._land(event, result.call_id, result.kind)
            case ModelRequested():
                self._open[""] = InFlight(event.run, "", MODEL, event.at)
            case ModelReplied():
                self._land(event, "", "finished")
            case ModelFailed() | ModelRetried():
                self._land(event, "", "failed")
            case ModelPartialDropped() | RunEnding():
                self._land(event, "", "cancelled" if cancelled is not None else "failed")
            case CancelRequested() if cancelled is None:
                self._cancelled = event
                self.in_flight = list(self._open.values())
            case CancelConfirmed():
                self.seconds = event.seconds
            case RunEnded() if self.seconds is None and cancelled is not None:
                self.seconds = max(event.t - cancelled.t, 0.0)
            case _:
                pass

    def _land(self, event: Event, call: str, kind: Kind) -> None:
        found = self._open.pop(call, None)
        if found is not None and self._cancelled is not None:
            after = max(event.t - self._cancelled.t, 0.0)
            self.ended.append(Ended(event.run, call, found.tool, kind, after))
