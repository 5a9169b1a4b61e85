"""How a run stands, as a fold over its durable facts. Pure.

An engine keeps a :class:`Standing` beside the facts and stores it with each append, so that ``get`` and ``list`` read
one row and never a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..engine import RunSpec, RunStatus
from ..finishing import after
from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallStarted,
    CancelRequested,
    ChildEnded,
    Event,
    FindingMade,
    LimitsRaised,
    ModelFailed,
    ModelPartialDropped,
    ModelReplied,
    ModelRequested,
    Outcome,
    Paused,
    Reminded,
    Resumed,
    RunEnded,
    RunEnding,
    RunStarted,
    Settled,
    TurnStarted,
)
from ..states import State

TOOLS = 8
"""Tools that are named in what a run does now; of more, how many."""


class Standing(msgspec.Struct, omit_defaults=True):
    """What the facts of one run come to so far. ``see`` takes the next one; encodes to JSON and back."""

    run: str
    root: str
    parent: str = ""
    state: State = "queued"
    started: float | None = None
    ended: float | None = None
    n: int = 0
    turn: int = 0
    calls: int = 0
    progress: float | None = None
    spent: dict[str, float] = {}
    limits: dict[str, float | None] = {}
    findings: int = 0
    outcome: Outcome | None = None
    asking: bool = False
    """A model request is open."""
    at_work: dict[str, tuple[str, bool]] = {}
    """By its id each call that is at work: its tool, and whether it may write."""
    waiting: list[str] = []
    """Approvals that are waited for."""
    finishing: str | None = None
    """The limit that is near, for which it finishes: turns count no more."""
    refused: str = ""
    """Why the worker that has it does not execute it."""

    def see(self, event: Event) -> None:
        self.n = event.n
        if event.turn > self.turn:
            self.turn = event.turn
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)

    def interrupted(self) -> None:
        """The attempt is over: nothing is at work any more. What waits for an answer still does."""
        self.asking, self.refused = False, ""
        self.at_work = {}

    def doing(self) -> str:
        if self.outcome is not None:
            return ""
        tools = list(dict.fromkeys(tool for tool, _ in self.at_work.values()))
        shown = tools[:TOOLS] + ([f"{len(tools) - TOOLS} more"] if len(tools) > TOOLS else [])
        return ", ".join((["model"] if self.asking else []) + shown)

    def status(self, spec: RunSpec, *, attempt: int = 0, worker: str = "", submitted: float = 0.0) -> RunStatus:
        """The public view."""
        return RunStatus(
            run=self.run,
            spec=spec,
            state=self.state,
            parent=self.parent,
            root=self.root,
            attempt=attempt,
            worker=worker,
            submitted=submitted,
            started=self.started,
            ended=self.ended,
            n=self.n,
            turn=self.turn,
            calls=self.calls,
            doing=self.doing(),
            refused=self.refused,
            progress=self.progress,
            spent=dict(self.spent),
            limits=dict(self.limits),
            approvals=len(self.waiting),
            findings=self.findings,
            outcome=self.outcome,
        )

    def _started(self, event: RunStarted) -> None:
        if self.state == "queued":
            self.state = "running"
        self.started = event.at
        self.limits = event.limits

    def _requested(self, event: ModelRequested) -> None:
        self.asking = True

    def _answered(self, event: Event) -> None:
        self.asking = False

    def _replied(self, event: ModelReplied) -> None:
        self.asking = False
        if event.stored and event.text:
            self.progress = event.at

    def _turn_started(self, event: TurnStarted) -> None:
        if self.finishing is None:
            self._add({"turns": 1})

    def _finish(self, event: Reminded | LimitsRaised) -> None:
        self.finishing = after(self.finishing, event)

    def _call_started(self, event: CallStarted) -> None:
        if event.attempt == 1:
            by_tool = f"calls:{event.tool}"
            self._add({"calls": 1, by_tool: 1} if by_tool in self.limits else {"calls": 1})
        self.at_work[event.call_id] = (event.tool, bool(event.idempotency_key))

    def _call_ended(self, event: CallEnded) -> None:
        self.calls += 1
        result = event.result
        _, wrote = self.at_work.pop(result.call_id, ("", False))
        if result.productive or (wrote and result.kind == "finished"):
            self.progress = event.at

    def _settled(self, event: Settled) -> None:
        self._add(event.amounts)

    def _child_ended(self, event: ChildEnded) -> None:
        self._add(event.spent)

    def _add(self, amounts: dict[str, float]) -> None:
        for name, more in amounts.items():
            self.spent[name] = self.spent.get(name, 0) + more

    def _found(self, event: FindingMade) -> None:
        self.findings += 1

    def _approval_requested(self, event: ApprovalRequested) -> None:
        if event.approval not in self.waiting:
            self.waiting = [*self.waiting, event.approval]

    def _approval_resolved(self, event: ApprovalResolved) -> None:
        if event.approval in self.waiting:
            self.waiting = [one for one in self.waiting if one != event.approval]

    def _paused(self, event: Paused) -> None:
        if self.state == "running":
            self.state = "paused"

    def _resumed(self, event: Resumed) -> None:
        if self.state == "paused":
            self.state = "running"

    def _cancel_requested(self, event: CancelRequested) -> None:
        if self.state in ("queued", "running", "paused"):
            self.state = "cancelling"

    def _ending(self, event: RunEnding) -> None:
        self.state = "ending"
        self.waiting = []

    def _ended(self, event: RunEnded) -> None:
        self.state = "ended"
        self.ended = event.at
        self.outcome = msgspec.structs.replace(event.outcome, history=())
        if event.outcome.spent:
            self.spent = dict(event.outcome.spent)
        self.interrupted()
        self.waiting = []


def spec_of(first: Event, root: RunSpec) -> RunSpec:
    """The specification of a sub-agent, which nobody has submitted: what its first fact says, in its root's name."""
    agent, task = (first.agent, first.task) if isinstance(first, RunStarted) else ("", "")
    return RunSpec(agent=agent, task=task, labels=root.labels, code=root.code, by=root.by)


_FOLDS: dict[type[Event], Callable[[Standing, Any], None]] = {
    RunStarted: Standing._started,
    ModelRequested: Standing._requested,
    ModelReplied: Standing._replied,
    ModelFailed: Standing._answered,
    ModelPartialDropped: Standing._answered,
    TurnStarted: Standing._turn_started,
    Reminded: Standing._finish,
    LimitsRaised: Standing._finish,
    CallStarted: Standing._call_started,
    CallEnded: Standing._call_ended,
    Settled: Standing._settled,
    ChildEnded: Standing._child_ended,
    FindingMade: Standing._found,
    ApprovalRequested: Standing._approval_requested,
    ApprovalResolved: Standing._approval_resolved,
    Paused: Standing._paused,
    Resumed: Standing._resumed,
    CancelRequested: Standing._cancel_requested,
    RunEnding: Standing._ending,
    RunEnded: Standing._ended,
}
