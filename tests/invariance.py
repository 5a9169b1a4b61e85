"""Every run of every test is held to the invariants: it is looked through when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watchkeeper import Event, Run, Supervisor, orphans
from watchkeeper.messages import CallStarted
from watchkeeper.testing.invariants import violations, violations_of

MOST = 20_000
"""Facts of a log up to which it is looked through: the few longer ones are of tests about speed and memory."""

found: list[str] = []
"""What runs have broken since the list was cleared."""

_drive = Supervisor._drive
_end = orphans._end


async def _looked_through(self: Supervisor, run: Run) -> None:
    try:
        await _drive(self, run)
    finally:
        look_through(run)


def look_through(run: Run) -> None:
    """Also one that an engine keeps: its log has the facts of all attempts."""
    if run.log.n <= MOST:
        found.extend(f"run {run.id} of {run.agent.name}: {violation}" for violation in violations_of(run))


def _ended(run: str, parent: str, facts: Sequence[Event], *more: Any) -> Any:
    """Nobody executes it any more, so no handle shows it. What its tools are is not known here."""
    made, end = _end(run, parent, facts, *more)
    if made and len(facts) <= MOST:
        tools = {event.tool for event in facts if isinstance(event, CallStarted)}
        found.extend(f"run {run}, ended: {violation}" for violation in violations([*facts, *made], idempotent=tools))
    return made, end


def install() -> None:
    Supervisor._drive = _looked_through  # type: ignore[method-assign]  # in every test
    orphans._end = _ended
