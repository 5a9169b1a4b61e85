"""The worker's side of an engine: takes leases, finds out who executes them, and gives them back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from . import failures, plugins, reports
from .agent import Agent
from .continuing import code_of
from .engine import Answered, Cancel, Engine, EngineError, HandOver, Lease, RunSpec
from .errors import ConfigurationError, WatchkeeperError
from .messages import RunStarted, Status
from .orphans import close_unexecuted
from .profiles import limits_with
from .recalling import Before, before
from .run import Ending, Run
from .rush import Rush

if TYPE_CHECKING:
    from .messages import Event
    from .supervisor import Supervisor

Maker = Agent | Callable[[RunSpec], Agent]
"""An agent, or a function that makes one for a run."""

AGAIN = 1.0
"""Seconds after which an engine that gives no leases is asked again."""
AT_ONCE = 16
"""Runs that are recovered side by side: the facts of all that a dead worker had, read at once, would hold the loop."""
WHY = 2_000
"""Characters of why a run is refused that its status says."""
GIVING_BACK = 10.0
"""Seconds that a lease may take to be given back; after that it counts as died."""


class Worker:
    """Executes the runs of an engine in one supervisor, side by side up to its bound.

    A run that cannot be executed here (nobody knows its agent, or the agent's code is another one) stays as it is and
    is named in ``refused``; it can be cancelled.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        engine: Engine,
        agents: Mapping[str, Maker],
        *,
        name: str,
        any_code: bool,
        most: int,
        rush: Rush,
    ) -> None:
        self._supervisor = supervisor
        self._engine = engine
        self._agents = dict(agents)
        self._name = name
        self._any_code = any_code
        self._most = most
        self._rush = rush
        self._expected: dict[str, Run] = {}
        """Runs that were started here and have no lease yet."""
        self._forgotten: dict[str, Ending] = {}
        """How runs have ended that were started here, as long as a lease of them may still come."""
        self._taken: dict[str, Lease] = {}
        self.refused: dict[str, str] = {}
        """Runs that cannot be executed here, and why."""
        self._refusing: set[anyio.CancelScope] = set()
        self._places = anyio.Semaphore(AT_ONCE)
        self.draining = False

    def offer(self, agents: Mapping[str, Maker]) -> None:
        """Execute what is leased from now on with these agents, and look again at what was refused."""
        self._agents = dict(agents)
        for scope in self._refusing:
            scope.cancel()

    async def run(self, tasks: anyio.abc.TaskGroup) -> None:
        """Take leases until the engine is left."""
        self._tasks = tasks
        leases: AsyncIterator[Lease] | None = None
        while True:
            try:
                if leases is None:
                    leases = aiter(self._engine.leases(self.capacity, worker=self._name))
                self._take(await anext(leases))
                continue
            except StopAsyncIteration:
                leases = None
            except EngineError as error:  # the same iterator goes on: another one would cost the runs their leases
                reports.report("leases_failed", cause=str(error))
            await anyio.sleep(AGAIN)

    def capacity(self) -> int:
        """Runs that may still be taken."""
        return 0 if self.draining else self._most - len(self._taken)

    async def expect(self, run: Run, spec: RunSpec) -> None:
        """Submit a run that was started here: its lease is this very run's. Raises :class:`EngineError`."""
        self._expected[run.id] = run
        self._agents.setdefault(spec.agent, run.agent)
        try:
            await self._engine.submit(spec, run=run.id)
        except BaseException:
            del self._expected[run.id]
            raise

    async def forget(self, run: Run) -> None:
        """A run that was started here has ended before it had a lease: nobody is to execute it any more. A lease that
        is on its way closes it."""
        self._expected.pop(run.id, None)
        if run.attempt.broken is not None or run.ending is None:
            return
        self._forgotten[run.id] = run.ending
        try:
            await self._engine.cancel(run.id, run.ending.reason, run.mode or "now")
            if (await self._engine.get(run.id)).state == "ended":
                self._forgotten.pop(run.id, None)
        except WatchkeeperError as error:
            reports.report("cancel_not_kept", run=run.id, cause=str(error))

    async def give_back(self, run: Run) -> None:
        """An attempt is over. Of one that ended before it had a journal nothing is kept: it gets its end here, and what
        has failed is held, for another attempt would fail in the same way."""
        attempt, held = run.attempt, ""
        lease, obedience, ends = attempt.lease, attempt.obedience, attempt.broken is None
        assert lease is not None
        self._rush.end(run.id)
        await self._rush.over()
        with anyio.move_on_after(GIVING_BACK):
            if obedience is not None:
                await obedience.close(ended=ends)
            if ends and not run.log.is_journaled:
                held = await self._close_unbegun(run.ending, lease)
            if not held:
                await self._release(lease, suspended=attempt.broken == "suspended")
        self._leave(lease)
        if held:
            self._tasks.start_soon(self._refuse, lease, held, name=f"refused {lease.run}")

    async def _close_unbegun(self, ending: Ending | None, lease: Lease) -> str:
        """Why it cannot be ended, if it cannot."""
        if ending is None or ending.status == "failed":
            return (ending and ending.cause) or "the run ended without a reason"
        try:
            await self._close(lease, ending.status, ending.reason)
        except Exception as error:
            return failures.full_text(error, self._supervisor.redaction)
        return ""

    async def drain(self, seconds: float) -> None:
        """Take no further lease, and suspend the runs: each after its turn, or when the time is up."""
        self.draining = True
        runs = [run for run in self._supervisor.runs.values() if run.parent is None]
        for run in runs:
            run.attempt.draining = True
            if run.attempt.lease is None:
                run.break_off("suspended")
        with anyio.move_on_after(seconds):
            for run in runs:
                while run.outcome is None and run.ending is None and not run.rests:
                    await run.changed()
        for run in runs:
            run.break_off("suspended")

    # -- a lease -------------------------------------------------------------------------------------------------------

    def _take(self, lease: Lease) -> None:
        self._taken[lease.run] = lease
        run = self._expected.pop(lease.run, None)
        ending = self._forgotten.pop(lease.run, None)
        if run is not None:
            run.attempt.lease = lease
            run.notify()
        elif ending is not None:
            self._tasks.start_soon(self._close_forgotten, lease, ending, name=f"forgotten {lease.run}")
        else:
            self._tasks.start_soon(self._lead, lease, name=f"lease {lease.run}")

    def _leave(self, lease: Lease) -> None:
        """It takes no room any more. Another lease of the same run may have been given since."""
        if self._taken.get(lease.run) is lease:
            del self._taken[lease.run]

    async def _close_forgotten(self, lease: Lease, ending: Ending) -> None:
        """Its run has ended here before the lease came: what it ended with is its end."""
        held = await self._close_unbegun(ending, lease)
        if not held:
            await self._release(lease)
        self._leave(lease)
        if held:
            await self._refuse(lease, held)

    async def _lead(self, lease: Lease) -> None:
        try:
            async with self._places:
                run = await self._made(lease, [event async for event in lease.facts()])
        except EngineError as error:
            reports.report("lease_failed", run=lease.run, cause=str(error))
            await anyio.sleep(AGAIN)
            await self._release(lease, suspended=True)  # no crash: none of the run was executed
            self._leave(lease)
        except ConfigurationError as error:
            self._leave(lease)
            await self._refuse(lease, str(error))
        except Exception as error:  # a defect of ours, or of a host's: it is no other run's
            self._leave(lease)
            await self._refuse(lease, failures.full_text(error, self._supervisor.redaction))
        else:
            if run is not None:
                await self._supervisor.lead(run)

    async def _made(self, lease: Lease, facts: list[Event]) -> Run | None:
        """The run, as far as it can be executed here. None: it has its end already, or is for another attempt."""
        earlier: Before | None = None
        spec, supervisor = lease.spec, self._supervisor
        agent = self._agent_of(spec, next((fact.code for fact in facts if isinstance(fact, RunStarted)), ""))
        if facts:
            earlier = await before(lease, facts, supervisor.seams, supervisor.wording)
            if earlier.past.ended:
                await self._release(lease)
                self._leave(lease)
                return None
        if self.draining:  # nobody waits for it any more
            await self._release(lease, suspended=True)
            self._leave(lease)
            return None
        run = supervisor.run_of(spec, agent, lease.run)
        run.attempt.lease, run.attempt.before = lease, earlier
        if run.supply is not None:
            try:
                await run.supply.open(lease)
            except BaseException:
                supervisor.leave(run)
                raise
        return run

    def _agent_of(self, spec: RunSpec, started: str) -> Agent:
        """Who executes it. Raises :class:`ConfigurationError` if that cannot be anybody here."""
        maker = self._agents.get(spec.agent)
        if maker is None:  # looking entry points up takes some ten milliseconds
            maker = self._agents[spec.agent] = plugins.load_agent(spec.agent)
        try:
            agent = maker if isinstance(maker, Agent) else maker(spec)
        except (Exception, SystemExit) as error:
            raise ConfigurationError(
                f"the agent {spec.agent!r} could not be made: {failures.full_text(error)}"
            ) from error
        if not isinstance(agent, Agent):
            raise ConfigurationError(f"the agent {spec.agent!r} is {type(agent).__name__}, and no watchkeeper.Agent")
        wanted = spec.code or started
        named = agent.named(spec.agent)
        if wanted and wanted not in (code_of(named), code_of(agent)) and not self._any_code:
            raise ConfigurationError(
                f"the instructions or tools of the agent {spec.agent!r} are not those that the run was begun with; "
                "execute it with the code that it had, cancel it, or let it go on with any: Supervisor(any_code=True)"
            )
        return named.within(limits_with(spec.limits, named.limits)) if spec.limits else named

    async def _refuse(self, lease: Lease, why: str) -> None:
        """Hold a run that cannot be executed here, so that nobody tries again and again. It can be cancelled."""
        self.refused[lease.run] = why
        reports.report("run_refused", run=lease.run, cause=why)
        scope = anyio.CancelScope()
        self._refusing.add(scope)
        try:
            with scope:
                try:
                    await lease.refuse(self._supervisor.redaction.text(why)[:WHY])
                except EngineError as error:
                    reports.report("refusal_not_kept", run=lease.run, cause=str(error))
                await self._obey_refused(lease, why)
        except EngineError as error:
            reports.report("lease_failed", run=lease.run, cause=str(error))
            await anyio.sleep(AGAIN)
        finally:
            self._refusing.discard(scope)
            del self.refused[lease.run]
            with anyio.CancelScope(shield=True), anyio.move_on_after(GIVING_BACK):
                await self._release(lease, suspended=True)

    async def _obey_refused(self, lease: Lease, why: str) -> None:
        """Until it is cancelled, or the lease is over."""
        async for command in lease.commands():
            if not isinstance(command, Cancel | HandOver):
                await lease.settle(command, Answered(id=command.id, taken=False, why=why))
                continue
            status: Status = "cancelled" if isinstance(command, Cancel) else "handed_over"
            try:
                await self._close(lease, status, command.reason)
            except EngineError:
                raise
            except Exception as error:
                cause = failures.full_text(error, self._supervisor.redaction)
                await lease.settle(command, Answered(id=command.id, taken=False, why=cause))
                continue
            await lease.settle(command, Answered(id=command.id, taken=True))
            break

    async def _close(self, lease: Lease, status: Status, reason: str) -> None:
        await close_unexecuted(lease, self._supervisor.seams, self._supervisor.wording, status, reason)

    async def _release(self, lease: Lease, *, suspended: bool = False) -> None:
        try:
            await lease.release(suspended=suspended)
        except EngineError as error:
            reports.report("release_failed", run=lease.run, cause=str(error))
