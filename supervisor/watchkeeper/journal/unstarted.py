"""The facts of a run that was cancelled before anybody took it. Pure."""

from __future__ import annotations

from ..engine import RunSpec
from ..messages import CancelRequested, Event, Mode, Outcome, RunEnded, RunEnding

MESSAGE = "The run was cancelled while it waited in the queue; nothing was done."


def cancelled(run: str, spec: RunSpec, reason: str, mode: Mode, at: float) -> tuple[Event, ...]:
    """From the request to the end record: an outcome with the conversation that it was given."""
    outcome = Outcome(run=run, status="cancelled", reason=reason, message=MESSAGE, history=spec.history)
    return (
        CancelRequested(n=1, run=run, at=at, t=0.0, mode=mode, reason=reason),
        RunEnding(n=2, run=run, at=at, t=0.0, status="cancelled", reason=reason),
        RunEnded(n=3, run=run, at=at, t=0.0, outcome=outcome),
    )
