"""The proof of a cancel: what was in flight when the run took it, and what ended when. A fold over its facts; pure."""

from __future__ import annotations

import msgspec

from ..messages import CallEnded, CallStarted, CancelConfirmed, CancelRequested, Event, Kind, RunEnded


class InFlight(msgspec.Struct, frozen=True):
    """A call that was at work. ``since``: UTC, seconds since the epoch."""

    run: str
    call: str
    tool: str
    since: float


class Ended(msgspec.Struct, frozen=True):
    """A call that was in flight, how it ended and how many seconds after the run took the cancel."""

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
        self._open: dict[str, CallStarted] = {}
        self._cancelled: CancelRequested | None = None
        self.in_flight: list[InFlight] = []
        self.ended: list[Ended] = []
        self.seconds: float | None = None

    def observe(self, event: Event) -> None:
        cancelled = self._cancelled
        match event:
            case CallStarted():
                self._open.setdefault(event.call_id, event)
            case CallEnded(result=result):
                started = self._open.pop(result.call_id, None)
                if cancelled is not None and started is not None:
                    after = max(event.t - cancelled.t, 0.0)
                    self.ended.append(Ended(event.run, result.call_id, result.tool, result.kind, after))
            case CancelRequested() if cancelled is None:
                self._cancelled = event
                self.in_flight = [InFlight(one.run, one.call_id, one.tool, one.at) for one in self._open.values()]
            case CancelConfirmed():
                self.seconds = event.seconds
            case RunEnded() if self.seconds is None and cancelled is not None:
                self.seconds = max(event.t - cancelled.t, 0.0)
            case _:
                pass
