"""The actors of a run: how they are wired, in which order they start, and what ends the run beside what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .actors.agent import AgentActor
from .actors.executor import Batch, Executor
from .actors.watchdog import Watchdog
from .decisions import Answer
from .detect.judge import Judge
from .detect.silence import Silence
from .hooks import Hooks
from .log import JOURNAL, Reader
from .messages import RunStarted, UserMessage
from .recalling import recall, take_up
from .run import Ending, Run

if TYPE_CHECKING:
    from .actors.journal import Journal
    from .detect.detector import Factory
    from .engine import Lease
    from .guards.guard import GuardFactory
    from .locks import Locks
    from .memory.recollection import Recollection
    from .memory.store import Store
    from .model import Model
    from .prices import Prices
    from .provider import Provider
    from .rush import Rush
    from .shared import Charges
    from .threads import Threads

TICK = 1e-6
"""Seconds that a wait for a deadline takes at least: what is left of one by rounding is less than a clock can show."""


class Shares(NamedTuple):
    """What all runs of a supervisor share."""

    detectors: Sequence[Factory]
    guards: Sequence[GuardFactory]
    prices: Prices
    provider_of: Callable[[Model], Provider]
    locks: Locks
    threads: Threads
    rush: Rush


async def perform(run: Run, tasks: anyio.abc.TaskGroup, shares: Shares) -> None:
    """Wire the three actors and start them, then wait until something ends the run."""
    agent, log, wording = run.agent, run.log, run.supervisor.wording
    profile = agent.profile
    log.begin()
    run.begin(log.began)
    run.move("running")
    lease, earlier = run.root.attempt.lease, run.attempt.before
    if run.supply is not None and lease is not None and not run.supply.is_open:
        await run.supply.open(lease)
    judge = run.judge = Judge(
        profile.thresholds,
        mode=run.guard_mode,
        attended=run.attended,
        extra=shares.detectors,
        wording=wording,
    )
    watchdog = run.watchdog = Watchdog(run, judge, Silence(profile.thresholds.silence))
    hooks = Hooks(run, shares.guards, prices=shares.prices, provider_of=shares.provider_of, threads=shares.threads)
    hooks.attach()
    if agent.memory is not None:
        run.memory = _recollection(run, agent.memory, shares.threads)
    run.executor = Executor(
        run,
        agent.tools,
        hooks.calls,
        budget=run.budget,
        locks=shares.locks,
        threads=shares.threads,
        tasks=tasks,
        wording=wording,
        parallel=agent.limits.parallel,
        writers_alone=profile.writers_alone,
        unfinished=run.unfinished,
        looked=hooks.looked,
    )
    run.actor = AgentActor(
        run,
        agent,
        run.history,
        run.evidence,
        budget=run.budget,
        provider=shares.provider_of(agent.model),
        prices=shares.prices,
        wording=wording,
        examiner=hooks.examiner,
        examined=hooks.examined,
        heard=hooks.heard,
        bench=hooks.bench,
    )
    turns = recall(run, earlier.facts, earlier.past, hooks.calls) if earlier is not None else None
    known = earlier.past.n if earlier is not None else 0
    if run.observed is not None:
        run.observed.skip(known)
    run.reader = log.reader("watchdog", after=known, must=True, look=partial(_catch_up, run), alarm=run.notify)
    if lease is not None:
        _keep_journal(run, lease, known, tasks, shares.rush)
    if earlier is not None and turns is not None:
        take_up(run, earlier, turns, hooks.calls, lease.attempt if lease is not None else 0)
        earlier = run.attempt.before = earlier._replace(facts=())  # there may be many, and the run may be long
        if run.ending is not None:  # all that is left is to write its end
            run.agent_ended()
            return
    else:
        _write_start(run, lease)
    send, receive = anyio.create_memory_object_stream[Batch](1)
    tasks.start_soon(_execute, run, receive)
    run.agent_task = tasks.start_soon(_think, run, send)
    await _until_end(run, watchdog, run.reader)


def _write_start(run: Run, lease: Lease | None) -> None:
    agent, log, code = run.agent, run.log, ""
    if lease is not None:
        from .continuing import code_of

        code = code_of(agent)
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
        code=code,
    )
    log.user_turn += 1
    log.append(UserMessage, text=run.opening)


def _keep_journal(run: Run, lease: Lease, known: int, tasks: anyio.abc.TaskGroup, rush: Rush) -> None:
    """Facts behind number ``known`` are made durable from here on; of a root, commands from outside are taken."""
    from .actors.journal import Journal
    from .obeying import Obedience

    reader = run.log.reader(JOURNAL, after=known, must=True)
    charges = _charges_of(run) if run.root.supply is not None else None
    tasks.start_soon(_write_journal, run, Journal(run, lease, charges), reader)
    if run.parent is None:
        before = run.attempt.before
        taken = before.commands if before is not None else set()
        obedience = run.attempt.obedience = Obedience(run, lease, taken, rush)
        tasks.start_soon(obedience.run)


async def _write_journal(run: Run, journal: Journal, reader: Reader) -> None:
    # It must see the end, whoever cancels: it returns when the log closes, or is given up by the winding up.
    try:
        with anyio.CancelScope(shield=True) as run.journal_scope:
            await journal.run(reader)
    except Exception as error:
        run.crashed(error)


async def _think(run: Run, batches: MemoryObjectSendStream[Batch]) -> None:
    assert run.actor is not None
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


async def _execute(run: Run, batches: MemoryObjectReceiveStream[Batch]) -> None:
    assert run.executor is not None
    # It needs no cancel: it ends when the agent closes its end of the channel, and cancels its calls itself.
    try:
        async with batches:
            await run.executor.run(batches)
    except Exception as error:
        run.crashed(error)


def _catch_up(run: Run) -> None:
    """The watchdog looks, in the task of whoever waits for it."""
    assert run.watchdog is not None
    assert run.reader is not None
    try:
        run.watchdog.catch_up(run.reader)
    except Exception as error:
        run.reader.close()
        run.crashed(error)


async def _until_end(run: Run, watchdog: Watchdog, reader: Reader) -> None:
    """Wait for an ending; time limits, deadlines of pause and cancel, and silence make one. The watchdog is at work
    here where nobody else waits for it; the last facts it reads in the winding up."""
    clock, executor = run.supervisor.seams.clock, run.executor
    assert executor is not None
    while run.ending is None:
        if reader.has_backlog:
            _catch_up(run)
            continue
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


def _recollection(run: Run, store: Store, threads: Threads) -> Recollection:
    from .memory.recollection import Recollection

    memory = Recollection(store, threads, run.log, run.supervisor.wording)
    run.log.attach(memory)
    return memory


def _charges_of(run: Run) -> Charges:
    """What its facts take of a shared budget from now on."""
    from .shared import Charges

    assert run.executor is not None
    charges = Charges(run.executor.counted)
    before = run.attempt.before
    charges.take(before.facts if before is not None else ())
    return charges


def _is_cancel(error: BaseException) -> bool:
    return isinstance(error, anyio.get_cancelled_exc_class())
