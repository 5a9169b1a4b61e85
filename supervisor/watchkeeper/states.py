"""The states of a run and the transitions between them, as one table."""

from __future__ import annotations

from typing import Literal

State = Literal["queued", "running", "pausing", "paused", "cancelling", "ending", "ended"]

TRANSITIONS: dict[State, frozenset[State]] = {
    "queued": frozenset({"running", "cancelling", "ending"}),
    "running": frozenset({"pausing", "cancelling", "ending"}),
    "pausing": frozenset({"paused", "running", "cancelling", "ending"}),
    "paused": frozenset({"running", "cancelling", "ending"}),
    "cancelling": frozenset({"ending"}),
    "ending": frozenset({"ended"}),
    "ended": frozenset(),
}
"""From each state to those that may follow. ``pausing``: asked to pause, the turn's calls still run."""


def move(state: State, to: State) -> State:
    """The new state. Raises ``ValueError`` for a transition that is not in the table: a defect of ours."""
    if to not in TRANSITIONS[state]:
        raise ValueError(f"a run cannot go from {state} to {to}")
    return to


def can_move(state: State, to: State) -> bool:
    return to in TRANSITIONS[state]
