"""The engine port: where runs are submitted, journaled, watched and steered from outside. Protocols and frozen data.

The core knows no engine but this. An engine keeps runs beyond the process that executes them: whoever wants a run done
*submits* a :class:`RunSpec`; a worker takes a *lease*, one fenced attempt at the run, and appends what happens; anyone
may get, list, watch and send. ``journal`` holds the engines: in memory, and in SQLite.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from .errors import WatchkeeperError
from .messages import Event, Gap, GuardMode, Message, Mode, Outcome, Scope
from .states import State

PAGE = 100
"""Runs of a page of a list, unless it is asked for fewer; never more than ten times as many."""


class EngineError(WatchkeeperError):
    """An engine cannot do what it was asked to; the message names the thing, the place and the remedy. It is one of the
    kinds below, or what was asked for cannot be (another run has that id, there is no such command, …)."""


class Unavailable(EngineError):
    """It cannot do it now: it is busy, its disk is full, or it is closed. The same may be asked again."""


class Unusable(EngineError):
    """What it keeps the runs in is not to be used (damaged, deleted, not to be written to, of a newer version):
    somebody has to see to that first."""


class Fenced(EngineError):
    """Another attempt has taken the run over: nothing that this one appends counts any more."""


class Ended(EngineError):
    """The run at the top of the tree has its end record: nothing is appended to the tree any more."""


class UnknownRun(EngineError):
    """There is no run of that id."""


class UnknownBudget(EngineError):
    """Nobody has defined a shared budget of that name."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is to be run. ``agent`` names an entry point of the group ``watchkeeper.agents`` or an agent of the
    configuration; whoever executes runs knows what stands behind the name."""

    agent: str
    task: str
    limits: dict[str, Any] = {}
    """Fields of :class:`.Limits` that the run has otherwise than its agent."""
    labels: dict[str, str] = {}
    history: tuple[Message, ...] = ()
    continue_from: str = ""
    mode: GuardMode | None = None
    attended: bool | None = None
    code: str = ""
    """Version of the agent's code (``continuing.code_of``) with which the run may be executed; empty: the first
    attempt's. Recovery refuses another one, unless it is told to take any."""
    by: str = ""
    """Who has submitted it: the name of a token, or of a host."""
    budget: str = ""
    """Name of a shared budget (:class:`SharedLimits`) that the run and its sub-agents draw from, beside limits of their
    own. Empty: none."""


class RunStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run stands, as far as its facts are durable. Times are UTC in seconds since the epoch."""

    run: str
    spec: RunSpec
    state: State = "queued"
    parent: str = ""
    root: str = ""
    """The run at the top of its tree; itself, if it has no parent."""
    attempt: int = 0
    """How often it was leased; 0 while it waits in the queue."""
    worker: str = ""
    submitted: float = 0.0
    started: float | None = None
    ended: float | None = None
    n: int = 0
    """Number of its last fact."""
    turn: int = 0
    calls: int = 0
    """Calls that have ended."""
    doing: str = ""
    """What it does now, in a few words: ``model``, the tools that are at work, or empty."""
    refused: str = ""
    """Why the worker that has it does not execute it; empty: nothing is against it."""
    progress: float | None = None
    """When it last found something, changed something or said something to the user."""
    spent: dict[str, float] = {}
    limits: dict[str, float | None] = {}
    approvals: int = 0
    """Calls that wait for a yes or a no."""
    findings: int = 0
    outcome: Outcome | None = None
    """Without its history, which ``watch`` and the end record have."""


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs a list has. Newest first; ``before`` is the id of the last run of the page before."""

    states: tuple[State, ...] = ()
    """Empty: all."""
    agent: str = ""
    labels: dict[str, str] = {}
    parent: str | None = None
    """Children of that run; None: roots only; empty: all."""
    worker: str = ""
    before: str = ""
    limit: int = PAGE


class Page(msgspec.Struct, frozen=True):
    runs: tuple[RunStatus, ...]
    more: bool
    """There are older ones: ask again with ``before``."""


# -- what is sent to a run ---------------------------------------------------------------------------------------------


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    """Something that someone outside wants of a run. Durable before it has an effect; taken at most once each."""

    id: str = ""
    """Given by the sender; a second command of the same id is the same one. Empty: the engine gives one."""
    by: str = ""
    run: str = ""
    """Which run of the tree it is for; the engine says so, whatever the sender has written here."""


class Cancel(Command, frozen=True, kw_only=True, tag="cancel"):
    reason: str = "cancelled"
    mode: Mode = "now"


class HandOver(Command, frozen=True, kw_only=True, tag="hand_over"):
    reason: str = "asked"
    mode: Mode = "after_turn"


class Pause(Command, frozen=True, kw_only=True, tag="pause"):
    reason: str = "paused"
    seconds: float | None = None


class Resume(Command, frozen=True, kw_only=True, tag="resume"):
    reason: str = ""


class Steer(Command, frozen=True, kw_only=True, tag="steer"):
    text: str


class AddBudget(Command, frozen=True, kw_only=True, tag="add_budget"):
    """Raise limits of a run: ``amounts`` by dimension (``turns``, ``tokens``, ``money``, …), added to what there is."""

    amounts: dict[str, float]


class Approve(Command, frozen=True, kw_only=True, tag="approve"):
    approval: str
    arguments_hash: str
    scope: Scope = "once"
    pattern: dict[str, str | tuple[str, ...]] | None = None


class Deny(Command, frozen=True, kw_only=True, tag="deny"):
    approval: str
    reason: str = ""


AnyCommand = Cancel | HandOver | Pause | Resume | Steer | AddBudget | Approve | Deny


class Answered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a command."""

    id: str
    taken: bool
    """The run has taken it; false: refused, and ``why`` says why (the run has ended, no such approval …)."""
    why: str = ""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has of a shared budget, and how that stands, each by dimension."""

    has: dict[str, float]
    """Granted to the run so far, what it has spent of it included."""
    left: dict[str, float]
    """Granted to nobody."""
    holds: dict[str, float]
    """What the budget holds in all; other dimensions have no limit there."""


# -- the port ----------------------------------------------------------------------------------------------------------


class Lease(Protocol):
    """One fenced attempt at a run and its sub-agents: a run tree never leaves its worker."""

    run: str
    attempt: int
    spec: RunSpec
    crashes: int
    """How many attempts before this one have died in a row without a new journal entry (``journal.keys``)."""

    @property
    def lost(self) -> bool:
        """Another attempt has it, or the engine is gone: start nothing that has an effect outside."""
        ...

    def facts(self, run: str | None = None) -> AsyncIterator[Event]:
        """The durable facts of the attempts before, of this run or of a sub-agent's, from number 1 on."""
        ...

    async def children(self) -> Sequence[RunStatus]:
        """The sub-agents of the attempts before, at any depth, oldest first."""
        ...

    async def append(self, events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
        """Make facts of this run or its sub-agents durable: journal entries (see ``journal.keys``), events and what is
        charged to shared budgets, in one transaction. Numbers go on without gaps; a fact that is there already is not
        written twice. ``charges`` are amounts by ``BUDGET/DIMENSION``, below 0 where less was spent than was held;
        those of a batch whose facts are all there already are not charged twice, so whoever is not sure appends the
        same batch again. Returns when it is durable.

        Raises :class:`Fenced`, and nothing else that a sound caller has to expect; a full disk is :class:`EngineError`,
        and the same facts may be appended again. Legal until the end record (``RunEnded`` of the root), also after a
        cancel. On cancellation the facts may be durable or not: append them again.
        """
        ...

    async def grant(self, budget: str, amounts: Mapping[str, float]) -> Slice:
        """Take up to so much of what is left of each dimension of a shared budget, for this run; it may be nothing.
        Atomic and durable. The first grant of an attempt takes back what those before it were granted and had not
        charged, and :meth:`release` what this one has not. Raises :class:`UnknownBudget` and :class:`Fenced`."""
        ...

    async def settle(self, command: AnyCommand, answer: Answered) -> None:
        """Say what became of a command."""
        ...

    def commands(self) -> AsyncIterator[AnyCommand]:
        """What is sent to the run and its sub-agents (``Command.run``) and not settled yet, oldest first, those sent
        before the lease included, each once; ends with the lease."""
        ...

    async def refuse(self, why: str) -> None:
        """Say in the status of the run that it is not executed here, and why; until the next attempt. Raises
        :class:`Fenced`."""
        ...

    async def release(self, *, suspended: bool = False) -> None:
        """Give the run back. ``suspended``: it is to go on with another attempt (a worker drains); else it has its end
        record. Releasing twice changes nothing."""
        ...


class BudgetStanding(msgspec.Struct, frozen=True):
    """How a shared budget stands; amounts by dimension."""

    name: str
    holds: dict[str, float]
    """What it holds in all."""
    left: dict[str, float]
    """What of that is granted to nobody; below 0 where it holds less now than was granted."""


class SharedLimits(Protocol):
    """Budgets shared by runs of several workers, which get slices of them with :meth:`Lease.grant`."""

    async def define(self, budget: str, amounts: Mapping[str, float]) -> None:
        """Say what a budget holds in all, by dimension. What was granted of it already stays granted, also where that
        is more than it holds now."""
        ...

    async def left(self, budget: str) -> dict[str, float]:
        """What is granted to nobody. Raises :class:`UnknownBudget`."""
        ...

    async def standing(self) -> Sequence[BudgetStanding]:
        """How all of them stand, by name: those too that are defined no more, for the runs that have them."""
        ...


class Engine(Protocol):
    """Open it with ``async with``; everything else raises :class:`EngineError` outside of that."""

    @property
    def limits(self) -> SharedLimits: ...

    async def __aenter__(self) -> Engine: ...

    async def __aexit__(self, *exc_info: object) -> bool | None: ...

    async def submit(self, spec: RunSpec, *, run: str = "") -> RunStatus:
        """Queue a run; durable when it returns. ``run`` is its id and the idempotency key: the same id with an equal
        spec gives the run that is there; with another spec it is an :class:`EngineError`. Raises
        :class:`UnknownBudget` for the name of a shared budget that nobody has defined."""
        ...

    async def get(self, run: str) -> RunStatus:
        """Raises :class:`UnknownRun`."""
        ...

    async def list(self, query: Query) -> Page: ...

    async def cancel(
        self, run: str, reason: str = "cancelled", mode: Mode = "now", *, by: str = "", id: str = ""
    ) -> None:
        """Durable first, hint second: also a run that nobody executes is cancelled. One that was never leased ends at
        once. Idempotent; on a run that has ended it changes nothing. Raises :class:`UnknownRun`."""
        ...

    async def send(self, run: str, command: AnyCommand) -> str:
        """Durable when it returns; the id of the command. Raises :class:`UnknownRun`."""
        ...

    async def answered(self, run: str, command: str) -> Answered:
        """Wait until the command is taken or refused; a command to a run that has ended is refused. Raises
        :class:`UnknownRun`, and :class:`EngineError` if the run was never sent a command of that id."""
        ...

    def watch(self, run: str, after: int = 0) -> AsyncIterator[Event | Gap]:
        """The durable facts from behind number ``after``: those that are there, then live ones; ends with the run. What
        retention has deleted comes first as one :class:`.Gap`. Raises :class:`UnknownRun`."""
        ...

    def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        """Runs to execute, as long as ``capacity()`` is above 0: first those whose attempt has died, then the queue in
        order. One iterator for each worker; leaving it takes no lease back. A second one of the same worker says that
        the first is gone: its leases are lost, and given out again. After an :class:`EngineError` the same iterator
        may be asked again."""
        ...
