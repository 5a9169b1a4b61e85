"""Which calls of a run wait for a yes or a no: a fold over its facts, and the entries of the inbox. Pure."""

from __future__ import annotations

import hashlib

import msgspec

from ..engine import RunStatus
from ..messages import ApprovalRequested, ApprovalResolved, Event, RunEnded

LONGEST = 65_536
"""Characters of the arguments of an entry; the run's events have all of them."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A call, or an answer (``call`` and ``tool`` are then empty), that waits. Times are UTC in seconds.

    ``arguments`` are as they stand in the facts: without secrets, for facts have none. ``exact`` says whether these are
    the very bytes that would be run, which ``arguments_hash`` (SHA-256) is of; if not, secrets were cut out of them, or
    they are longer than an entry. The exact ones never leave the process that executes the run.
    """

    approval: str
    run: str
    agent: str
    task: str
    call: str
    tool: str
    arguments: str
    arguments_hash: str
    exact: bool
    why: str
    by: tuple[str, ...]
    asked: float
    expires: float


class Pending:
    """A fold over the facts of one run: its approvals that are open, oldest first."""

    def __init__(self) -> None:
        self._open: dict[str, ApprovalRequested] = {}

    def observe(self, event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            self._open[event.approval] = event
        elif isinstance(event, ApprovalResolved):
            self._open.pop(event.approval, None)
        elif isinstance(event, RunEnded):
            self._open.clear()

    def waiting(self, status: RunStatus) -> list[Waiting]:
        return [_entry(event, status) for event in self._open.values()]


def _entry(event: ApprovalRequested, status: RunStatus) -> Waiting:
    shown = event.arguments[:LONGEST]
    return Waiting(
        approval=event.approval,
        run=event.run,
        agent=status.spec.agent,
        task=status.spec.task[:LONGEST],
        call=event.call_id,
        tool=event.tool,
        arguments=shown,
        arguments_hash=event.arguments_hash,
        exact=hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest() == event.arguments_hash,
        why=event.why,
        by=event.by,
        asked=event.at,
        expires=event.at + event.seconds,
    )
