"""What was going on when an attempt at a run was broken off, as a fold over its facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    Event,
    EvidenceFound,
    Held,
    LimitsRaised,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Overrun,
    Paused,
    PushedBack,
    Recovered,
    Resumed,
    RunEnded,
    RunEnding,
    RunStarted,
    Settled,
    Stopped,
    Suspended,
    TurnStarted,
    UserMessage,
)
from ..occurrences import Starts, Unfinished
from .times import Times

MOST_CRASHES = 3
"""Attempts in a row that die without a new record, after which the run goes to a person: once is an accident, twice may
be one, and each further attempt takes the worker's other runs down with it."""


OUTCOME_UNKNOWN = "outcome_unknown"
"""Error of a call that may have had its effect in an attempt that died, and was not run again."""


class Begun:
    """A call without a result."""

    __slots__ = ("admitted", "attempts", "slot", "started", "tool", "turn")

    def __init__(self, event: CallProposed) -> None:
        self.tool = event.tool
        self.turn = event.turn
        self.slot = event.slot
        self.admitted = False
        self.attempts = 0
        self.started = 0
        """Number of its last ``CallStarted``; 0: it never ran."""


class Question:
    """A call, or an answer, that needed approval, and what became of it."""

    __slots__ = ("request", "resolved")

    def __init__(self, request: ApprovalRequested) -> None:
        self.request = request
        self.resolved: ApprovalResolved | None = None


class Past:
    """The facts of the attempts before, put together. Feed it all of them, in order."""

    def __init__(self, facts: Iterable[Event] = ()) -> None:
        self.started: RunStarted | None = None
        self.ended = False
        self.ending: RunEnding | None = None
        self.stopped: Stopped | None = None
        self.cancels: list[CancelRequested] = []
        self.paused: list[Paused] = []
        """Since the last ``Resumed``; the first one began the pause."""
        self.holds: dict[str, Held] = {}
        """Those that are open."""
        self.overrun = False
        self.open: dict[str, Begun] = {}
        """Calls without a result, by id."""
        self.ran: set[str] = set()
        """Ids of all calls that were ever started."""
        self.asked: dict[str, list[Question]] = {}
        """Approvals by call id, oldest first; those of answers under the empty one."""
        self.keys: list[str] = []
        """All idempotency keys that were given."""
        self.productive: list[str] = []
        """Productive calls that no ``EvidenceFound`` names yet."""
        self.children: dict[str, ChildStarted] = {}
        """Sub-agents of which no end is known here."""
        self.spawned_by: dict[str, set[str]] = {}
        """Sub-agents by the call that started them, ended or not."""
        self.spawned = 0
        self.commands: set[str] = set()
        """Commands that were taken, as far as taking them twice would count twice."""
        self.acted: set[int] = set()
        """Numbers of the replies whose calls came to the executor."""
        self.fruitless = 0
        """Attempts in a row without a new record, the last one included."""
        self.n = 0
        self.t = 0.0
        self.times = Times()
        self.admitted: set[str] = set()
        self.turned_away: dict[str, str | None] = {}
        """Calls that got a result without being admitted, and by whom."""
        self.confirmed = False
        """The end of a cancel is in the log."""
        self._given_up: set[str] = set()
        self._starts = Starts()
        self._asking_model = False
        self._reply: ModelReplied | None = None
        self._proposed = False
        self._folds: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._run_started,
            Recovered: self._recovered,
            RunEnding: self._run_ending,
            RunEnded: self._run_ended,
            Stopped: self._was_stopped,
            CancelRequested: self.cancels.append,
            CancelConfirmed: self._cancel_confirmed,
            Paused: self.paused.append,
            Resumed: self._resumed,
            Held: self._held,
            Settled: self._settled,
            Overrun: self._overran,
            TurnStarted: self._turn_started,
            ModelRequested: self._asks_model,
            ModelRetried: self._model_spoke,
            ModelFailed: self._model_spoke,
            ModelReplied: self._replied,
            CallProposed: self._call_proposed,
            CallAdmitted: self._call_admitted,
            CallStarted: self._call_started,
            CallEnded: self._call_ended,
            EvidenceFound: self._evidence_found,
            ApprovalRequested: self._approval_requested,
            ApprovalResolved: self._approval_resolved,
            ChildStarted: self._child_started,
            ChildEnded: self._child_ended,
            UserMessage: self._user_spoke,
            LimitsRaised: self._limits_raised,
        }
        for event in facts:
            self.observe(event)

    def observe(self, event: Event) -> None:
        self.n, self.t = event.n, event.t
        self.times.observe(event)
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(event)
        if isinstance(event, RECORDS):
            self.fruitless = 0

    # -- what follows from it ----------------------------------------------------------------------------------------

    @property
    def unknown(self) -> tuple[Unfinished, ...]:
        """Writing calls that were under way, and those that an earlier recovery has given up as unknown."""
        return tuple(
            one for one in self._starts.unfinished if one.call_id in self.open or one.call_id in self._given_up
        )

    @property
    def waits(self) -> bool:
        """It did nothing but wait for a person."""
        pending = any(one.resolved is None for asked in self.asked.values() for one in asked)
        at_work = self._asking_model or any(call.started for call in self.open.values())
        return bool(self.paused) or (pending and not at_work)

    @property
    def crashes(self) -> bool:
        """It has died too often without getting any further."""
        return self.fruitless >= MOST_CRASHES and not self.waits

    def counts(self, call_id: str) -> bool:
        """Whether a call that was admitted counts in the budget: one that was asked about does if it ran; one that has
        no result yet is admitted, and counted, anew."""
        return call_id not in self.open and (call_id not in self.asked or call_id in self.ran)

    # -- the fold ----------------------------------------------------------------------------------------------------

    def _run_started(self, event: RunStarted) -> None:
        self.started, self.fruitless = event, 1

    def _recovered(self, event: Recovered) -> None:
        self.fruitless += 1
        self._asking_model = False

    def _run_ending(self, event: RunEnding) -> None:
        self.ending = event

    def _run_ended(self, event: RunEnded) -> None:
        self.ended = True

    def _was_stopped(self, event: Stopped) -> None:
        self.stopped = self.stopped or event

    def _cancel_confirmed(self, event: CancelConfirmed) -> None:
        self.confirmed = True

    def _resumed(self, event: Resumed) -> None:
        self.paused.clear()

    def _held(self, event: Held) -> None:
        self.holds[event.held] = event

    def _settled(self, event: Settled) -> None:
        self.holds.pop(event.held, None)

    def _overran(self, event: Overrun) -> None:
        self.overrun = True

    def _turn_started(self, event: TurnStarted) -> None:
        if self._reply is not None and self._proposed:
            self.acted.add(self._reply.n)
        self._reply, self._proposed = None, False

    def _asks_model(self, event: ModelRequested) -> None:
        self._asking_model = True

    def _model_spoke(self, event: Event) -> None:
        self._asking_model = False

    def _replied(self, event: ModelReplied) -> None:
        self._asking_model, self._reply = False, event

    def _acts(self) -> None:
        if self._reply is not None:
            self.acted.add(self._reply.n)

    def _call_proposed(self, event: CallProposed) -> None:
        self._proposed = True
        self.open[event.call_id] = Begun(event)

    def _call_admitted(self, event: CallAdmitted) -> None:
        self._acts()
        self.open[event.call_id].admitted = True
        self.admitted.add(event.call_id)

    def _call_started(self, event: CallStarted) -> None:
        call = self.open[event.call_id]
        call.started = event.n
        call.attempts += 1
        self.ran.add(event.call_id)
        if event.idempotency_key:
            self.keys.append(event.idempotency_key)
        self._starts.folds[CallStarted](event)

    def _call_ended(self, event: CallEnded) -> None:
        result = event.result
        if result.kind != "not_run":
            self._acts()
        self.open.pop(result.call_id, None)
        if result.call_id not in self.admitted:
            self.turned_away[result.call_id] = result.by
        if result.error == OUTCOME_UNKNOWN:
            self._given_up.add(result.call_id)
        if result.productive:
            self.productive.append(result.call_id)
        self._starts.folds[CallEnded](event)

    def _evidence_found(self, event: EvidenceFound) -> None:
        self.productive = [call for call in self.productive if call not in event.calls]

    def _approval_requested(self, event: ApprovalRequested) -> None:
        self.asked.setdefault(event.call_id, []).append(Question(event))

    def _approval_resolved(self, event: ApprovalResolved) -> None:
        for one in self.asked.get(event.call_id, ()):
            if one.request.approval == event.approval:
                one.resolved = event

    def _child_started(self, event: ChildStarted) -> None:
        self.children[event.child] = event
        if event.call_id:
            self.spawned_by.setdefault(event.call_id, set()).add(event.child)
        self.spawned += 1

    def _child_ended(self, event: ChildEnded) -> None:
        self.children.pop(event.child, None)

    def _user_spoke(self, event: UserMessage) -> None:
        if event.command:
            self.commands.add(event.command)
        if event.source == "steer":
            self.fruitless = 0

    def _limits_raised(self, event: LimitsRaised) -> None:
        if event.command:
            self.commands.add(event.command)


RECORDS = (ModelReplied, CallEnded, PushedBack, ApprovalResolved, Resumed, LimitsRaised, Suspended)
"""Facts by which an attempt has got further than the one before it."""
