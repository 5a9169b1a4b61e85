"""The supervisor: which runs there are, who executes them, in which order they start and end."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from . import failures, plugins, reports
from .agent import Agent
from .approvals import Approver
from .budget import Budget
from .detect.detector import Factory
from .errors import ConfigurationError, SupervisorClosed
from .guards.grants import Grants
from .guards.guard import GuardFactory
from .hooks import check_observed
from .ladder import MODES, GuardMode
from .locks import NOTHING_ABOVE, Locks
from .log import KEEP
from .messages import LoopBlocked, Message
from .model import Model
from .monitor import LoopMonitor
from .observers import Observer, Observers
from .occurrences import Unfinished
from .origin import Origin
from .pace import SLICE, Pace
from .price import Price
from .prices import Prices
from .profiles import limits_with
from .provider import Provider
from .redaction import Redaction
from .run import Ending, Run
from .rush import Rush
from .seams import Seams
from .threads import Threads
from .windup import last_resort, wind_up
from .wiring import Shares, perform
from .wording import Wording

if TYPE_CHECKING:
    from .continuing import Continuation
    from .engine import Engine, RunSpec, RunStatus
    from .leasing import Maker, Worker
    from .supply import Supply

CLOSING = 10.0
"""Seconds beyond the longest grace period that leaving waits for outcomes: each of them comes long before."""
ROUNDS = 3
"""Rounds of the loop within which a cancel from without has reached all tasks of the supervisor."""
BLAMED = 8
"""Runs that get the fact of a blocked loop: those that did something last. With hundreds of runs a fact for each of
them would block the loop again, and again."""


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
        self.pace: Pace
        """At which its runs begin and go on."""
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

        Where many runs are at work it waits until it is its turn (:class:`.Pace`); cancelled then, nothing has begun.

        Raises :class:`ConfigurationError` for a token that cannot be taken, :class:`SupervisorClosed`, or
        :class:`SpawnRefused` for a sub-agent too deep or too many.
        """
        if self._tasks is None:
            raise SupervisorClosed("the supervisor is not open: use it as 'async with Supervisor() as supervisor:'")
        await self.pace.keep()
        before, given = None, agent.limits
        if continue_from is not None:
            before, agent = self._continued(continue_from, agent, history, another_agent)
            history = before.history
        text, task = task, _checked_start(task if before is None else before.task, history)
        if text is not None:
            _checked_start(text, ())
        _check_mode(mode)
        check_observed(agent, self._guards)
        origin = Origin(parent) if parent is not None else None
        if origin is not None:
            origin.check(agent)
            if origin.parent.executor is not None:
                origin.parent.executor.take_grips()
        above = [origin.purse if origin is not None else self.budget]
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
            origin=origin,
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
        if origin is not None:
            origin.add(run, task, history)
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
        origin: Origin | None = None,
        history: Sequence[Message] = (),
        mode: GuardMode | None = None,
        attended: bool | None = None,
        unfinished: Sequence[Unfinished] = (),
        shared: str = "",
    ) -> Run:
        parent = origin.parent if origin is not None else None
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
            grips_above=origin.grips if origin is not None else NOTHING_ABOVE,
            within=origin.tools if origin is not None else (),
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
        check_observed(agent, self._guards)
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
                        await self.pace.keep()
                        await run.seams.enter()
                        await perform(run, run.tasks, self._shares)
                except anyio.get_cancelled_exc_class():
                    if await self._cancelled_from_without():
                        if run.attempt.lease is not None:
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
                            await (self.worker.give_back if run.attempt.lease is not None else self.worker.forget)(run)
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
        return self.worker is not None and run.parent is None and run.attempt.lease is None

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

    # -- parts -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Supervisor]:
        self.seams.bind()
        self.pace = Pace(self.seams.clock, SLICE if self.seams.paced else math.inf)
        self._locks = Locks()
        self._threads = Threads(self.seams)
        self.approver_threads = Threads(self.seams)
        self._shares = Shares(
            self._detectors, self._guards, self._prices, self._provider_of, self._locks, self._threads, self._rush
        )
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
                if run.parent is None and run.attempt.lease is not None:
                    run.break_off("suspended")
                else:
                    run.cancel("supervisor_closed")
            for run in left:
                await run.wait()

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

    def _loop_blocked(self, seconds: float, frame: str) -> None:
        now = self.seams.clock()
        open_runs = [run for run in self.runs.values() if run.executor is not None and not run.log.closed]
        open_runs.sort(key=lambda run: run.log.began + run.log.last_t, reverse=True)
        for run in open_runs[:BLAMED]:
            assert run.executor is not None
            # The call that held the loop has ended by now, as a rule: what a run has just done counts too.
            if run.executor.doing() or now - run.log.began - run.log.last_t < seconds:
                run.log.append(LoopBlocked, seconds=seconds, frame=frame)


def _supply_of(budget: str) -> Supply:
    from .shared import SharedBudget
    from .supply import Supply

    return Supply(SharedBudget(budget))


def _spec_of(run: Run, text: str, token: str, mode: GuardMode | None, attended: bool | None, budget: str) -> RunSpec:
    """What another attempt needs to go on with a run that was started here."""
    from .continuing import code_of
    from .engine import RunSpec

    return RunSpec(
        agent=run.agent.name,
        task=text if token else run.task,
        history=() if token else run.history.messages(),
        continue_from=token,
        mode=mode,
        attended=attended,
        code=code_of(run.agent),
        budget=budget,
    )


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
