"""The facts of a run that ends without an attempt at it: cancelled before anybody took it, or lost. Pure."""

from __future__ import annotations

from ..engine import RunSpec
from ..messages import CancelRequested, Event, Mode, Outcome, RunEnded, RunEnding

MESSAGE = "The run was cancelled while it waited in the queue; nothing was done."
LOST = "journal_lost"
LOST_MESSAGE = (
    "The file that had the facts of the run was deleted or replaced. What the run had done is not known; "
    "nothing of it was done again."
)


def cancelled(run: str, spec: RunSpec, reason: str, mode: Mode, at: float) -> tuple[Event, ...]:
    """From the request to the end record: an outcome with the conversation that it was given."""
    outcome = Outcome(run=run, status="cancelled", reason=reason, message=MESSAGE, history=spec.history)
    return (
        CancelRequested(n=1, run=run, at=at, t=0.0, mode=mode, reason=reason),
        RunEnding(n=2, run=run, at=at, t=0.0, status="cancelled", reason=reason),
        RunEnded(n=3, run=run, at=at, t=0.0, outcome=outcome),
    )


def lost(run: str, spec: RunSpec, at: float) -> tuple[Event, ...]:
    """Of one whose facts are gone: anything may have been done, so nothing is done again."""
    outcome = Outcome(run=run, status="failed", reason=LOST, message=LOST_MESSAGE, history=spec.history)
    return (
        RunEnding(n=1, run=run, at=at, t=0.0, status="failed", reason=LOST),
        RunEnded(n=2, run=run, at=at, t=0.0, outcome=outcome),
    )
