"""The supervisor: who exists, how they are wired, in which order they start and end."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from . import failures, plugins, reports
from .actors.agent import AgentActor
from .actors.approving import accepts
from .actors.executor import Batch, Executor
from .actors.watchdog import Watchdog
from .agent import Agent
from .approvals import Approver
from .budget import Budget
from .current import HERE
from .decisions import Answer
from .detect.detector import Factory
from .detect.handover import task_key
from .detect.judge import Judge
from .detect.silence import Silence
from .errors import ConfigurationError, SpawnRefused, SupervisorClosed
from .guards.blocked import Blocked
from .guards.checks import Checks
from .guards.duplicate import Duplicate
from .guards.equal import RefuseEqual
from .guards.grants import Grants
from .guards.guard import CallGuard, GuardFactory
from .guards.guarded import Guarded
from .guards.limited import TimeLimit
from .guards.observed import Observed
from .guards.policy import Policy
from .guards.rate import RateLimit
from .guards.reentry import DEEPEST, Reentry
from .guards.request import heard
from .guards.result import left_of
from .guards.scope import Scope, Scoped
from .guards.sideeffects import SideEffects
from .ladder import MODES, GuardMode
from .locks import Grip, Locks
from .log import JOURNAL, KEEP, Reader
from .memory.store import Store
from .messages import (
    ChildStarted,
    GuardOverran,
    LoopBlocked,
    Message,
    RunStarted,
    UserMessage,
    WouldRefuse,
)
from .model import Model
from .monitor import LoopMonitor
from .observers import Observer, Observers
from .occurrences import Unfinished
from .price import Price
from .prices import Prices
from .profiles import limits_with
from .provider import Provider
from .recalling import recall, take_up
from .redaction import Redaction
from .run import Ending, Run
from .rush import Rush
from .seams import Seams
from .threads import Threads
from .tools import Tool
from .windup import last_resort, wind_up
from .wording import Wording

if TYPE_CHECKING:
    from .actors.journal import Journal
    from .continuing import Continuation
    from .engine import Engine, Lease, RunSpec, RunStatus
    from .examiner import Examiner
    from .guards.answer import AnswerGuard
    from .leasing import Maker, Worker
    from .memory.recollection import Recollection
    from .opinions.bench import Bench
    from .shared import Charges
    from .supply import Supply

T = TypeVar("T")

CLOSING = 10.0
"""Seconds beyond the longest grace period that leaving waits for outcomes: each of them comes long before."""
TICK = 1e-6
"""Seconds that a wait for a deadline takes at least: what is left of one by rounding is less than a clock can show."""
ROUNDS = 3
"""Rounds of the loop within which a cancel from without has reached all tasks of the supervisor."""
BLAMED = 8
"""Runs that get the fact of a blocked loop: those that did something last. With hundreds of runs a fact for each of
them would block the loop again, and again."""
MAX_DEPTH = 2
SHOWN_TASK = 500
"""Characters of a sub-agent's task that the fact of its start shows."""
MAX_CHILDREN = 10
"""Sub-agents that one root run may ever start, at any depth."""


class Supervisor:
    """Runs agents under supervision: ``async with Supervisor() as supervisor: run = await supervisor.start(…)``.

    Resource handling: calls and actors are tasks of the supervisor, so that a run can end although one of its tools
    will not. Leaving the block cancels the runs that are left and waits for their outcomes; a tool that swallows its
    cancellation holds up the leaving and is named in the log. Error handling: a failure inside a run is that run's
    outcome; only an error of the block's own body leaves it.

    - ``max_runs``: runs side by side; further ones are queued, and can be cancelled there.
    - ``budget``: the root of all runs' budgets; every run draws from it. By default it has no limits.
    - ``detectors``, ``guards``: factories of more of them beside those of the entry points.
    - ``prices``: of models, by name. Others are looked up in ``genai-prices``, if that is installed.
    - ``redaction``: what is secret and reaches no model, no fact, no delta and no outcome; by default what looks like a
      key, and the values of environment variables whose names say that they hold one.
    - ``approver``: decides on calls that need approval (``watchkeeper.approvals.Approver``). Without one, or where it
      says nothing, whoever attends the run is asked; if nobody does, such calls are denied.
    - ``token_key``: signs the tokens with which runs are continued, and checks them; at least 16 bytes. Without one
      they have a digest, which shows damage and no ill will. With one, only those that are signed with it are taken.
    - ``keep``: facts that a run's log keeps for late viewers.
    - ``engine``: where runs outlive the process (``watchkeeper.journal``); open it around the supervisor. While that is
      open, it executes what is submitted there, ``agents`` by the names in the specs: an :class:`Agent`, or a function
      of the :class:`.RunSpec` that makes one; others are looked up in the entry points ``watchkeeper.agents``. Runs
      that were broken off go on where their facts end (``docs/recovery.md``), if the agent's code is still the same, or
      with ``any_code``. ``worker`` names this supervisor among others of the engine.
    - ``drain``: seconds that leaving the block gives such runs to end their turn; then they are suspended, and go on
      where the engine is opened next.
    - ``observers``: functions that are called with every fact of every run, in order, and must not wait: log lines,
      metrics, traces (``watchkeeper.observe``).
    """

    def __init__(
        self,
        *,
        max_runs: int = 1000,
        budget: Budget | None = None,
        detectors: Iterable[Factory] = (),
        guards: Iterable[GuardFactory] = (),
        prices: Mapping[str, Price] | None = None,
        wording: Wording | None = None,
        approver: Approver | None = None,
        redaction: Redaction | None = None,
        seams: Seams | None = None,
        token_key: str | bytes | None = None,
        keep: int = KEEP,
        plugged: bool = True,
        monitor: bool = True,
        engine: Engine | None = None,
        agents: Mapping[str, Maker] | None = None,
        worker: str = "",
        any_code: bool = False,
        drain: float = 10.0,
        observers: Iterable[Observer] = (),
    ) -> None:
        if max_runs < 1:
            raise ConfigurationError(f"max_runs must be at least 1, not {max_runs}")
        self.seams = seams or Seams()
        self.wording = wording or Wording()
        self.redaction = redaction if redaction is not None else Redaction(environment=os.environ)
        self.budget = budget or Budget()
        self._prices = Prices(prices or {}, self.seams)
        if approver is not None and not callable(approver):
            raise ConfigurationError(f"approver must be a function of an approval, not {approver!r}")
        self.approver = approver
        self.approved = Grants()
        """What was permitted always, by the name of the agent; in memory, for its later runs."""
        self.runs: dict[str, Run] = {}
        """The runs that have not ended, by id."""
        self._detectors = (*detectors, *(plugins.load_detectors() if plugged else ()))
        self._guards = (*guards, *(plugins.load_guards() if plugged else ()))
        self.token_key: bytes | None = None
        if token_key is not None:
            from .continuing import key_of

            self.token_key = key_of(token_key)
        self._keep = keep
        self._max_runs = max_runs
        self._drain = drain
        self.engine = engine
        self._rush = Rush()
        self.worker: Worker | None = None
        """Who takes leases of the engine, if there is one."""
        if engine is not None:
            from .leasing import Worker

            self.worker = Worker(
                self, engine, agents or {}, name=worker, any_code=any_code, most=max_runs, rush=self._rush
            )
        elif agents:
            raise ConfigurationError("agents are for what an engine is given to do: Supervisor(engine=…, agents=…)")
        self._monitored = monitor
        self._observers = Observers(observers, self._rush)
        self._providers: dict[str, Provider] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._context: AbstractAsyncContextManager[Supervisor] | None = None

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise ConfigurationError("this supervisor is open already; make another one")
        self._context = self._open()
        await self._context.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._context is not None
        return await self._context.__aexit__(kind, error, trace)

    async def start(
        self,
        agent: Agent,
        task: str | None = None,
        *,
        history: Sequence[Message] = (),
        continue_from: str | None = None,
        another_agent: bool = False,
        parent: Run | None = None,
        budget: Budget | str | None = None,
        mode: GuardMode | None = None,
        attended: bool | None = None,
        unfinished: Sequence[Unfinished] = (),
        run_id: str = "",
    ) -> Run:
        """Start a run and return its handle; it can be cancelled from then on.

        ``history`` goes on with an earlier conversation (``Outcome.history``), also one that was stopped. With a
        ``parent`` the run is its sub-agent: it draws from the parent's limits and is cancelled with it. ``budget`` is
        one more to draw from, shared with whoever else holds it, or the name of one that the engine shares among all
        its runs (:class:`.SharedLimits`). ``mode`` (``observe``, ``nudge``, ``enforce``) and
        ``attended`` set aside what the agent's profile says of them, for this run; the mode for its sub-agents too.
        ``run_id`` is its id, which no other run may have; else it gets one.
        ``unfinished``: writing calls of the run that this one goes on with, of which nobody knows whether they had
        their effect (``watchkeeper.occurrences.unfinished``): an equal one is asked about, and has the same key.

        ``continue_from`` goes on with a run that has ended, by the token of its bundle (``Bundle.token``): with its
        task, its conversation, what it has found and what is left of its limits (:func:`.continuing.limits_left`);
        ``task`` is then what the user says to it, and may be left out. The token must be this agent's, with the
        instructions and tools that it had, unless ``another_agent`` says that it may be another's.

        Raises :class:`ConfigurationError` for a token that cannot be taken, :class:`SupervisorClosed`, or
        :class:`SpawnRefused` for a sub-agent too deep or too many.
        """
        if self._tasks is None:
            raise SupervisorClosed("the supervisor is not open: use it as 'async with Supervisor() as supervisor:'")
        before, given = None, agent.limits
        if continue_from is not None:
            before, agent = self._continued(continue_from, agent, history, another_agent)
            history = before.history
        text, task = task, _checked_start(task if before is None else before.task, history)
        if text is not None:
            _checked_start(text, ())
        _check_mode(mode)
        self._check_observed(agent)
        if parent is not None:
            self._check_spawn(parent, agent)
            if parent.executor is not None:
                parent.executor.take_grips()
        above = [_purse_of(parent) if parent is not None else self.budget]
        named = budget if isinstance(budget, str) else ""
        if named and (self.engine is None or parent is not None):
            raise ConfigurationError(
                f"the budget {named!r} is shared through an engine: Supervisor(engine=…), or Budget(…) without one"
                if parent is None
                else f"a sub-agent draws from what its parent does: start that one with the budget {named!r}"
            )
        if isinstance(budget, Budget):
            above.insert(0, budget)
        run = self._new(
            run_id or self.seams.new_id("r"),
            agent,
            task,
            above,
            parent=parent,
            history=history,
            mode=mode,
            attended=attended,
            unfinished=unfinished,
            shared=named,
        )
        if before is not None:
            run.go_on_from(before, given, text)
        if parent is None and self.worker is not None:
            try:
                await self.worker.expect(run, _spec_of(run, text or "", continue_from or "", mode, attended, named))
            except BaseException:
                self.leave(run)
                raise
        elif parent is None:
            # Here, not in its task: the order of the queue is that of the calls of start.
            (self._inside.add if len(self._inside) < self._max_runs else self._queue.append)(run)
        self._tasks.start_soon(self._drive, run, name=f"run {run.id}")
        if parent is not None:
            run.within_call = bool(_call_of(parent))
            parent.children.append(run)
            parent.children_changed()
            parent.root.descendants += 1
            run.log.attach(run.work)
            parent.log.append(
                ChildStarted,
                child=run.id,
                agent=agent.name,
                call_id=_call_of(parent),
                task=run.task[:SHOWN_TASK],
                key=task_key(agent.name, task, (message.content for message in history)),
            )
        return run

    def stuck(self) -> list[str]:
        """Calls that were given up and go on, by their tools' names: they swallow their cancel, or hang in a thread
        where no more threads are to be had. Nothing inside the process ends them."""
        threads = self._threads
        hang = [job.frame() or "a thread" for job in threads.abandoned] if threads.exhausted else []
        return [*self._locks.stuck(), *hang]

    def _new(
        self,
        run_id: str,
        agent: Agent,
        task: str,
        above: Sequence[Budget],
        *,
        parent: Run | None = None,
        history: Sequence[Message] = (),
        mode: GuardMode | None = None,
        attended: bool | None = None,
        unfinished: Sequence[Unfinished] = (),
        shared: str = "",
    ) -> Run:
        agent, seams = self.seams.for_run(run_id, agent, task, parent)
        supply = _supply_of(shared) if shared else None
        if supply is not None:
            above = [supply.budget, *above]
        run = Run(
            self,
            agent,
            task,
            run_id=run_id,
            seams=seams,
            budget=Budget(*above, **agent.limits.amounts()),
            parent=parent,
            history=history,
            keep=self._keep,
            grips_above=_grips_above(parent),
            within=_within(parent),
            guard_mode=mode,
            attended=attended,
            unfinished=unfinished,
        )
        run.supply = supply
        seams.follow(run)
        self.runs[run.id] = run
        return run

    # -- what an engine is given to do -------------------------------------------------------------------------------

    async def submit(self, spec: RunSpec, *, run: str = "") -> RunStatus:
        """Have a run done by whoever executes the engine's runs: this supervisor, or another one. Durable when it
        returns; ``run`` as in :meth:`.Engine.submit`. Raises :class:`ConfigurationError` without an engine and for
        limits that no run can have, and what that raises."""
        if self.engine is None:
            raise ConfigurationError("there is nowhere to submit a run to: Supervisor(engine=…)")
        limits_with(spec.limits)
        clean = self.redaction.anything
        spec = msgspec.structs.replace(spec, task=clean(spec.task), history=clean(spec.history))
        return await self.engine.submit(spec, run=run)

    async def drain(self, seconds: float) -> None:
        """Take nothing more of the engine, and suspend what is at work: each run after its turn, or when time is up.
        Another attempt goes on with them. Returns when their facts are durable."""
        if self.worker is None:
            return
        runs = [run for run in self.runs.values() if run.parent is None]
        await self.worker.drain(seconds)
        for run in runs:
            await run.wait()

    def run_of(self, spec: RunSpec, agent: Agent, run_id: str) -> Run:
        """A run of the engine, for its worker. Raises :class:`ConfigurationError` if its spec cannot be executed."""
        _check_mode(spec.mode)
        self._check_observed(agent)
        before, given, task, history = None, agent.limits, spec.task, spec.history
        if spec.continue_from:
            before, agent = self._continued(spec.continue_from, agent, (), False)
            task, history = before.task, before.history
        run = self._new(
            run_id,
            agent,
            task,
            [self.budget],
            history=history,
            mode=spec.mode,
            attended=spec.attended,
            shared=spec.budget,
        )
        if before is not None:
            run.go_on_from(before, given, spec.task or None)
        return run

    async def lead(self, run: Run) -> None:
        """Execute a run that has its lease, to its end or the end of this attempt."""
        await self._drive(run)

    # -- a run from start to end -------------------------------------------------------------------------------------

    async def _drive(self, run: Run) -> None:
        """Host the run: its tasks are in a group of their own, so that what breaks one breaks no other run.

        The outcome is published inside the group; leaving it waits for calls that did not stop.
        """
        if self._observers:
            self._observe(run)
        try:
            async with anyio.create_task_group() as run.tasks:
                try:
                    if await self._let_in(run):
                        await run.seams.enter()
                        await self._perform(run, run.tasks)
                except anyio.get_cancelled_exc_class():
                    if await self._cancelled_from_without():
                        if run.lease is not None:
                            run.break_off("suspended")
                        run.end(Ending("cancelled", "supervisor_closed"))
                    else:
                        run.crashed(RuntimeError("a call or a model left a cancel scope or a task group open"))
                    raise
                except Exception as error:
                    run.crashed(error)
                finally:
                    with anyio.CancelScope(shield=True):
                        try:
                            await wind_up(run)
                        except Exception as error:  # a defect of ours, or of a host's: nobody may wait for ever
                            last_resort(run, failures.full_text(error, self.redaction))
                        if self.worker is not None and run.parent is None:
                            await (self.worker.forget if run.lease is None else self.worker.give_back)(run)
                    self._let_out(run)
        except KeyboardInterrupt:
            raise
        except BaseExceptionGroup as group:
            if failures.holds(group, KeyboardInterrupt):
                raise
            reports.report("run_broken", run=run.id, cause=failures.full_text(group, self.redaction))

    def _observe(self, run: Run) -> None:
        assert self._tasks is not None
        run.observed = self._observers.reader(run.log)
        heard_first = run.parent.log if run.parent is not None else None
        linger = run.agent.limits.grace + CLOSING
        self._tasks.start_soon(self._observers.follow, run.observed, heard_first, linger)

    async def _cancelled_from_without(self) -> bool:
        """Who is cancelled cannot see by whom: the sentinel, which no run's group can reach, tells it apart."""
        with anyio.CancelScope(shield=True):
            for _ in range(ROUNDS):
                await anyio.lowlevel.checkpoint()
        return self._cancelled

    async def _stand_sentinel(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._cancelled = True

    async def _let_in(self, run: Run) -> bool:
        """Wait in the queue for a place; sub-agents have that of their root. False if it was ended meanwhile."""
        while (run in self._queue or self._has_no_lease(run)) and run.ending is None:
            await run.changed()
        if run in self._queue:
            self._queue.remove(run)
        return run.ending is None

    def _has_no_lease(self, run: Run) -> bool:
        return self.worker is not None and run.parent is None and run.lease is None

    def _let_out(self, run: Run) -> None:
        self.leave(run)
        self._inside.discard(run)
        if self._queue and len(self._inside) < self._max_runs:
            following = self._queue.popleft()
            self._inside.add(following)
            following.notify()

    def leave(self, run: Run) -> None:
        """It is none of the runs any more. Another attempt may have come in its place."""
        if self.runs.get(run.id) is run:
            del self.runs[run.id]

    async def _perform(self, run: Run, tasks: anyio.abc.TaskGroup) -> None:
        """Wire the three actors and start them, then wait until something ends the run."""
        agent, log = run.agent, run.log
        profile = agent.profile
        log.begin()
        run.begin(log.began)
        run.move("running")
        lease, earlier = run.root.lease, run.before
        if run.supply is not None and lease is not None and not run.supply.is_open:
            await run.supply.open(lease)
        judge = run.judge = Judge(
            profile.thresholds,
            mode=run.guard_mode,
            attended=run.attended,
            extra=self._detectors,
            wording=self.wording,
        )
        watchdog = run.watchdog = Watchdog(run, judge, Silence(profile.thresholds.silence))
        limit = self._limit_of(run)
        theirs = [Guarded(make(), limit, self.wording) for make in self._guards]
        bench = self._bench_of(run) if agent.judge is not None else None
        guards = self._guards_of(run, theirs, limit, bench)
        for guard in (*guards, *(one for one in theirs if "call" not in one.at)):
            log.attach(guard)
        if agent.memory is not None:
            run.memory = self._recollection(run, agent.memory)
        run.executor = Executor(
            run,
            agent.tools,
            guards,
            budget=run.budget,
            locks=self._locks,
            threads=self._threads,
            tasks=tasks,
            wording=self.wording,
            parallel=agent.limits.parallel,
            writers_alone=profile.writers_alone,
            unfinished=run.unfinished,
            looked=self._asker(run, left_of, theirs, "result", wording=self.wording),
        )
        run.actor = AgentActor(
            run,
            agent,
            run.history,
            run.evidence,
            budget=run.budget,
            provider=self._provider_of(agent.model),
            prices=self._prices,
            wording=self.wording,
            examiner=partial(self._examiner_of, run, [one for one in theirs if "answer" in one.at]),
            examined=agent.examined or any("answer" in one.at for one in theirs),
            heard=self._asker(run, heard, theirs, "request"),
            bench=bench,
        )
        turns = recall(run, earlier.facts, earlier.past, guards) if earlier is not None else None
        known = earlier.past.n if earlier is not None else 0
        if run.observed is not None:
            run.observed.skip(known)
        run.reader = log.reader("watchdog", after=known, must=True, lazy=True, look=partial(self._catch_up, run))
        if lease is not None:
            self._keep_journal(run, lease, known, tasks)
        if earlier is not None and turns is not None:
            take_up(run, earlier, turns, guards, lease.attempt if lease is not None else 0)
            earlier = run.before = earlier._replace(facts=())  # there may be many, and the run may be long
            if run.ending is not None:  # all that is left is to write its end
                run.agent_ended()
                return
        else:
            self._write_start(run, lease)
        send, receive = anyio.create_memory_object_stream[Batch](1)
        tasks.start_soon(self._watch, run, watchdog, run.reader)
        tasks.start_soon(self._execute, run, receive)
        tasks.start_soon(self._think, run, send)
        await self._until_end(run, watchdog, run.reader)

    def _write_start(self, run: Run, lease: Lease | None) -> None:
        agent, log = run.agent, run.log
        log.append(
            RunStarted,
            agent=agent.name,
            task=run.task,
            tools=tuple(agent.tools),
            profile=agent.profile.name,
            limits=run.limits(),
            model=agent.model.name,
            continued=len(run.history),
            polls=tuple(tool.name for tool in agent.tools.values() if tool.poll),
            mode=run.guard_mode,
            attended=run.attended,
            continues=run.continues.run if run.continues is not None else "",
            earlier=run.continues.spent if run.continues is not None else {},
            code=_code_of(agent) if lease is not None else "",
        )
        log.user_turn += 1
        log.append(UserMessage, text=run.opening)

    def _keep_journal(self, run: Run, lease: Lease, known: int, tasks: anyio.abc.TaskGroup) -> None:
        """Facts behind number ``known`` are made durable from here on; of a root, commands from outside are taken."""
        from .actors.journal import Journal
        from .obeying import Obedience

        reader = run.log.reader(JOURNAL, after=known, must=True)
        charges = _charges_of(run) if run.root.supply is not None else None
        tasks.start_soon(self._write_journal, run, Journal(run, lease, charges), reader)
        if run.parent is None:
            taken = run.before.commands if run.before is not None else set()
            run.obedience = Obedience(run, lease, taken, self._rush)
            tasks.start_soon(run.obedience.run)

    async def _write_journal(self, run: Run, journal: Journal, reader: Reader) -> None:
        # It must see the end, whoever cancels: it returns when the log closes, or is given up by the winding up.
        try:
            with anyio.CancelScope(shield=True) as run.journal_scope:
                await journal.run(reader)
        except Exception as error:
            run.crashed(error)

    async def _think(self, run: Run, batches: MemoryObjectSendStream[Batch]) -> None:
        assert run.actor is not None
        with anyio.CancelScope() as run.agent_scope:
            try:
                async with batches:
                    result = await run.actor.run(batches)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # What a model raises is its run's failure, whatever it is; a real cancel is passed on.
                if _is_cancel(error) and anyio.current_effective_deadline() == -float("inf"):
                    raise
                run.crashed(error)
            else:
                if isinstance(result, Answer):
                    run.end(
                        Ending(
                            "completed",
                            "answer",
                            answer=result.text,
                            forced=result.forced,
                            value=result.value,
                            unverified=result.unverified,
                        )
                    )
                else:
                    run.end(Ending(result.status, result.reason))
            finally:
                run.agent_ended()

    async def _execute(self, run: Run, batches: MemoryObjectReceiveStream[Batch]) -> None:
        assert run.executor is not None
        # It needs no cancel: it ends when the agent closes its end of the channel, and cancels its calls itself.
        try:
            async with batches:
                await run.executor.run(batches)
        except Exception as error:
            run.crashed(error)

    async def _watch(self, run: Run, watchdog: Watchdog, reader: Reader) -> None:
        # It ends when the log closes. Cancelled from without it leaves the last facts to the winding up.
        try:
            await watchdog.run(reader)
        except Exception as error:
            reader.close()
            run.crashed(error)

    def _catch_up(self, run: Run) -> None:
        """Somebody waits for the watchdog: it looks at once, in the task of whoever waits."""
        assert run.watchdog is not None
        assert run.reader is not None
        try:
            run.watchdog.catch_up(run.reader)
        except Exception as error:
            run.reader.close()
            run.crashed(error)

    async def _until_end(self, run: Run, watchdog: Watchdog, reader: Reader) -> None:
        """Wait for an ending; time limits, deadlines of pause and cancel, and silence make one."""
        clock, executor = self.seams.clock, run.executor
        assert executor is not None
        while run.ending is None:
            now, times = clock(), run.times()
            if (up := next((one.reason for one in times if one.left <= 0), None)) is not None:
                run.end(Ending("stopped", up))
            elif run.after_turn_by is not None and now >= run.after_turn_by:
                run.end(Ending(run.ends_as, run.stopping_after_turn or "cancelled"))
            elif run.paused_until is not None and now >= run.paused_until:
                run.pause_expired()
            else:
                dues: list[float | None] = [one.left for one in times if one.running]
                dues += [due - now for due in (run.after_turn_by, run.paused_until) if due is not None]
                dues.append(executor.overdue(now))
                wait = max(min((watchdog.due(), *(due for due in dues if due is not None))), TICK)
                run.wakes_at = now + wait
                with anyio.move_on_after(wait) as timer:
                    await run.changed()
                if timer.cancelled_caught:
                    watchdog.look(reader, late=clock() - now - wait)

    # -- parts -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Supervisor]:
        self.seams.bind()
        self._locks = Locks()
        self._threads = Threads(self.seams)
        self.approver_threads = Threads(self.seams)
        self._cancelled = False
        self._inside: set[Run] = set()
        self._queue: deque[Run] = deque()
        monitor = (
            LoopMonitor(self.seams, lambda: bool(self.runs), self._loop_blocked)
            if self._monitored and not self.seams.virtual
            else None
        )
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._stand_sentinel)
                if self.worker is not None:
                    self._tasks.start_soon(self.worker.run, self._tasks)
                if monitor is not None:
                    monitor.start()
                try:
                    yield self
                except BaseException as error:
                    failure = error  # raised again below, as it is: a group of one tells nobody more
                await self._close()
                self._tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
            self._threads.close()
            self.approver_threads.close()
            if monitor is not None:
                monitor.stop()
        if failure is not None:
            raise failure

    async def _close(self) -> None:
        """Cancel what is left and wait for the outcomes; name the calls that do not end."""
        if self.worker is not None:
            with anyio.CancelScope(shield=True):
                await self.worker.drain(self._drain)
        left = list(self.runs.values())
        grace = max((run.agent.limits.grace for run in left), default=0.0)
        with anyio.CancelScope(shield=True), anyio.move_on_after(grace + CLOSING):
            for run in left:
                if run.parent is None and run.lease is not None:
                    run.break_off("suspended")
                else:
                    run.cancel("supervisor_closed")
            for run in left:
                await run.wait()

    def _recollection(self, run: Run, store: Store) -> Recollection:
        from .memory.recollection import Recollection

        memory = Recollection(store, self._threads, run.log, self.wording)
        run.log.attach(memory)
        return memory

    def _examiner_of(self, run: Run, guards: Sequence[AnswerGuard]) -> Examiner:
        """Who looks at the answers of a run. Imported when the first answer needs it."""
        from .examiner import examiner_of

        return examiner_of(
            run,
            guards,
            prices=self._prices,
            provider_of=self._provider_of,
            threads=self._threads,
            person=partial(accepts, run),
        )

    def _bench_of(self, run: Run) -> Bench:
        from .opinions.bench import bench_of

        return bench_of(run, prices=self._prices, provider_of=self._provider_of, threads=self._threads)

    def _limit_of(self, run: Run) -> TimeLimit:
        profile = run.agent.profile
        note = partial(run.log.append, GuardOverran)
        return TimeLimit(profile.guard_seconds, profile.on_overrun, self.seams.clock, note)

    def _guards_of(self, run: Run, theirs: Sequence[Guarded], limit: TimeLimit, bench: Bench | None) -> list[CallGuard]:
        """The call guards of a run, in the order in which they are asked."""
        agent, wording = run.agent, self.wording
        profile = agent.profile
        policy = Policy(
            wording,
            deny=profile.deny,
            rules=profile.rules,
            otherwise=profile.otherwise,
            function=agent.policy,
            limit=limit,
        )
        guards: list[CallGuard] = []
        if policy.says_anything(agent.tools.values()):
            guards.append(policy)
        guards.append(Blocked(wording))
        scopes = [one.agent.profile.scope for one in run.line() if one.agent.profile.scope != Scope()]
        if scopes:
            guards.append(Scoped(scopes, wording))
        if len(run.within) + 1 >= DEEPEST:
            guards.append(Reentry(run.within, wording))
        if any(tool.checks for tool in agent.tools.values()):
            guards.append(Checks(wording))
        if bench is not None:
            guards.append(bench.guard)
        if profile.refuse_equal is not None:
            guards.append(RefuseEqual(profile.refuse_equal, profile.show_earlier, wording))
        if profile.rates or profile.interval is not None:
            guards.append(RateLimit(profile.rates, wording, interval=profile.interval))
        if any(tool.stable for tool in agent.tools.values()):
            guards.append(Duplicate(agent.tools, wording))
        if run.unfinished or run.before is not None or any(tool.side_effect for tool in agent.tools.values()):
            guards.append(SideEffects(wording, run.unfinished, run.cleared))
        guards += [one for one in theirs if "call" in one.at]
        note = partial(run.log.append, WouldRefuse)
        return [Observed(guard, note) if guard.name in profile.observe else guard for guard in guards]

    def _asker(
        self, run: Run, ask: Callable[..., T], theirs: Sequence[Guarded], hook: str, **more: Any
    ) -> Callable[..., T] | None:
        """Asks the guards of one hook; None where there are none."""
        guards = [one for one in theirs if hook in one.at]
        note = partial(run.log.append, WouldRefuse)
        return partial(ask, guards=guards, observed=run.agent.profile.observe, note=note, **more) if guards else None

    def _check_observed(self, agent: Agent) -> None:
        observed = set(agent.profile.observe) - plugins.OWN_GUARDS
        unknown = observed and observed - {make().name for make in self._guards}
        if unknown:
            known = ", ".join(sorted(plugins.OWN_GUARDS))
            raise ConfigurationError(
                f"agent {agent.name!r}: the profile {agent.profile.name!r} observes {', '.join(sorted(unknown))}, "
                f"which is no guard; guards are {known}, and those of third parties"
            )

    def _continued(
        self, token: str, agent: Agent, history: Sequence[Message], another_agent: bool
    ) -> tuple[Continuation, Agent]:
        """What a token holds, and the agent under what is left of its limits."""
        from .continuing import check_agent, decoded, limits_left

        if history:
            raise ConfigurationError("history and continue_from exclude each other: the token holds the conversation")
        before = decoded(token, self.token_key)
        if not another_agent:
            check_agent(before, agent)
        return before, agent.within(limits_left(before, agent.limits))

    def _provider_of(self, model: Model) -> Provider:
        key = str(getattr(model, "provider", None) or f"model:{model.name}")
        provider = self._providers.get(key)
        if provider is None:
            provider = self._providers[key] = Provider(key)
        return provider

    def _check_spawn(self, parent: Run, agent: Agent) -> None:
        if parent.ending is not None or parent.stopping_after_turn is not None:
            raise SpawnRefused(f"run {parent.id} is ending")
        if parent.depth >= MAX_DEPTH:
            raise SpawnRefused(f"sub-agents may be {MAX_DEPTH} deep, and this would be the next level")
        if sum(agent.is_like(run.agent) for run in parent.line()) + 1 >= DEEPEST:
            raise SpawnRefused(f"the agent {agent.name} would be at work inside itself for the {DEEPEST}rd time")
        if parent.root.descendants >= MAX_CHILDREN:
            raise SpawnRefused(f"this run has started {MAX_CHILDREN} sub-agents already, which is all it may")

    def _loop_blocked(self, seconds: float, frame: str) -> None:
        now = self.seams.clock()
        open_runs = [run for run in self.runs.values() if run.executor is not None and not run.log.closed]
        open_runs.sort(key=lambda run: run.log.began + run.log.last_t, reverse=True)
        for run in open_runs[:BLAMED]:
            assert run.executor is not None
            # The call that held the loop has ended by now, as a rule: what a run has just done counts too.
            if run.executor.doing() or now - run.log.began - run.log.last_t < seconds:
                run.log.append(LoopBlocked, seconds=seconds, frame=frame)


def _code_of(agent: Agent) -> str:
    from .continuing import code_of

    return code_of(agent)


def _supply_of(budget: str) -> Supply:
    from .shared import SharedBudget
    from .supply import Supply

    return Supply(SharedBudget(budget))


def _charges_of(run: Run) -> Charges:
    """What its facts take of a shared budget from now on."""
    from .shared import Charges

    assert run.executor is not None
    charges = Charges(run.executor.counted)
    charges.take(run.before.facts if run.before is not None else ())
    return charges


def _spec_of(run: Run, text: str, token: str, mode: GuardMode | None, attended: bool | None, budget: str) -> RunSpec:
    """What another attempt needs to go on with a run that was started here."""
    from .engine import RunSpec

    return RunSpec(
        agent=run.agent.name,
        task=text if token else run.task,
        history=() if token else run.history.messages(),
        continue_from=token,
        mode=mode,
        attended=attended,
        code=_code_of(run.agent),
        budget=budget,
    )


def _grips_above(parent: Run | None) -> frozenset[Grip]:
    """The grips of the calls within which this code runs: what a sub-agent does never waits for its own caller."""
    if parent is None:
        return frozenset()
    here = HERE.get(None)
    grip = parent.executor.grip_of(here.call_id) if here is not None and parent.executor is not None else None
    return parent.grips_above | ({grip} if grip is not None else set())


def _call_of(parent: Run) -> str:
    """The call of the parent within which this code runs; empty outside of one."""
    here = HERE.get(None)
    return here.call_id if here is not None and here.run is parent else ""


def _purse_of(parent: Run) -> Budget:
    """What a sub-agent draws from: within a call what that call does, which may be a step's of the parent's plan."""
    return parent.drawn if _call_of(parent) else parent.budget


def _within(parent: Run | None) -> tuple[Tool, ...]:
    """The tools of the calls within which this code runs, outermost first."""
    if parent is None:
        return ()
    here = HERE.get(None)
    tool = parent.agent.tools.get(here.tool) if here is not None and here.run is parent else None
    return parent.within if tool is None else (*parent.within, tool)


def _is_cancel(error: BaseException) -> bool:
    return isinstance(error, anyio.get_cancelled_exc_class())


def _check_mode(mode: object) -> None:
    if mode is not None and mode not in MODES:
        raise ConfigurationError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")


def _checked_start(task: object, history: Sequence[object]) -> str:
    if not isinstance(task, str):
        raise ConfigurationError(f"the task must be a str, not {type(task).__name__}")
    if isinstance(history, str) or not isinstance(history, Iterable):
        raise ConfigurationError(f"history must be messages (Outcome.history), not {type(history).__name__}")
    for place, message in enumerate(history):
        if not isinstance(message, Message) or not isinstance(message.content, str):
            raise ConfigurationError(
                f"history[{place}] is not a watchkeeper.Message with text; hand over Outcome.history, or make Messages"
            )
    return task
