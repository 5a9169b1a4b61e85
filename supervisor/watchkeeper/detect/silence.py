"""Silence: no fact for too long while nothing with a deadline of its own is going on."""

from __future__ import annotations

from ..messages import (
    CallEnded,
    CallProposed,
    Event,
    Finding,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Paused,
    Resumed,
    RunEnding,
)


class Silence:
    """Follows what is going on. A call in flight has a deadline, so has a model request, a wait for a retry and a
    pause: until it has passed they are progress, however quiet. The actor asks :meth:`due` when to look again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = 0.0
        self._calls = 0
        self._busy = False
        self._last = 0

    def observe(self, event: Event) -> None:
        step = _STEPS.get(type(event))
        if step is not None:
            self._calls += step
        elif type(event) in _BUSY:
            self._busy = True
        elif type(event) in _FREE:
            self._busy = False

    def heard(self, event: Event) -> None:
        """The last of the facts that were observed."""
        self._since = event.t
        self._last = event.n

    def extend(self, seconds: float) -> None:
        """The watchdog itself came late by so much: that is not the run's silence."""
        self._since += seconds

    def due(self, t: float) -> float:
        """Seconds until it is worth looking; never less than a moment."""
        return max(self._since + self._seconds - t, 0.001)

    def judge(self, t: float) -> Finding | None:
        if self._busy or self._calls or t - self._since < self._seconds:
            return None
        return Finding(detector="silence", pattern=f"nothing for {t - self._since:.0f} s", count=1, onset=self._last)


_STEPS = {CallProposed: 1, CallEnded: -1}
_BUSY = frozenset({ModelRequested, ModelRetried, Paused, RunEnding})
_FREE = frozenset({ModelReplied, ModelFailed, Resumed})
