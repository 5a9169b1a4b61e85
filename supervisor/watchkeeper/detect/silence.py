"""Silence: no fact for too long while nothing with a deadline of its own is going on."""

from __future__ import annotations

from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallProposed,
    Event,
    Finding,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    OpinionAsked,
    OpinionGiven,
    Paused,
    Resumed,
    RunEnding,
    TurnStarted,
)


class Silence:
    """Follows what is going on. A call in flight has a deadline, so has a model request, a second opinion, a wait
    for a person or a retry and a pause: until it has passed they are progress, however quiet."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._calls = 0
        self._flags = {"model": False, "opinion": False, "person": False, "pause": False}
        self._last = 0
        self._late = 0.0

    def observe(self, event: Event) -> None:
        self._late = 0.0
        change = _CHANGES.get(type(event))
        if change is not None:
            what, step = change
            if what == "calls":
                self._calls += step
            else:
                self._flags[what] = step > 0
        self._last = event.n

    def extend(self, seconds: float) -> None:
        """Whoever looks came late by so much: the loop was blocked, the others could not speak either."""
        self._late += seconds

    def due(self, last: float, t: float) -> float:
        """Seconds from ``t`` until it is worth looking, if the last fact was at ``last``; never less than a moment,
        and not before another while if something with a deadline is going on."""
        least = self.seconds if self._calls or any(self._flags.values()) else 0.001
        return max(last + self.seconds + self._late - t, least)

    def judge(self, last: float, t: float) -> Finding | None:
        quiet = t - last - self._late
        if self._calls or any(self._flags.values()) or quiet < self.seconds:
            return None
        return Finding(detector="silence", pattern=f"nothing for {quiet:.0f} s", count=1, onset=self._last)


_CHANGES: dict[type[Event], tuple[str, int]] = {
    CallProposed: ("calls", 1),
    CallEnded: ("calls", -1),
    # A turn begins with waiting for the provider, whose deadline is the run's.
    **dict.fromkeys((TurnStarted, ModelRequested, ModelRetried), ("model", 1)),
    **dict.fromkeys((ModelReplied, ModelFailed), ("model", 0)),
    OpinionAsked: ("opinion", 1),
    OpinionGiven: ("opinion", 0),
    ApprovalRequested: ("person", 1),  # about an answer; one about a call is a part of the call
    ApprovalResolved: ("person", 0),
    Paused: ("pause", 1),
    Resumed: ("pause", 0),
    RunEnding: ("pause", 1),
}
"""By kind of fact: what goes on with a deadline of its own, and whether there is more or less of it."""
