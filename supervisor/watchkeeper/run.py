"""The handle of a run: watch it, steer it, pause it, cancel it, from the loop or from any thread."""

from __future__ import annotations

import concurrent.futures
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.streams.memory
import msgspec

from . import failures, states
from .agent import Agent
from .approvals import Approval, Approvals, Scope
from .attempt import Attempt, Broken
from .budget import Budget
from .detect.handover import Work
from .errors import RunEndedError
from .guards.evidence import Evidence
from .guards.rule import Pattern
from .history import OPEN, History
from .ladder import GuardMode
from .ledger import Ledger
from .log import Gap, Log, Reader
from .memory.offer import may_recall
from .messages import (
    Blocked,
    Call,
    CallEnded,
    CallProposed,
    CancelRequested,
    Event,
    LimitsRaised,
    Message,
    Mode,
    Nudged,
    Outcome,
    Paused,
    Result,
    Resumed,
    Status,
    Stopped,
    Suspended,
    Unverified,
    Verdict,
)
from .model import CallDelta, TextDelta
from .occurrences import Unfinished
from .profiles import DIMENSIONS, Limits
from .recovery.past import OUTCOME_UNKNOWN, Past
from .seams import Seams
from .states import State
from .stopwatch import Stopwatch, Timed
from .threadsafe import FromThreads, check_cancel, check_pause, check_steer
from .tools import Tool
from .wording import Told

if TYPE_CHECKING:
    from .actors.agent import AgentActor
    from .actors.executor import Executor
    from .actors.watchdog import Watchdog
    from .continuing import Continuation
    from .detect.judge import Judge
    from .locks import Grip
    from .memory.recollection import Recollection
    from .supervisor import Supervisor
    from .supply import Supply

T = TypeVar("T")

MODES: tuple[Mode, ...] = ("after_turn", "now", "kill")
UNWRITABLE = "journal"
"""With which the reason of a pause begins that is due to a journal which cannot be written."""
BACK = f"the {UNWRITABLE} can be written again"
TIMED = ("seconds", "working_seconds")
"""Limits of time: the run's own, and none of its budget."""
AFTER_TURN = 120.0
"""Seconds that a turn gets to end after ``cancel(mode="after_turn")`` before it becomes ``now``."""


class Said(NamedTuple):
    """What a user has said, and by which command where it came from outside the process."""

    text: str
    command: str = ""


class Ending(msgspec.Struct, frozen=True):
    """Why and how a run is to end. The first one counts; only its mode may be raised later."""

    status: Status
    reason: str
    answer: str | None = None
    forced: bool = False
    value: Any = None
    unverified: tuple[Unverified, ...] = ()
    cause: str | None = None
    verdict: Verdict | None = None


class Run:
    """A run under supervision, made by ``Supervisor.start``. All but ``threadsafe`` belongs to its loop."""

    def __init__(
        self,
        supervisor: Supervisor,
        agent: Agent,
        task: str,
        *,
        run_id: str,
        seams: Seams,
        budget: Budget,
        parent: Run | None,
        history: Sequence[Message],
        keep: int,
        grips_above: frozenset[Grip],
        within: tuple[Tool, ...] = (),
        guard_mode: GuardMode | None = None,
        attended: bool | None = None,
        unfinished: Sequence[Unfinished] = (),
    ) -> None:
        self.id = run_id
        self.attempt = Attempt()
        self.supply: Supply | None = None
        """Of a root, who gets slices of the shared budget that it draws from, if it does."""
        self.supervisor = supervisor
        self.agent = agent
        redaction = supervisor.redaction.and_of(agent.secrets)
        self.task = redaction.text(task)
        self.opening = self.task
        """What the user says first: the task, or what it is continued with."""
        self.continues: Continuation | None = None
        """The run that this one continues."""
        self.limits_given = agent.limits
        """The limits as they were before it was known what is left of them."""
        self.took = 0.0
        """Its time without pauses, at its end."""
        self.parent = parent
        self.root: Run = parent.root if parent is not None else self
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.tree = self.root.id
        self.seams = seams
        self.budget = budget
        self.drawn = budget
        """What it draws from now: its budget, or that of a step of its plan."""
        self.grips_above: frozenset[Grip] = grips_above
        self.within = within
        """The tools of the calls within which it was started, outermost first."""
        self.mode_given: GuardMode | None = guard_mode or (parent.mode_given if parent is not None else None)
        """The mode that the run or one above it was started in; None: as the profile has it."""
        self.guard_mode: GuardMode = self.mode_given or agent.profile.mode
        self.attended: bool = agent.profile.attended and parent is None if attended is None else attended
        self.hands_over = agent.profile.on_stop == "hand_over" and parent is None
        """Where it would be stopped it goes to a person."""
        self.work = Work()
        """What it does, as one digest, for the detectors of its parent."""
        self.children: list[Run] = []
        self.descendants = 0
        """Sub-agents ever started under this run, if it is a root."""
        self.log: Log = Log(
            run_id, seams, parent=parent.id if parent is not None else None, keep=keep, redaction=redaction
        )
        self.ledger = Ledger()
        label = supervisor.wording.tool_output if agent.profile.mark_output else None
        self.memory: Recollection | None = None
        self.recalls = agent.memory is not None or may_recall(agent.tools)
        """The model may ask for what its view leaves out."""
        shortened = partial(supervisor.wording.shortened, recall=self.recalls)
        self.history = History(map(redaction.anything, history), label, shortened)
        self.evidence = Evidence(agent.required, agent.required_any, agent.fresh)
        self.log.attach(self.ledger)
        self.log.attach(self.history)
        self.log.rest_on(self.history)
        self.log.attach(self.evidence)
        self.unfinished = tuple(unfinished)
        self.approver = supervisor.approver
        self.asking = Approvals(
            run_id,
            agent.name,
            self.task,
            self.log.append,
            always=supervisor.approved,
            seconds=agent.limits.approval,
            clock=seams.clock,
            new_id=seams.new_id,
            somebody=lambda: self.approver is not None or self.is_attended(),
            clean=redaction.within,
        )
        self.state: State = "queued"
        self.outcome: Outcome | None = None
        self.detail = ""
        self.step = ""
        """The step of a plan that is being done, in words; whoever makes the plan sets it."""
        self.steers: list[Said] = []
        self.ending: Ending | None = None
        self.mode: Mode | None = None
        self.ends_as: Status = "cancelled"
        """What a request from outside ends it as."""
        self.stopping_after_turn: str | None = None
        self.calls_over_limit = False
        self.cancelled_at: float | None = None
        self.after_turn_by: float | None = None
        self.paused_until: float | None = None
        self._held: tuple[Verdict, int] | None = None
        """The verdict that a pause is due to, and the number of the fact."""
        self.wakes_at = float("inf")
        """When the supervisor looks at the run next of its own accord."""
        self._paused_at = 0.0
        self._unwritable = ""
        """Why its journal cannot be written."""
        self.began = seams.clock()
        self._wall = Stopwatch(self.began)
        """Time without pauses."""
        self._working = Stopwatch(self.began)
        """Time without pauses and waits for the model's provider."""
        self._awaits_provider = False
        self.within_call = False
        """A call of the parent waits for it."""
        self._changed: anyio.Event | None = None
        self._unpaused: anyio.Event | None = None
        """While somebody's pause lasts: a person's, the watchdog's."""
        self._journal_back: anyio.Event | None = None
        """While its journal cannot be written."""
        self._done: anyio.Event | None = None
        """While somebody waits for the outcome."""
        self._waiters: list[concurrent.futures.Future[Outcome]] = []
        self._deltas: list[anyio.streams.memory.MemoryObjectSendStream[TextDelta | CallDelta]] = []
        self.actor: AgentActor | None = None
        self.executor: Executor | None = None
        self.judge: Judge | None = None
        self.tasks: anyio.abc.TaskGroup | None = None
        self.agent_task: anyio.TaskHandle[None] | None = None
        self.journal_scope: anyio.CancelScope | None = None
        self.agent_at_rest = False
        self.watchdog: Watchdog | None = None
        self.reader: Reader | None = None
        self.observed: Reader | None = None
        """Of those who look on, if there are any."""
        self.cancel_fact = 0
        """Number of the first ``CancelRequested``."""
        self.threadsafe = FromThreads(self)

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.agent.name}: {self.state}>"

    # -- watch -------------------------------------------------------------------------------------------------------

    def events(self, after: int = 0) -> AsyncIterator[Event | Gap]:
        """The facts from behind number ``after`` to the end record. A reader that is too slow gets a :class:`Gap`."""
        return self.log.events(after)

    async def deltas(self) -> AsyncIterator[TextDelta | CallDelta]:
        """Raw pieces of the streaming replies, for a chat screen. Lossy: a slow reader misses some."""
        send, receive = anyio.create_memory_object_stream[TextDelta | CallDelta](1024)
        self._deltas.append(send)
        if self.outcome is not None:
            send.close()
        try:
            async with receive:
                async for delta in receive:
                    yield delta
        finally:
            if send in self._deltas:
                self._deltas.remove(send)
            send.close()

    async def wait(self) -> Outcome:
        """Wait for the outcome. Cancelling the wait does not cancel the run."""
        if self.outcome is None:
            if self._done is None:
                self._done = anyio.Event()
            await self._done.wait()
        else:
            await anyio.lowlevel.checkpoint()
        assert self.outcome is not None
        return self.outcome

    async def wait_or_cancel(self, reason: str = "parent_cancelled") -> Outcome:
        """Wait for the outcome; if this wait is cancelled, cancel the run and wait for its end within its grace."""
        try:
            return await self.wait()
        except anyio.get_cancelled_exc_class():
            self.cancel(reason)
            with anyio.CancelScope(shield=True), anyio.move_on_after(self.agent.limits.grace + 1):
                await self.wait()
            raise

    def snapshot(self) -> dict[str, Any]:
        """State, what it is doing, and how the guards stand: plain data, safe to show and to encode."""
        now = self.seams.clock()
        return {
            "run": self.id,
            "agent": self.agent.name,
            "task": self.task[:200],
            "state": self.state,
            "seconds": round(now - self.began, 3),
            "turn": self.log.turn,
            "facts": self.log.n,
            "last_fact": round(self.log.last_t, 3),
            "doing": self.executor.doing() if self.executor is not None else [],
            "calls": self.ledger.ended,
            "spent": dict(self.budget.spent),
            "held": dict(self.budget.held),
            "unknown": dict(self.budget.unknown),
            "limits": self.limits(),
            "agent_stands": self.actor.snapshot() if self.actor is not None else {},
            "watchdog": self.judge.scoreboard() if self.judge is not None else {},
            "approvals": [
                {"approval": one.id, "call": one.call_id, "tool": one.tool, "why": self.log.redaction.text(one.why)}
                for one in self.approvals
            ],
            "children": [{"run": child.id, "agent": child.agent.name, "state": child.state} for child in self.children],
            "outcome": None if self.outcome is None else {"status": self.outcome.status, "reason": self.outcome.reason},
        }

    def limits(self) -> dict[str, float | None]:
        """The limits that are in force, those inherited from a parent included. None: no limit."""
        own = {name for budget in self.budget.path for name in budget.limits}
        limits = {name: self.budget.limit(name) for name in (*DIMENSIONS, *sorted(own - {*DIMENSIONS}))}
        for name in ("seconds", "working_seconds"):
            given = [getattr(run.agent.limits, name) for run in self.line()]
            limits[name] = min((limit for limit in given if limit is not None), default=None)
        return limits

    # -- steer -------------------------------------------------------------------------------------------------------

    def steer(self, text: str, *, command: str = "") -> None:
        """Say something to the agent, as the user; it reads it before its next turn. ``command`` stands in the fact.

        Raises :class:`RunEndedError` if the run has ended or is about to.
        """
        self._must_live("take a message")
        check_steer(text)
        self.steers.append(Said(text, command))

    def pause_for_journal(self, why: str) -> None:
        """Its journal cannot be written; nothing of it is lost. It holds beside a pause that somebody asks for, and
        neither ends the other."""
        if self._journal_back is not None:
            return
        self._journal_back, self._unwritable = anyio.Event(), f"{UNWRITABLE}: {why}"
        self._stand("journal")
        self._tell_of_journal()

    def journal_is_back(self) -> None:
        if self._journal_back is None:
            return
        self._journal_back.set()
        self._journal_back = None
        self._go_on("journal", BACK)

    def _tell_of_journal(self) -> None:
        seconds = self.agent.limits.pause
        if self._unpaused is None:  # else the deadline of that pause stands
            self.paused_until = self.seams.clock() + seconds
        self.log.append(Paused, reason=self._unwritable, deadline=seconds, journal=True)
        self.notify()

    @property
    def is_paused(self) -> bool:
        return self._unpaused is not None or self._journal_back is not None

    def was_answered(self, approval: str, how: Literal["yes", "no"]) -> bool:
        """Whether an approval was answered so before the run was recovered."""
        asking = self._asking_of(approval)
        return approval in asking.before and asking.permitted(approval) == (how == "yes")

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """The calls of this run and its sub-agents that wait for a yes or a no, oldest first in each run. They show the
        arguments as they will be run, secrets included: hand them to whoever decides, and to nobody else."""
        own = tuple(pending.approval for pending in self.asking.pending.values())
        return own + tuple(one for child in self.children for one in child.approvals)

    def approve(
        self,
        approval: str,
        arguments_hash: str,
        scope: Scope = "once",
        *,
        pattern: Mapping[str, Pattern] | None = None,
        by: str = "person",
    ) -> None:
        """Permit a call that waits for its approval, of this run or a sub-agent's.

        ``arguments_hash`` is that of the arguments that were looked at (``Approval.arguments_hash``). ``scope``:
        ``once`` is this call; ``run`` also such calls later in this run; ``always`` also in later runs of an agent of
        that name, as long as the supervisor lives (``Supervisor.approved`` gives them as rules). Such are calls of the
        tool with equal arguments, or those that fit ``pattern``, as ``when`` of an allowing :class:`Rule`; ``{}`` is
        any of the tool's. What guards ask about for another reason is asked about all the same.

        Raises :class:`ApprovalError` if it does not match, or if it is answered already; nothing is permitted then.
        """
        self._asking_of(approval).approve(approval, arguments_hash, scope, pattern, by)

    def deny(self, approval: str, reason: str = "", *, by: str = "person") -> None:
        """Say no to a call that waits for its approval; the model reads the reason, of at most 500 characters. Raises
        :class:`ApprovalError` if no such call waits."""
        self._asking_of(approval).deny(approval, reason, by)

    def _asking_of(self, approval: str) -> Approvals:
        for child in self.children:
            found = child._asking_of(approval)
            if approval in found:
                return found
        return self.asking

    def pause(self, reason: str = "paused", *, seconds: float | None = None) -> None:
        """Hold before the next model request; the turn's calls run on, the run's time stands still. After ``seconds``
        (default: the limit of the agent, one hour) the run is stopped with the reason ``pause_expired``, or for what
        the watchdog had paused it for. Pausing twice changes nothing."""
        self._must_live("be paused")
        if self._unpaused is not None:
            return
        seconds = self.agent.limits.pause if seconds is None else seconds
        check_pause(seconds)
        self._pause(seconds)
        self.log.append(Paused, reason=reason, deadline=seconds)
        self.notify()

    def _pause(self, seconds: float) -> None:
        self._paused_at = self.seams.clock()
        self.paused_until = self._paused_at + seconds
        self._unpaused = anyio.Event()
        self._stand("pause")

    def _stand(self, why: str) -> None:
        self._wall.hold(why, self.seams.clock())
        self._stand_still(why, True)
        if self.state == "running":
            self.move("pausing")

    def resume(self, reason: str = "") -> None:
        """Go on after a pause, also one by the watchdog: what it has seen so far still counts, and a hard ceiling stops
        the run all the same. Resuming a run that is not paused changes nothing."""
        self._must_live("be resumed")
        if self._unpaused is None:
            return
        self._unpaused.set()
        self._unpaused = self._held = None
        self._go_on("pause", reason)

    def _go_on(self, why: str, reason: str) -> None:
        """One of its pauses has ended, for this reason; it stands still for as long as there is another."""
        self._wall.release(why, self.seams.clock())
        self._stand_still(why, False)
        if not self.is_paused:
            self.paused_until = None
            if self.state in ("pausing", "paused"):
                self.move("running")
        if self._unpaused is None:
            self.log.append(Resumed, reason=reason)
        if self._journal_back is not None:
            self._tell_of_journal()
        self.notify()

    def add_budget(self, amounts: Mapping[str, float], *, by: str = "", command: str = "") -> None:
        """Raise limits of the run: so much is added to each that is named (``turns``, ``tokens``, ``calls:search``,
        ``seconds``, …). Those above it, of its parent or its supervisor, stay what they are. A run that was about to
        finish for want of it goes on.

        Raises ``ValueError`` for what is no amount or has no limit here, and changes nothing then;
        :class:`RunEndedError` if the run has ended or is about to.
        """
        self._must_live("be granted more")
        for name, amount in amounts.items():
            has = name in self.budget.limits or (name in TIMED and getattr(self.agent.limits, name) is not None)
            if not has:
                raise ValueError(f"run {self.id} has no limit of {name} of its own that could be raised")
            if not isinstance(amount, int | float) or not 0 < amount < math.inf:
                raise ValueError(f"{name} is raised by a number above 0, not by {amount!r}")
        self.raise_limits(amounts)
        if self.actor is not None:
            self.actor.raised(amounts)
        self.log.append(LimitsRaised, amounts=dict(amounts), command=command, by=by)
        self.notify()

    def lacks(self, amounts: Mapping[str, float]) -> bool:
        """Whether :meth:`ready` has to ask for more of a shared budget."""
        supply = self.root.supply
        return supply is not None and bool(supply.budget.missing(amounts))

    async def ready(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Before such amounts are held: see :meth:`.Supply.ready`. It does not wait where nothing has to be asked."""
        supply = self.root.supply
        return await supply.ready(amounts) if supply is not None else {}

    def raise_limits(self, amounts: Mapping[str, float]) -> None:
        for name, amount in amounts.items():
            if name in self.budget.limits:
                self.budget.limits[name] += amount
        more = {name: (getattr(self.agent.limits, name) or 0.0) + amounts[name] for name in TIMED if name in amounts}
        if more:
            self.agent = self.agent.within(msgspec.structs.replace(self.agent.limits, **more))

    def cancel(self, reason: str = "cancelled", mode: Mode = "now", *, deadline: float | None = None) -> bool:
        """End the run from outside. Never discards finished work; the outcome's history can be continued.

        - ``after_turn``: no further model request, so a wait to ask once more ends too; the turn's calls finish. After
          ``deadline`` seconds (default 120) it becomes ``now``.
        - ``now``: cancel the request and the calls; the outcome comes when all have ended, at the latest after the
          grace period, naming what did not stop.
        - ``kill``: as ``now``, without waiting.

        The first reason wins; a later call can only raise the mode. Returns False if the run has ended already, or ends
        for another reason (a kill hurries that). Sub-agents are cancelled with it.
        """
        check_cancel(reason, mode)
        return self._ask_to_end("cancelled", reason, mode, deadline)

    def hand_over(self, reason: str = "asked", mode: Mode = "after_turn", *, deadline: float | None = None) -> bool:
        """End the run and hand it to a person: the outcome is ``handed_over``, with this reason. ``Bundle.of(run)`` is
        then what a person needs to look at it and to continue it.

        Modes, deadline and return value are those of :meth:`cancel`; by default the turn's calls finish first. Of the
        two the first one counts; a later one can only raise the mode.
        """
        check_cancel(reason, mode, "hand_over")
        return self._ask_to_end("handed_over", reason, mode, deadline)

    def _ask_to_end(self, status: Status, reason: str, mode: Mode, deadline: float | None) -> bool:
        ends_otherwise = self.ending is not None and self.ending.status != self.ends_as
        if ends_otherwise or self.outcome is not None or self.state in ("ending", "ended"):
            if mode == "kill" and self.mode != "kill":
                self.mode = "kill"
                self.notify()
            return False
        if self.mode is not None and MODES.index(mode) <= MODES.index(self.mode):
            return True
        self.mode = mode
        now = self.seams.clock()
        if self.cancelled_at is None:
            self.cancelled_at = now
            self.ends_as = status
        reason = self.stopping_after_turn or reason
        fact = self.log.append(CancelRequested, mode=mode, reason=reason, status=self.ends_as)
        self.cancel_fact = self.cancel_fact or fact.n
        if mode == "after_turn" and self.state != "queued" and not self._awaits_provider:
            self.stopping_after_turn = reason
            self.after_turn_by = now + (AFTER_TURN if deadline is None else deadline)
            self.asking.cancel(reason)
            for pause in self._pauses():
                pause.set()
        else:
            self.end(Ending(self.ends_as, reason))
        for child in self.children:
            child.cancel("parent_cancelled", mode, deadline=deadline)
        self.notify()
        return True

    # -- for the actors and the supervisor ---------------------------------------------------------------------------

    def end(self, ending: Ending) -> None:
        """Ask for the end. The first ending counts."""
        if self.ending is None:
            if ending.status == "stopped" and self.hands_over:
                ending = msgspec.structs.replace(ending, status="handed_over")
            self.ending = ending
            asked = self.cancelled_at is not None and ending.status == self.ends_as
            if states.can_move(self.state, "cancelling") and (asked or ending.status == "cancelled"):
                self.move("cancelling")
            # At once, not when the supervisor gets round to it: no call and no request starts from here on.
            if self.agent_task is not None:
                self.agent_task.cancel()
            if self.executor is not None:
                self.executor.cancel(ending.reason)
        self.notify()

    def crashed(self, error: BaseException) -> None:
        """An actor has failed, by a defect of ours or of what the host gave it: the run ends, and no other notices."""
        self.end(Ending("failed", "crash", cause=failures.full_text(error, self.log.redaction)))

    def rule(self, verdict: Verdict, cause: int, *, blocked: bool = False, paused: bool = False) -> None:
        """Carry out a verdict of the watchdog. Nothing is done to a run that is ending already. ``blocked`` and
        ``paused``: so much of it was done by an attempt that died."""
        if self.ending is not None or self.log.closed:
            return
        finding, log = verdict.finding, self.log
        if verdict.action == "stop":
            log.append(Stopped, verdict=verdict, cause=cause)
            self.end(Ending("stopped", verdict.reason, verdict=verdict))
        elif verdict.action == "pause" and not paused:
            self._hold(verdict, cause)
        else:
            if verdict.action == "block" and finding.keys and not blocked:
                log.append(Blocked, keys=finding.keys, by=finding.detector, cause=cause, known=finding.known)
            log.append(Nudged, text=verdict.message, by=finding.detector, cause=cause)

    def _hold(self, verdict: Verdict, cause: int) -> None:
        """Pause for a person, for what would be a stop without one. The model reads why, should it go on."""
        if self._unpaused is None:
            self._pause(self.agent.limits.pause)
        assert self.paused_until is not None
        left = self.paused_until - self.seams.clock()
        fact = self.log.append(Paused, reason=verdict.reason, deadline=left, verdict=verdict, cause=cause)
        self._held = self._held or (verdict, fact.n)
        self.log.append(Nudged, text=verdict.message, by=verdict.finding.detector, cause=cause)
        self.notify()

    def pause_expired(self) -> None:
        """Nobody has resumed the run in time."""
        if self._held is None:
            self.end(Ending("stopped", "pause_expired"))
            return
        verdict, cause = self._held
        self.detail = self.supervisor.wording.nobody_came(self.seams.clock() - self._paused_at)
        self.log.append(Stopped, verdict=verdict, cause=cause)
        self.end(Ending("stopped", verdict.reason, verdict=verdict))

    def _pauses(self) -> list[anyio.Event]:
        return [pause for pause in (self._unpaused, self._journal_back) if pause is not None]

    async def gate(self) -> None:
        """Hold here while the run is paused. First all facts so far are judged, for a verdict may pause it."""
        await self.log.passed("watchdog", self.log.n)
        if self.attempt.draining:
            self.break_off("suspended")
            await anyio.lowlevel.checkpoint_if_cancelled()
        while (pauses := self._pauses()) and self.stopping_after_turn is None:
            if self.state == "running":
                self.move("pausing")
            if self.state == "pausing":
                self.move("paused")
                self.notify()
            await pauses[0].wait()

    def delta(self, delta: TextDelta | CallDelta) -> None:
        for send in self._deltas:
            try:
                send.send_nowait(delta)
            except (anyio.WouldBlock, anyio.BrokenResourceError):
                continue  # lossy by design: the facts have it all

    def refuse_calls(
        self, calls: Sequence[Call], why: str = "", *, by: str = "cancel", told: Callable[[str], Told] | None = None
    ) -> None:
        """Give ``not_run`` to calls of a reply that never came to the executor. ``told``: what the model reads of one,
        given its tool; else that it was not run, and ``why``."""
        for call in calls:
            entry = self.ledger.entries.get(call.id)
            if entry is None:
                self.log.append(CallProposed, slot=call.slot, call_id=call.id, tool=call.tool, arguments=call.arguments)
            elif entry.ended:
                continue
            text = (told(call.tool) if told is not None else self.supervisor.wording.not_run(call.tool, why)).text
            result = Result(call.id, call.tool, "not_run", text, by=by)
            if entry is not None and entry.started:  # by an attempt that died
                result = Result(call.id, call.tool, "abandoned", OPEN, error=OUTCOME_UNKNOWN, by=by)
            self.log.append(CallEnded, slot=call.slot, result=result)

    def settle_rest(self, why: str) -> None:
        """At the end: calls of the last reply that never came to the executor, or that it never came to."""
        self.refuse_calls(self.history.open_calls(), why)

    def go_on_from(self, before: Continuation, given: Limits, text: str | None) -> None:
        """Continue another run. Its evidence counts here; ``text`` is what the user says now."""
        self.continues, self.limits_given = before, given
        wording = self.supervisor.wording
        self.opening = self.log.redaction.text(text or wording.go_on(before.status, before.reason).text)
        self.evidence.take_over(before.evidence, before.found)

    def begin(self, now: float) -> None:
        """Its time begins: it has left the queue."""
        self.began = now
        self._wall.restart(now)
        self._working.restart(now)

    def take_up(self, past: Past) -> None:
        """Go on where an attempt that died has left off, as far as the handle is concerned: its time, a pause, a cancel
        or a stop that was on its way."""
        now = self.seams.clock()
        self.began = now - past.t
        self._wall.restart(now, past.times.wall)
        self._working.restart(now, past.times.working)
        self.attempt.take_up(past)
        asked = [one for one in past.paused if not one.journal]
        if asked:
            self._take_up_pause(asked, past, now)
        elif past.paused:
            self.log.append(Resumed, reason=BACK)
        if past.cancels:
            self._take_up_cancel(past, now)
        if past.stopped is not None:
            self.end(Ending("stopped", past.stopped.verdict.reason, verdict=past.stopped.verdict))

    def _take_up_pause(self, paused: Sequence[Paused], past: Past, now: float) -> None:
        first = paused[0]
        whole = self.agent.limits.pause if first.deadline is None else first.deadline
        self._pause(max(whole - (past.t - first.t), 0.0))
        self._paused_at = now - (past.t - first.t)
        self._held = next(((one.verdict, one.n) for one in paused if one.verdict is not None), None)

    def _take_up_cancel(self, past: Past, now: float) -> None:
        first, last = past.cancels[0], past.cancels[-1]
        self.mode, self.ends_as, self.cancel_fact = last.mode, first.status, first.n
        self.cancelled_at = now - (past.t - first.t)
        if last.mode == "after_turn":
            self.stopping_after_turn = first.reason
            self.after_turn_by = now + max(AFTER_TURN - (past.t - first.t), 0.0)
        else:
            self.end(Ending(first.status, first.reason))

    @property
    def rests(self) -> bool:
        """Nothing goes on in it that another attempt would have to do again."""
        waits = self.executor is None or self.executor.waits_for_people
        return waits or self.state == "paused" or self._awaits_provider

    def break_off(self, why: Broken) -> None:
        """End this attempt, and not the run: what runs is cancelled, and nothing that follows is kept. Another attempt
        goes on behind the last fact that is there now."""
        attempt, written = self.attempt, self.log.closed
        ending = self.ending is not None or written
        if self.outcome is not None or not attempt.may_break_off(why, ending=ending):
            return
        if why == "suspended" and attempt.lease is not None:
            self.log.append(Suspended, attempt=attempt.lease.attempt)
        attempt.break_off(why, self.log.n)
        if written:
            self.notify()
        else:
            self.end(Ending("failed" if why == "fenced" else "cancelled", why))

    def waits(self, waiting: bool) -> None:
        """Its agent waits for the provider (rate limit, breaker, back-off), or does so no more. What would come after
        the wait is one more request: a run that is to end after its turn ends here."""
        if not (waiting or self._awaits_provider):
            return
        self._stand_still("provider", waiting)
        self._awaits_provider = waiting
        if waiting and self.attempt.draining:
            self.notify()
        if waiting and self.stopping_after_turn is not None:
            self.end(Ending(self.ends_as, self.stopping_after_turn))

    def waits_for_person(self, waiting: bool) -> None:
        """Nothing goes on but waiting for approvals, or something does again."""
        self._stand_still("approval", waiting)
        if waiting and self.attempt.draining:
            self.notify()

    def is_attended(self) -> bool:
        """A person is there, for this run or one above it."""
        return any(run.attended for run in self.line())

    def working_seconds(self) -> float:
        """Seconds without pauses and waits for the provider, its own or those of sub-agents that it waits for."""
        return self._working.seconds(self.seams.clock())

    def wall_seconds(self) -> float:
        """Seconds since it began, without pauses."""
        return self._wall.seconds(self.seams.clock())

    def children_changed(self) -> None:
        """While all sub-agents that calls of this run wait for stand still themselves, so does its working time."""
        live = [child for child in self.children if child.within_call and child.outcome is None]
        self._stand_still("children", bool(live) and not any(child._working.running for child in live))

    def _stand_still(self, reason: str, still: bool) -> None:
        before = self._working.running
        (self._working.hold if still else self._working.release)(reason, self.seams.clock())
        if self._working.running is not before:
            self.notify()
            if self.parent is not None:
                self.parent.children_changed()

    def times(self) -> list[Timed]:
        """How the time limits of this run and those above it stand."""
        now, found = self.seams.clock(), []
        for run in self.line():
            limits = run.agent.limits
            if limits.seconds is not None:
                found.append(Timed("time", run._wall.seconds(now), limits.seconds, True))
            if limits.working_seconds is not None:
                working = run._working
                found.append(Timed("working_time", working.seconds(now), limits.working_seconds, working.running))
        return found

    def may_be_unpriced(self) -> bool:
        """Whether it may go on without a known price under a limit of money: as it or a run above it says."""
        return any(run.agent.limits.unpriced == "allow" for run in self.line())

    def deadline(self) -> float:
        """The clock's time at which the run's wall time is up; infinity without a limit."""
        return self.seams.clock() + min((one.left for one in self.times() if one.reason == "time"), default=math.inf)

    async def changed(self) -> None:
        """Wait for whatever happens next to the run."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def agent_ended(self) -> None:
        self.agent_at_rest = True
        self.notify()

    def finished(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.took = self._wall.seconds(self.seams.clock())
        self.state = "ended"
        if self.parent is not None:
            self.parent.children_changed()
            self.parent.notify()  # its end may wait for this
        if self._done is not None:
            self._done.set()
            self._done = None
        for send in list(self._deltas):
            send.close()
        for future in self._waiters:
            future.set_result(outcome)
        self._waiters.clear()
        self.notify()

    def line(self) -> list[Run]:
        """This run and those above it, the root last."""
        line, run = [], self
        while True:
            line.append(run)
            if run.parent is None:
                return line
            run = run.parent

    def move(self, to: State) -> None:
        self.state = states.move(self.state, to)

    def notify(self) -> None:
        """Wake whoever waits for :meth:`changed`."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _must_live(self, what: str) -> None:
        if self.ending is not None or self.outcome is not None:
            raise RunEndedError(f"run {self.id} cannot {what}: it has ended or is ending")
