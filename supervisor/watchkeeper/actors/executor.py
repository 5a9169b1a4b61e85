"""The executor: admits a batch of calls, plans it, runs it, and gives each call exactly one result."""

from __future__ import annotations

import contextvars
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from .. import failures, outputs, reports
from ..admission import SHOWN_ARGUMENTS, Admission, Slot
from ..approvals import Pending, intact
from ..arguments import MAX_CHARACTERS
from ..budget import Hold, Short
from ..current import HERE, Here
from ..errors import Transient
from ..fingerprint import call_key, result_key
from ..guards.guard import CallGuard
from ..guards.result import Left, Output
from ..locks import Grip, Locks
from ..log import JOURNAL
from ..messages import (
    Call,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallReplaced,
    CallStarted,
    EvidenceFound,
    Held,
    Result,
    Settled,
)
from ..occurrences import Occurrences, Unfinished
from ..planner import Plan, is_shared
from ..recovery.past import Past
from ..redaction import MARK
from ..results import Results, Settlement
from ..retry import Again, GivingUp, RetryPolicy, retrying
from ..threads import Job, NoThread, Threads
from ..tools import READS, WRITES, Effect, Tool
from ..trampoline import awaiting, frame_of, in_context
from .approving import resolution_of
from .leftover import Happened, Leftover

if TYPE_CHECKING:
    from ..budget import Budget
    from ..run import Run
    from ..wording import Wording

CHECKPOINT = 16
"""Calls that a worker runs before it lets the loop go round: without it no-op calls block the loop for 140 ms."""


class Batch:
    """The calls of one turn. ``done`` is set when each has its result in the log. ``shown``: the calls without secrets,
    if whoever sends them has these already."""

    __slots__ = ("again", "calls", "done", "shown", "tools_off")

    def __init__(
        self,
        calls: Sequence[Call],
        tools_off: bool = False,
        shown: Sequence[Call] | None = None,
        *,
        again: bool = False,
    ) -> None:
        self.calls = calls
        self.shown = shown
        self.tools_off = tools_off
        self.again = again
        """The turn was begun by an attempt that died: calls that have their result keep it."""
        self.done = anyio.Event()


class Executor:
    """The actor. Its calls run as tasks of the supervisor, not of the run: one that will not stop is left behind."""

    def __init__(
        self,
        run: Run,
        tools: Mapping[str, Tool],
        guards: Sequence[CallGuard],
        *,
        budget: Budget,
        locks: Locks,
        threads: Threads,
        tasks: anyio.abc.TaskGroup,
        wording: Wording,
        parallel: int,
        writers_alone: bool = False,
        unfinished: Sequence[Unfinished] = (),
        looked: Callable[[Output], Left] | None = None,
    ) -> None:
        """``looked``: what guards leave of what a call gave."""
        self._run = run
        self._log = run.log
        self._clock = run.seams.clock
        self._admission = Admission(
            tools,
            guards,
            wording,
            budget,
            writers_alone=writers_alone,
            redaction=run.log.redaction,
            approvals=run.asking,
        )
        self._locks = locks
        self._threads = threads
        self._tasks = tasks
        self._results = Results(wording, run.id[-6:], run.log.redaction, looked)
        self._parallel = parallel
        self._above = run.grips_above
        self._occurrences = Occurrences(run.id, unfinished)
        self._asking = 0
        """Calls that wait for their approval."""
        self._ready: deque[Slot] = deque()
        self._open: dict[str, Slot] = {}
        self._batch: Batch | None = None
        self._batches: MemoryObjectReceiveStream[Batch] | None = None
        self._leading: Slot | None = None
        """The call that runs in the task which reads the batches."""
        self._productive: list[str] = []
        self._leftover = Leftover(run, threads)
        self._workers = 0
        self._scopes: set[anyio.CancelScope] = set()
        self._why: str | None = None

    async def run(self, batches: MemoryObjectReceiveStream[Batch]) -> None:
        """Deal with batches, one after the other, until the sender closes or the run is ended.

        The task that reads them works at their calls too, so that a call which does not wait costs no other task. A
        call that is given up keeps the task that it runs in: another one goes on reading then.
        """
        self._batches, reads = batches, True
        while reads and self._why is None:
            # One scope for many batches: only a call that runs into its deadline, or a cancel, uses it up.
            with anyio.CancelScope() as scope:
                reads = await self._lead(batches, scope)
            self._spawn()

    async def _lead(self, batches: MemoryObjectReceiveStream[Batch], scope: anyio.CancelScope) -> bool:
        """Deal with batches within this scope. False: there is nothing more to read, or not for this task."""
        async for batch in batches:
            if self._why is not None:
                return False  # it came too late: whoever ends the run gives its calls their results
            self._batch = batch
            if batch.again:
                await self._look_what_happened(batch)
            if self._run.root.supply is not None:
                await self._supplied(batch)
            slots = self._admit(batch)
            if self._why is not None:
                self.cancel(self._why)
            if not self._open:
                self._all_settled()
                continue
            free = [slot for slot in slots if not slot.waits]
            if self._log.lags:
                await self._caught_up()  # approvals may come, and make their calls ready themselves
            for slot in free:
                if not slot.settled:
                    self._make_ready(slot)
            if self._asking:
                self._look_still()
            if self._takes_worker() and not await self._work(scope, leads=True):
                return False
            if scope.cancel_called:
                return True
        return False

    async def _read_on(self, batches: MemoryObjectReceiveStream[Batch]) -> None:
        """In the place of a task that was given up with its call."""
        try:
            async with batches:
                await self.run(batches)
        except Exception as error:
            self._run.crashed(error)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """What waits here ends with :meth:`cancel`."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    async def _caught_up(self) -> None:
        with self._stoppable():
            await self._log.caught_up()

    async def _supplied(self, batch: Batch) -> None:
        """Have a shared budget grant what the calls of a batch may take."""
        calls = [call for call in batch.calls if not self._is_settled(batch, call)]
        with self._stoppable():
            await self._run.ready(self._admission.wanted(calls))

    def take_up(self, past: Past, wrote: Collection[str] = ()) -> None:
        """Go on where an attempt that died has left the calls of a turn. ``wrote``: those whose sub-agent had begun to
        write; they are not run again."""
        self._leftover.take_up(past, wrote)
        self._productive = list(past.productive)
        self._occurrences = Occurrences(self._run.id, past.unknown, past.keys)

    def remember(self, call: Call, turn: int, t: float, upto: str | None) -> None:
        """As :meth:`.Admission.remember`, of a call that has its result."""
        slot = self._admission.slot_of(call, turn, t)
        if slot is not None:
            self._admission.remember(slot, upto)

    def counted(self, tool: str) -> Mapping[str, float]:
        """What a call of a tool counts in."""
        return self._admission.counted(tool)

    def draw_from(self, budget: Budget) -> None:
        """From the next batch on calls are paid from this budget: the run's, or that of a step of its plan."""
        self._admission.draw_from(budget, "of the run" if budget is self._run.budget else "of this step")

    def _all_settled(self) -> None:
        if self._productive:
            self._log.append_clean(EvidenceFound, calls=tuple(self._productive))
            self._productive.clear()
        if self._batch is not None:
            self._batch.done.set()
        self._tell_rest()

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The agent's, and those that were offered since, by name."""
        return self._admission.tools

    def offer(self, tool: Tool) -> None:
        """One more tool, from now on."""
        self._admission.offer(tool)

    def cancel(self, why: str) -> None:
        """Stop: what has not started gets ``not_run`` at once, what runs is cancelled. Idempotent, never waits."""
        self._why = why
        self._ready.clear()
        self._run.asking.cancel(why)
        for scope in list(self._scopes):
            scope.cancel()
        for slot in list(self._open.values()):
            if slot.started is None:
                try:
                    settlement = self._results.not_run(slot, f"the run was ended first ({why})")
                except Exception as error:  # a host's wording: the end must not depend on it
                    settlement = self._results.crashed(slot, error)
                self._settle(slot, settlement)

    def abandon(self) -> list[str]:
        """Give up on what still runs: each gets ``abandoned`` and is named with where it is. Returns the names."""
        return [self._give_up(slot) for slot in list(self._open.values())]

    def overdue(self, now: float) -> float | None:
        """Give up on calls that did not stop at their deadline, a grace period after it, so that the run goes on.
        Returns the seconds until it is worth looking again; None if nothing has a deadline."""
        grace = self._run.agent.limits.grace
        soonest: float | None = None
        for slot in list(self._open.values()):
            if slot.deadline is None:
                continue
            left = slot.deadline + grace - now
            if left <= 0:
                # Its worker is gone with it: another one may take its place.
                slot.lost = True
                self._workers -= 1
                if slot is self._leading and self._batches is not None:
                    self._tasks.start_soon(self._read_on, self._batches.clone(), name="watchkeeper batches")
                name = self._give_up(slot)
                reports.report("call_abandoned", run=self._run.id, call=name)
                self._spawn()
            elif soonest is None or left < soonest:
                soonest = left
        return soonest

    def _give_up(self, slot: Slot) -> str:
        frame = slot.job.frame() if slot.job is not None else frame_of(slot.coroutine)
        slot.grip = slot.grip or self._grip(slot)
        self._locks.abandon(slot.grip)
        self._settle(slot, self._results.abandoned(slot, frame))
        return f"{slot.tool.name} at {frame or 'an unknown place'}"

    @property
    def waits_for_people(self) -> bool:
        """Nothing goes on but waiting for approvals."""
        return self._asking > 0 and not self._workers and not self._ready

    @property
    def at_rest(self) -> bool:
        """Nothing runs any more: every call has its result and every worker has ended."""
        return not self._open and not self._workers

    def _tell_rest(self) -> None:
        """Whoever ends the run waits for it."""
        if self.at_rest and self._run.ending is not None:
            self._run.notify()

    def grip_of(self, call_id: str) -> Grip | None:
        slot = self._open.get(call_id)
        return slot.grip if slot is not None else None

    def doing(self) -> list[dict[str, Any]]:
        """What runs right now: tool, call, seconds."""
        now = self._clock()
        return [
            {"call": slot.call_id, "tool": slot.tool.name, "seconds": round(now - slot.started, 3)}
            for slot in self._open.values()
            if slot.started is not None
        ]

    # -- what an attempt that died has left ----------------------------------------------------------------------------

    async def _look_what_happened(self, batch: Batch) -> None:
        """Ask the tools that can tell whether a call had its effect."""
        with self._stoppable():
            for call in batch.calls:
                happened = await self._leftover.look(call, self.tools)
                if happened is not None:
                    self._has_happened(call, happened)

    def _has_happened(self, call: Call, happened: Happened) -> None:
        slot = self._admission.slot_of(call, self._log.turn, self._clock(), happened.tool)
        if slot is not None:
            self._leftover.known(call.id)
            self._occurrences.known(happened.key)
            self._admission.known(happened.key)
            self._answer(call, self._results.finished(slot, happened.value).result, slot)

    def _is_settled(self, batch: Batch, call: Call) -> bool:
        entry = self._run.ledger.entries.get(call.id) if batch.again else None
        return entry is not None and entry.ended > 0

    # -- admit and plan: no await from here to the plan's end --------------------------------------------------------

    def _admit(self, batch: Batch) -> list[Slot]:
        plan = Plan()
        slots: list[Slot] = []
        planned: list[Slot] = []
        same: dict[str, tuple[Slot, tuple[int, ...]]] = {}
        redaction = self._log.redaction
        shown = batch.shown if batch.shown is not None else redaction.anything(batch.calls)
        for call, seen in zip(batch.calls, shown, strict=True):
            if self._is_settled(batch, call):
                continue
            begun = self._leftover.begun(call.id)
            if begun is None:
                self._log.append_clean(
                    CallProposed,
                    slot=call.slot,
                    call_id=call.id,
                    tool=seen.tool,
                    arguments=seen.arguments[:MAX_CHARACTERS],
                )
            if batch.again and MARK in call.arguments:
                self._answer(seen, self._results.withheld(call), None)
                continue
            if self._leftover.wrote(call.id):
                self._answer(seen, self._results.unknown(seen), None)
                continue
            slot, result = self._admission.consider(
                call, self._log.turn, self._clock(), tools_off=batch.tools_off, shown=seen
            )
            if slot is not None and slot.replacements and (begun is None or not begun.admitted):
                self._tell_replaced(slot)
            if slot is not None and begun is not None:
                slot.begun = begun.attempts
            if result is not None:
                self._answer(seen, result, slot)
                if result.by == "calls":
                    self._run.calls_over_limit = True
                continue
            assert slot is not None
            if slot.hold is not None:
                self._log.append(Held, slot=call.slot, amounts=slot.hold.amounts, held=slot.hold.id)
            slots.append(slot)
            self._open[call.id] = slot
            effect = slot.effect
            waits = plan.add(effect)
            planned.append(slot)
            # A call that waits for a yes of its own takes no other's result, and gives its own to none.
            alone = effect.writes or (slot.asked is not None and bool(slot.asked.left))
            first = same.get(slot.identity) if not alone else None
            if first is not None and first[1] == waits and not slot.tool.poll:
                first[0].sharers = [*(first[0].sharers or ()), slot]
                slot.waits = 1
            else:
                if not alone:
                    same[slot.identity] = (slot, waits)
                slot.waits = len(waits)
                for number in waits:
                    before = planned[number]
                    if before.dependents is None:
                        before.dependents = []
                    before.dependents.append(slot)
            if begun is None or not begun.admitted:
                named = effect if effect is READS or effect is WRITES else redaction.anything(effect)
                self._log.append_clean(
                    CallAdmitted,
                    slot=call.slot,
                    call_id=call.id,
                    tool=slot.tool.name,
                    key=slot.key,
                    reads=named.reads,
                    writes=named.writes,
                    waits_for=tuple(planned[number].slot for number in waits) if waits else (),
                    repaired=slot.repaired,
                )
            if slot.asked is not None:
                self._ask(slot)
        return slots

    def _ask(self, slot: Slot) -> None:
        """It runs on earlier words, or waits for one of its own, as for a call before it: without a worker, without a
        grip on what it touches."""
        asked, asking = slot.asked, self._run.asking
        assert asked is not None
        asking.lifted(asked, slot.call_id, slot.tool.name, slot.slot)
        if not asked.left:
            return
        slot.waits += 1
        self._asking += 1
        pending = asking.request(slot.call_id, slot.tool, slot.arguments, slot.fresh_values(), asked.left, slot.slot)
        if self._run.stopping_after_turn is not None:
            asking.cancel(self._run.stopping_after_turn)
        self._tasks.start_soon(self._wait_for_approval, slot, pending, name=f"approval {slot.tool.name}")

    async def _wait_for_approval(self, slot: Slot, pending: Pending) -> None:
        try:
            with self._stoppable():
                await resolution_of(pending, self._run)
        finally:
            self._asking -= 1
            self._go_on(slot, pending)

    def _go_on(self, slot: Slot, pending: Pending) -> None:
        """An approval is resolved: its call may run now, or has its result."""
        resolution = pending.resolution
        assert resolution is not None
        if not slot.settled:
            try:
                if resolution.permits:
                    slot.waits -= 1
                    if not slot.waits:
                        self._make_ready(slot)
                else:
                    self._settle(slot, self._results.not_approved(slot, pending.approval, resolution))
            except Exception as error:  # a host's wording
                self._crashed(slot, error)
        self._spawn()
        self._look_still()

    def _look_still(self) -> None:
        """A person's time is no working time: while nothing else goes on here, the run's stands still."""
        self._run.waits_for_person(self.waits_for_people)

    def _tell_replaced(self, slot: Slot) -> None:
        for by, tool, instead, arguments, why in slot.replacements:
            self._log.append(
                CallReplaced,
                slot=slot.slot,
                call_id=slot.call_id,
                by=by,
                tool=tool,
                instead=instead,
                arguments=arguments,
                why=why,
            )

    def _answer(self, call: Call, result: Result, slot: Slot | None) -> None:
        result = self._leftover.as_unknown(result)
        if slot is not None:
            key, shown = slot.key, slot.shown
            if slot.heading:
                result = msgspec.structs.replace(result, heading=slot.heading)
        else:
            shown = call.arguments[:SHOWN_ARGUMENTS]
            key = call_key(result.tool, call.arguments.encode("utf-8", "replace"))
        self._log.append(CallEnded, slot=call.slot, result=result, key=key, arguments=shown)
        if result.productive:
            self._productive.append(call.id)

    # -- run ---------------------------------------------------------------------------------------------------------

    def _make_ready(self, slot: Slot) -> None:
        """All calls before it have ended: wait for what is outside the batch, or queue for a worker."""
        if self._why is not None:
            return
        if not slot.not_before and self._apart(slot.effect):
            self._ready.append(slot)
            return
        slot.grip = self._grip(slot)
        if slot.not_before <= self._clock() and self._locks.try_take(slot.grip):
            self._ready.append(slot)
        else:
            self._tasks.start_soon(self._wait_outside, slot, name=f"wait {slot.tool.name}")

    def _apart(self, effect: Effect) -> bool:
        """Nobody outside the batch can touch what the call touches: no sub-agents, no shared names, nothing left
        behind. Then the plan alone keeps the calls apart."""
        if self._run.root.descendants or self._locks.any_abandoned:
            return False
        return effect is READS or effect is WRITES or not any(map(is_shared, (*effect.reads, *effect.writes)))

    def _grip(self, slot: Slot) -> Grip:
        return Grip(self._run.tree, self._batch, self._above, slot.effect, slot.tool.name)

    def take_grips(self) -> None:
        """A sub-agent is about to start: from now on what runs here must be seen by others."""
        for slot in self._open.values():
            if slot.grip is None and (slot.started is not None or slot in self._ready):
                slot.grip = self._grip(slot)
                self._locks.add(slot.grip)

    async def _wait_outside(self, slot: Slot) -> None:
        """Wait without a worker: waiting calls must not fill the places of those that could run."""
        with self._stoppable():
            await anyio.sleep(max(slot.not_before - self._clock(), 0.0))
            await self._log.caught_up()
            assert slot.grip is not None
            await self._locks.take(slot.grip)
            self._ready.append(slot)
        self._spawn()

    def _spawn(self) -> None:
        """One more worker if there is work for it. A worker that never waits needs no second one beside it."""
        if self._takes_worker():
            self._tasks.start_soon(self._work_apart, name="watchkeeper worker")

    def _takes_worker(self) -> bool:
        """Whether there is work for one more worker, which is counted then."""
        if not self._ready or self._workers >= self._parallel or self._why is not None:
            return False
        self._workers += 1
        if self._asking:
            self._look_still()
        return True

    async def _work_apart(self) -> None:
        with anyio.CancelScope() as scope:
            await self._work(scope)
        self._spawn()

    async def _work(self, scope: anyio.CancelScope, *, leads: bool = False) -> bool:
        """Run what is ready, one call after the other, within this scope. ``leads``: in the task that reads the
        batches. False: it was given up with the call that it ran."""
        self._scopes.add(scope)
        lost = False
        try:
            count = 0
            while self._ready and not scope.cancel_called and self._why is None:
                slot = self._ready.popleft()
                if leads:
                    self._leading = slot
                try:
                    await self._call(slot, scope)
                except Exception as error:
                    self._crashed(slot, error)
                if slot.lost:
                    lost = True
                    return False
                count += 1
                if count % CHECKPOINT == 0:
                    await anyio.lowlevel.checkpoint()
                    await self._log.caught_up()
        finally:
            self._scopes.discard(scope)
            if not lost:
                if leads:
                    self._leading = None
                self._workers -= 1
                self._tell_rest()
                if self._asking:
                    self._look_still()
        return True

    def _crashed(self, slot: Slot, error: Exception) -> None:
        """Not the tool has failed but something around it, such as a host's wording: this run ends, no other does."""
        self._settle(slot, self._results.crashed(slot, error))
        self._run.crashed(error)

    async def _call(self, slot: Slot, scope: anyio.CancelScope) -> None:
        if slot.settled:
            return
        if self._locks.any_abandoned and (other := self._locks.in_the_way(slot.grip or self._grip(slot))) is not None:
            self._settle(slot, self._results.in_the_way(slot, other.name))
            return
        if slot.asked is not None and not intact(slot):
            self._settle(slot, self._results.changed(slot))
            return
        slot.started = self._clock()
        try:
            value = await self._attempt(slot, scope, 1)
        except Transient as failure:
            if (slot.tool.idempotent or not slot.effect.writes) and not slot.settled and self._why is None:
                await self._again(slot, scope, failure)
            else:
                self._settle(slot, self._results.failed(slot, failure))
        except NoThread as failure:
            self._settle(slot, self._results.not_run(slot, str(failure), error="no_thread", by="threads"))
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # whatever a tool raises is its result; a real cancel is passed on
            self._raised(slot, failure)
        else:
            self._settle(slot, self._results.finished(slot, value))
        if not scope.cancel_called and scope.deadline != float("inf"):
            scope.deadline = float("inf")

    def _attempt(self, slot: Slot, scope: anyio.CancelScope, attempt: int) -> Awaitable[Any]:
        """Start one attempt at the call; what it returns is to be awaited."""
        tool = slot.tool
        attempt += slot.begun
        if slot.effect.writes:
            self._leftover.known(slot.call_id)
            durable = self._start_writer(slot, attempt)
            if durable is not None:
                return self._after_journal(slot, scope, attempt, durable)
        else:
            self._log.append_clean(
                CallStarted, slot=slot.slot, call_id=slot.call_id, tool=tool.name, attempt=attempt, timeout=tool.timeout
            )
        return self._begin(slot, scope, attempt)

    def _start_writer(self, slot: Slot, attempt: int) -> int | None:
        """Say which execution begins. With a journal: the number of the fact that has to be durable first."""
        tool = slot.tool
        execution = slot.execution
        if execution is None:
            execution = slot.execution = self._occurrences.next(tool.name, slot.identity, slot.call_id)
        fact = self._log.append_clean(
            CallStarted,
            slot=slot.slot,
            call_id=slot.call_id,
            tool=tool.name,
            attempt=attempt,
            timeout=tool.timeout,
            idempotency_key=execution.key,
            occurrence=execution.occurrence,
            first_run=execution.first_run,
        )
        return fact.n if self._log.is_journaled else None

    async def _after_journal(self, slot: Slot, scope: anyio.CancelScope, attempt: int, durable: int) -> Any:
        await self._log.passed(JOURNAL, durable)
        await anyio.lowlevel.checkpoint_if_cancelled()
        return await self._begin(slot, scope, attempt)

    def _begin(self, slot: Slot, scope: anyio.CancelScope, attempt: int) -> Awaitable[Any]:
        tool, key = slot.tool, "" if slot.execution is None else slot.execution.key
        context = contextvars.copy_context()
        context.run(HERE.set, Here(self._run, slot.call_id, tool.name, slot.identity, attempt, key))
        slot.deadline = None
        suspended = partial(self._suspended, slot, scope)
        # What an earlier attempt or an effect function has changed in the arguments is not what was admitted.
        own = attempt == 1 + slot.begun and not tool.asks_arguments and slot.asked is None
        values = slot.values if own else slot.fresh_values()
        if not tool.is_async:
            return self._in_thread(slot, values, context, suspended)
        slot.coroutine = tool.function(**values)
        return in_context(context, slot.coroutine, suspended)

    async def _in_thread(
        self, slot: Slot, values: dict[str, Any], context: contextvars.Context, suspended: Callable[[], None]
    ) -> Any:
        self._spawn()
        function = partial(slot.tool.function, **values)
        value = await self._threads.run(function, context, suspended, partial(self._abandoned_thread, slot))
        return await in_context(context, awaiting(value), suspended) if inspect.isawaitable(value) else value

    def _suspended(self, slot: Slot, scope: anyio.CancelScope) -> None:
        """The call waits for the first time: only now it needs a deadline, and others may need a worker.

        The deadline is the worker's: a call that runs into it takes its worker along, and another one goes on.
        """
        if slot.tool.timeout is not None and slot.deadline is None:
            # In this order: when the scope's time is up, so is the call's, and it is not taken for a cancel.
            slot.deadline = self._clock() + slot.tool.timeout
            scope.deadline = anyio.current_time() + slot.tool.timeout
            if slot.deadline + self._run.agent.limits.grace < self._run.wakes_at:
                self._run.notify()
        self._spawn()

    def _abandoned_thread(self, slot: Slot, job: Job) -> None:
        slot.job = job
        slot.grip = slot.grip or self._grip(slot)
        slot.grip.in_thread = True
        self._locks.abandon(slot.grip)
        job.on_end = partial(self._locks.release, slot.grip)

    async def _again(self, slot: Slot, scope: anyio.CancelScope, failure: Transient) -> None:
        """Retry a call that may be made again; the first try has been made."""
        pending: list[Transient] = [failure]
        tries = 1

        async def attempt(number: int) -> Any:
            nonlocal tries
            if pending:
                first = pending.pop()
                raise Again(first, first.retry_after)
            if slot.hold is not None:
                await self._run.ready(slot.hold.amounts)
                if not self._hold_again(slot, slot.hold):
                    raise GivingUp(failure)
            tries = number
            try:
                return await self._attempt(slot, scope, number)
            except Transient as again:
                raise Again(again, again.retry_after) from again
            except Exception as final:
                raise GivingUp(final) from final

        try:
            value = await retrying(
                attempt,
                policy=RetryPolicy(retries=2),
                seams=self._run.seams,
                deadline=(slot.started or 0.0) + (slot.tool.timeout or 600.0),
                on_retry=lambda number, error, wait: None,
            )
        except Transient as last:
            self._settle(slot, self._results.failed(slot, last, tries - 1))
        except NoThread as none:
            self._settle(slot, self._results.not_run(slot, str(none), error="no_thread", by="threads"))
        except KeyboardInterrupt:
            raise
        except BaseException as other:  # as in _call
            self._raised(slot, other)
        else:
            self._settle(slot, self._results.finished(slot, value))

    # -- settle ------------------------------------------------------------------------------------------------------

    def _raised(self, slot: Slot, failure: BaseException) -> None:
        """Classify what a call raised. A cancel is one only if somebody cancelled; it is passed on."""
        now = self._clock()
        if failures.holds(failure, anyio.get_cancelled_exc_class()):
            from_without = self._why is not None or self._tasks.cancel_scope.cancel_called
            if not from_without and slot.deadline is not None and now >= slot.deadline:
                self._settle(slot, self._results.timed_out(slot, failure, slot.tool.timeout or 0.0))
                return
            if from_without or anyio.current_effective_deadline() == -float("inf"):
                self._settle(slot, self._results.cancelled(slot))
                if not isinstance(failure, BaseExceptionGroup):
                    raise failure
                return  # the worker meets the cancel again at its next wait
        if failures.is_timeout(failure):
            self._settle(slot, self._results.timed_out(slot, failure, now - (slot.started or now)))
        else:
            self._settle(slot, self._results.failed(slot, failure))

    def _settle(self, slot: Slot, settlement: Settlement) -> None:
        """Give a call its one result, and let those go on that waited for it. A second one is ignored."""
        if slot.grip is not None and not settlement.at_work:
            self._locks.release(slot.grip)
        if slot.settled:
            return
        slot.settled = True
        del self._open[slot.call_id]
        result = self._leftover.as_unknown(settlement.result)
        now = self._clock()
        started = now if slot.started is None else slot.started
        same = settlement.same
        if not same and slot.tool.result_key is not None:
            same = self._log.redaction.text(result_key(result.content, slot.tool))
        if slot.heading:
            result = msgspec.structs.replace(result, heading=slot.heading)
        if slot.hold is not None:
            self._pay(slot, slot.hold, slot.started is not None and result.kind != "not_run")
        if slot.asked is not None and slot.asked.seat is not None:
            seat, slot.asked.seat = slot.asked.seat, None
            seat.budget.settle(seat, {} if slot.started is None else seat.amounts)
        self._log.append_clean(
            CallEnded,
            slot=slot.slot,
            result=result,
            key=slot.key,
            arguments=slot.shown,
            result_key=same,
            wait=started - slot.t,
            ran=now - started,
            detail=settlement.detail[: outputs.MAX_DETAIL],
        )
        if result.productive:
            self._productive.append(slot.call_id)
        slot.coroutine = None
        for sharer in slot.sharers or ():
            self._share(sharer, slot, settlement)
        if slot.dependents is not None:
            for dependent in slot.dependents:
                dependent.waits -= 1
                if not dependent.waits and not dependent.settled:
                    self._make_ready(dependent)
            self._spawn()
        if not self._open:
            self._all_settled()

    def _pay(self, slot: Slot, hold: Hold, ran: bool) -> None:
        """The cost of an attempt that ran, whatever came of it; nothing for one that did not."""
        spent = hold.amounts if ran else {}
        hold.budget.settle(hold, spent)
        self._log.append(Settled, slot=slot.slot, amounts=spent, held=hold.id)

    def _hold_again(self, slot: Slot, hold: Hold) -> bool:
        """One more attempt costs as much once more. False if that is not there; the attempt before it is paid."""
        self._pay(slot, hold, True)
        again = hold.budget.hold(hold.amounts)
        slot.hold = None if isinstance(again, Short) else again
        if slot.hold is not None:
            self._log.append(Held, slot=slot.slot, amounts=slot.hold.amounts, held=slot.hold.id)
        return slot.hold is not None

    def _share(self, slot: Slot, first: Slot, settlement: Settlement) -> None:
        if slot.settled:
            return
        reused = None if settlement.result.kind == "not_run" else first.call_id
        result = msgspec.structs.replace(settlement.result, call_id=slot.call_id, reused_from=reused)
        self._settle(slot, msgspec.structs.replace(settlement, result=result))
