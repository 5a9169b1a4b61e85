"""The time that a run has used before it was broken off, as a fold over its facts. Pure."""

from __future__ import annotations

from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallStarted,
    Event,
    Held,
    ModelFailed,
    ModelRequested,
    ModelRetried,
    Paused,
    Resumed,
)
from ..stopwatch import Stopwatch


class Times:
    """Reads the run's clock (``Event.t``). Waits for the provider's rate limiter and breaker leave no fact: they count
    as working time here, so that a recovered run has rather less of it left than too much."""

    def __init__(self) -> None:
        self._wall = Stopwatch(0.0)
        self._working = Stopwatch(0.0)
        self._asking = 0
        self._running: set[str] = set()
        self._t = 0.0

    @property
    def wall(self) -> float:
        """Seconds without pauses."""
        return self._wall.seconds(self._t)

    @property
    def working(self) -> float:
        """Seconds without pauses, waits to ask the model again and waits for a person alone."""
        return self._working.seconds(self._t)

    def observe(self, event: Event) -> None:
        self._t = t = event.t
        if isinstance(event, Paused):
            self._wall.hold("pause", t)
            self._working.hold("pause", t)
        elif isinstance(event, Resumed):
            self._wall.release("pause", t)
            self._working.release("pause", t)
        elif isinstance(event, ModelRetried):
            self._working.hold("provider", t)
        elif isinstance(event, Held | ModelRequested | ModelFailed):
            self._working.release("provider", t)
        elif isinstance(event, ApprovalRequested):
            self._asking += 1
        elif isinstance(event, ApprovalResolved) and event.by != "earlier":
            self._asking -= 1
        elif isinstance(event, CallStarted):
            self._running.add(event.call_id)
        elif isinstance(event, CallEnded):
            self._running.discard(event.result.call_id)
        if self._asking > 0 and not self._running:
            self._working.hold("approval", t)
        else:
            self._working.release("approval", t)
