"""The executor: admits a batch of calls, plans it, runs it, and gives each call exactly one result."""

from __future__ import annotations

import contextvars
import inspect
import types
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from .. import arguments, failures, outputs
from ..current import HERE, Here
from ..errors import Transient
from ..fingerprint import call_key, loop_key, result_key
from ..guards.guard import CallGuard, Proposal, Refuse, Reuse, Wait
from ..locks import Grip, Locks
from ..messages import (
    Call,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    EvidenceFound,
    Kind,
    Result,
)
from ..naming import resolve
from ..planner import Plan
from ..retry import Again, GivingUp, RetryPolicy, retrying
from ..threads import Job, NoThread, Threads
from ..tools import WRITES, Effect, Tool

if TYPE_CHECKING:
    from ..budget import Budget
    from ..log import Log
    from ..run import Run
    from ..wording import Wording

CHECKPOINT = 16
"""Calls that a worker runs before it lets the loop go round: without it no-op calls block the loop for 140 ms."""
SHOWN_ARGUMENTS = 2000
"""Characters of the canonical arguments in a ``CallEnded``."""


class Batch:
    """The calls of one turn. ``done`` is set when each has its result in the log."""

    __slots__ = ("calls", "done", "tools_off")

    def __init__(self, calls: Sequence[Call], tools_off: bool = False) -> None:
        self.calls = calls
        self.tools_off = tools_off
        self.done = anyio.Event()


class _Slot:
    """One admitted call on its way to its result."""

    __slots__ = (
        "arguments", "call", "coroutine", "dependents", "effect", "grip", "job", "key", "not_before", "proposed",
        "scope", "settled", "sharers", "started", "timed_out", "tool", "values", "waits",
    )  # fmt: skip

    def __init__(self, call: Call, tool: Tool, parsed: arguments.Parsed, key: str, effect: Effect, t: float) -> None:
        self.call = call
        self.tool = tool
        self.values = parsed.values
        self.arguments = parsed.canonical
        self.key = key
        self.effect = effect
        self.proposed = t
        self.not_before = 0.0
        self.started = 0.0
        self.waits = 0
        """Calls of the batch that must end first."""
        self.dependents: list[_Slot] = []
        self.sharers: list[_Slot] = []
        """Equal reads of the batch that get this one's result."""
        self.settled = False
        self.timed_out = False
        self.grip: Grip | None = None
        self.scope: anyio.CancelScope | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        self.job: Job | None = None


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
    ) -> None:
        self._run = run
        self._log: Log = run.log
        self._tools = tools
        self._guards = guards
        self._budget = budget
        self._locks = locks
        self._threads = threads
        self._tasks = tasks
        self._wording = wording
        self._parallel = parallel
        self._writers_alone = writers_alone
        self._above = run.grips_above
        self._ready: deque[_Slot] = deque()
        self._open: dict[str, _Slot] = {}
        self._batch: Batch | None = None
        self._workers = 0
        self._scopes: set[anyio.CancelScope] = set()
        self._why: str | None = None
        self._numbers = 0
        self._quiet: anyio.Event | None = None

    async def run(self, batches: AsyncIterable[Batch]) -> None:
        """Deal with batches, one after the other, until the sender closes."""
        async for batch in batches:
            self._batch = batch
            slots = self._admit(batch)
            if self._why is not None:
                self.cancel(self._why)
            if not self._open:
                batch.done.set()
                continue
            await self._log.caught_up()
            for slot in slots:
                if not slot.waits and not slot.settled:
                    self._make_ready(slot)
            self._spawn()
            await batch.done.wait()

    def cancel(self, why: str) -> None:
        """Stop: what has not started gets ``not_run`` at once, what runs is cancelled. Idempotent, never waits."""
        self._why = why
        self._ready.clear()
        for slot in list(self._open.values()):
            if not slot.started:
                told = self._wording.not_run(slot.tool.name, f"the run was ended first ({why})")
                self._settle(slot, Result(slot.call.id, slot.tool.name, "not_run", told.text, by="cancel"))
        for scope in list(self._scopes):
            scope.cancel()

    def abandon(self) -> list[str]:
        """Give up on what still runs: each gets ``abandoned`` and is named with where it is. Returns the names."""
        names = []
        for slot in list(self._open.values()):
            frame = slot.job.frame() if slot.job is not None else _frame(slot.coroutine)
            names.append(f"{slot.tool.name} at {frame or 'an unknown place'}")
            if slot.grip is not None:
                self._locks.abandon(slot.grip)
            told = self._wording.abandoned(slot.tool.name)
            result = Result(slot.call.id, slot.tool.name, "abandoned", told.text, by="cancel")
            self._settle(slot, result, detail=frame or "", keep_grip=True)
        return names

    async def joined(self) -> None:
        """Wait until nothing runs any more: every call has its result and every worker has ended."""
        while self._open or self._workers:
            if self._quiet is None:
                self._quiet = anyio.Event()
            await self._quiet.wait()

    def _check_quiet(self) -> None:
        if self._quiet is not None and not self._open and not self._workers:
            self._quiet.set()
            self._quiet = None

    def grip_of(self, call_id: str) -> Grip | None:
        slot = self._open.get(call_id)
        return slot.grip if slot is not None else None

    def doing(self) -> list[dict[str, Any]]:
        """What runs right now: tool, call, seconds."""
        now = self._clock()
        return [
            {"call": slot.call.id, "tool": slot.tool.name, "seconds": round(now - slot.started, 3)}
            for slot in self._open.values()
            if slot.started
        ]

    # -- admit and plan: no await from here to the plan's end --------------------------------------------------------

    def _admit(self, batch: Batch) -> list[_Slot]:
        plan = Plan()
        slots: list[_Slot] = []
        planned: list[_Slot] = []
        same: dict[str, tuple[_Slot, tuple[int, ...]]] = {}
        left = self._budget.left("calls")
        admitted = 0
        for call in batch.calls:
            self._log.append(
                CallProposed, slot=call.slot, call_id=call.id, tool=call.tool, arguments=call.arguments[: arguments.MAX_CHARACTERS]
            )
            slot = self._propose(call, batch.tools_off, left is not None and admitted >= left)
            if slot is None:
                continue
            admitted += 1
            slots.append(slot)
            self._open[call.id] = slot
            effect = slot.effect
            waits = plan.add(effect)
            planned.append(slot)
            first = same.get(slot.key) if not effect.writes else None
            if first is not None and first[1] == waits and not slot.tool.poll:
                first[0].sharers.append(slot)
                slot.waits = 1
            else:
                if not effect.writes:
                    same[slot.key] = (slot, waits)
                slot.waits = len(waits)
                for number in waits:
                    planned[number].dependents.append(slot)
            self._log.append(
                CallAdmitted,
                slot=call.slot,
                call_id=call.id,
                tool=slot.tool.name,
                key=slot.key,
                reads=effect.reads,
                writes=effect.writes,
                waits_for=tuple(planned[number].call.slot for number in waits) if waits else (),
            )
        if admitted:
            self._budget.spend("calls", admitted)
        return slots

    def _propose(self, call: Call, tools_off: bool, over: bool) -> _Slot | None:
        """The call as a slot, or None if it has its result already."""
        if tools_off:
            return self._refuse(call, "refused", self._wording.tools_off(call.tool).text, "tools_off", "tools_off")
        tool = resolve(call.tool, self._tools)
        if tool is None:
            told = self._wording.unknown_tool(call.tool, self._tools.keys())
            return self._refuse(call, "refused", told.text, "unknown_tool", "unknown_tool")
        parsed = arguments.parse(tool, call.arguments)
        if isinstance(parsed, arguments.BadArguments):
            told = self._wording.bad_arguments(tool.name, parsed, _parameters(tool))
            return self._refuse(call, "refused", told.text, "arguments", "bad_arguments", tool.name)
        key = call_key(tool.name, parsed.canonical)
        if tool.loop_key is not None:
            key = loop_key(tool, parsed.values, key)
        effect = tool.effect_of(parsed.values)
        if self._writers_alone and effect.writes:
            effect = WRITES
        t = self._clock()
        slot = _Slot(call, tool, parsed, key, effect, t)
        if over:
            told = self._wording.too_many_calls(int(self._budget.limit("calls") or 0), "of the run")
            return self._refuse(call, "not_run", told.text, "calls", "too_many_calls", tool.name, slot)
        proposal = Proposal(call.id, tool, parsed.values, key, effect, self._log.turn, call.slot, t)
        for guard in self._guards:
            decision = guard.call(proposal)
            if decision is None:
                continue
            if isinstance(decision, Refuse):
                return self._refuse(call, decision.kind, decision.message, guard.name, decision.error, tool.name, slot)
            if isinstance(decision, Reuse):
                result = Result(
                    call.id, tool.name, "finished", decision.message, decision.productive, None, guard.name, decision.earlier
                )
                return self._answer(call, result, slot)
            if isinstance(decision, Wait):
                slot.not_before = max(slot.not_before, t + decision.seconds)
        return slot

    def _refuse(
        self, call: Call, kind: Kind, text: str, by: str, error: str, tool: str = "", slot: _Slot | None = None
    ) -> None:
        self._answer(call, Result(call.id, tool or call.tool[:80], kind, text, error=error, by=by), slot)

    def _answer(self, call: Call, result: Result, slot: _Slot | None) -> None:
        if slot is not None:
            key, shown = slot.key, slot.arguments[:SHOWN_ARGUMENTS].decode("utf-8", "replace")
        else:
            shown = call.arguments[:SHOWN_ARGUMENTS]
            key = call_key(result.tool, call.arguments.encode("utf-8", "replace"))
        self._log.append(CallEnded, slot=call.slot, result=result, key=key, arguments=shown)
        if result.productive:
            self._log.append(EvidenceFound, slot=call.slot, call_id=call.id, tool=result.tool)

    # -- run ---------------------------------------------------------------------------------------------------------

    def _make_ready(self, slot: _Slot) -> None:
        """All calls before it have ended: wait for what is outside the batch, or queue for a worker."""
        if self._why is not None:
            return
        slot.grip = Grip(self._run.tree, self._batch, self._above, slot.effect, slot.tool.name)
        if slot.not_before <= self._clock() and self._locks.try_take(slot.grip):
            self._ready.append(slot)
        else:
            self._tasks.start_soon(self._wait_outside, slot, name=f"wait {slot.tool.name}")

    async def _wait_outside(self, slot: _Slot) -> None:
        """Wait without a worker: waiting calls must not fill the places of those that could run."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await anyio.sleep(max(slot.not_before - self._clock(), 0.0))
                await self._log.caught_up()
                assert slot.grip is not None
                await self._locks.take(slot.grip)
                self._ready.append(slot)
            finally:
                self._scopes.discard(scope)
        self._spawn()

    def _spawn(self) -> None:
        """One more worker if there is work for it. A worker that never waits needs no second one beside it."""
        if self._ready and self._workers < self._parallel and self._why is None:
            self._workers += 1
            self._tasks.start_soon(self._work, name="watchkeeper worker")

    async def _work(self) -> None:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                count = 0
                while self._ready and self._why is None:
                    await self._call(self._ready.popleft())
                    count += 1
                    if count % CHECKPOINT == 0:
                        await anyio.lowlevel.checkpoint()
                        await self._log.caught_up()
            finally:
                self._scopes.discard(scope)
                self._workers -= 1
                self._check_quiet()

    async def _call(self, slot: _Slot) -> None:
        if slot.settled:
            return
        assert slot.grip is not None
        other = self._locks.in_the_way(slot.grip)
        if other is not None:
            told = self._wording.in_the_way(slot.tool.name, other.name)
            self._settle(slot, Result(slot.call.id, slot.tool.name, "refused", told.text, error="in_the_way", by="abandoned"))
            return
        slot.started = self._clock()
        try:
            value = await self._attempt(slot, 1)
        except Transient as failure:
            if (slot.tool.idempotent or not slot.effect.writes) and not slot.settled and self._why is None:
                await self._again(slot, failure)
            else:
                self._fail(slot, failure)
        except NoThread as failure:
            told = self._wording.not_run(slot.tool.name, str(failure))
            self._settle(slot, Result(slot.call.id, slot.tool.name, "not_run", told.text, error="no_thread", by="threads"))
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # whatever a tool raises is its result; a real cancel is passed on
            self._raised(slot, failure)
        else:
            self._finish(slot, value)

    async def _attempt(self, slot: _Slot, attempt: int) -> Any:
        tool, log = slot.tool, self._log
        log.append(
            CallStarted, slot=slot.call.slot, call_id=slot.call.id, tool=tool.name, attempt=attempt, timeout=tool.timeout
        )
        context = contextvars.copy_context()
        context.run(HERE.set, Here(self._run, slot.call.id, tool.name, slot.key, attempt))
        with anyio.CancelScope() as slot.scope:
            if tool.is_async:
                slot.coroutine = tool.function(**slot.values)
                return await _in_context(context, slot.coroutine, partial(self._suspended, slot))
            self._suspended(slot)
            value = await self._threads.run(
                partial(tool.function, **slot.values), context, partial(self._abandoned_thread, slot)
            )
            if inspect.isawaitable(value):
                return await _in_context(context, _awaiting(value), partial(self._suspended, slot))
            return value
        slot.timed_out = True
        raise TimeoutError

    def _suspended(self, slot: _Slot) -> None:
        """The call waits for the first time: only now it needs a deadline, and others may need a worker."""
        if slot.tool.timeout is not None and slot.scope is not None:
            slot.scope.deadline = anyio.current_time() + slot.tool.timeout
        self._spawn()

    def _abandoned_thread(self, slot: _Slot, job: Job) -> None:
        slot.job = job
        assert slot.grip is not None
        self._locks.abandon(slot.grip)
        job.on_end = partial(self._locks.release, slot.grip)

    async def _again(self, slot: _Slot, failure: Transient) -> None:
        """Retry a call that may be made again; the first try has been made."""
        pending: list[Transient] = [failure]
        tries = 1

        async def attempt(number: int) -> Any:
            nonlocal tries
            if pending:
                first = pending.pop()
                raise Again(first, first.retry_after)
            tries = number
            try:
                return await self._attempt(slot, number)
            except Transient as again:
                raise Again(again, again.retry_after) from again
            except Exception as final:
                raise GivingUp(final) from final

        try:
            value = await retrying(
                attempt,
                policy=RetryPolicy(retries=2),
                seams=self._run.seams,
                deadline=slot.started + (slot.tool.timeout or 600.0),
                on_retry=lambda number, error, wait: None,
            )
        except Transient as last:
            self._fail(slot, last, tries - 1)
        except KeyboardInterrupt:
            raise
        except BaseException as other:  # as in _call
            self._raised(slot, other)
        else:
            self._finish(slot, value)

    # -- settle ------------------------------------------------------------------------------------------------------

    def _finish(self, slot: _Slot, value: Any) -> None:
        rendered = outputs.render(value, slot.tool.max_output)
        result = Result(
            slot.call.id, slot.tool.name, "finished", rendered.content, rendered.productive, rendered.error, cut=rendered.cut
        )
        self._settle(slot, result, detail=rendered.detail)

    def _raised(self, slot: _Slot, failure: BaseException) -> None:
        """Classify what a call raised. A cancel is one only if somebody cancelled; it is passed on."""
        if failures.holds(failure, anyio.get_cancelled_exc_class()) and (self._why is not None or anyio.current_effective_deadline() == -float("inf")):
            kind: Kind = "abandoned" if slot.job is not None and not slot.job.finished.is_set() else "cancelled"
            told = self._wording.abandoned(slot.tool.name) if kind == "abandoned" else self._wording.cancelled(slot.tool.name)
            detail = (slot.job.frame() or "") if slot.job is not None else ""
            self._settle(
                slot, Result(slot.call.id, slot.tool.name, kind, told.text, by="cancel"), detail=detail, keep_grip=kind == "abandoned"
            )
            if not isinstance(failure, BaseExceptionGroup):
                raise failure
            return  # the worker meets the cancel again at its next wait
        if failures.is_timeout(failure):
            seconds = slot.tool.timeout if slot.timed_out and slot.tool.timeout else self._clock() - slot.started
            told = self._wording.timed_out(slot.tool.name, round(seconds, 3))
            result = Result(slot.call.id, slot.tool.name, "timed_out", told.text, error="timeout", by="timeout")
            self._settle(slot, result, detail=failures.full_text(failure), keep_grip=slot.job is not None)
            return
        self._fail(slot, failure)

    def _fail(self, slot: _Slot, failure: BaseException, retried: int = 0) -> None:
        leaf = failures.leaf(failure)
        code, text, hint = failures.describe(leaf, slot.tool.hint)
        self._numbers += 1
        number = f"{self._run.id[-6:]}-{self._numbers}"
        if isinstance(leaf, Transient):
            told = self._wording.transient(slot.tool.name, text, leaf.retry_after, retried)
        else:
            told = self._wording.failed(slot.tool.name, code, text, hint, number)
        result = Result(slot.call.id, slot.tool.name, "failed", told.text, error=code)
        self._settle(slot, result, detail=f"error {number}\n{failures.full_text(failure)}")

    def _settle(self, slot: _Slot, result: Result, *, detail: str = "", keep_grip: bool = False) -> None:
        """Give a call its one result, and let those go on that waited for it. A second one is ignored."""
        if slot.settled:
            if slot.grip is not None and not keep_grip:
                self._locks.release(slot.grip)
            return
        slot.settled = True
        del self._open[slot.call.id]
        if slot.grip is not None and not keep_grip:
            self._locks.release(slot.grip)
        now = self._clock()
        started = slot.started or now
        self._log.append(
            CallEnded,
            slot=slot.call.slot,
            result=result,
            key=slot.key,
            arguments=slot.arguments[:SHOWN_ARGUMENTS].decode("utf-8", "replace"),
            result_key=result_key(result.content, slot.tool) if slot.tool.result_key is not None else "",
            wait=started - slot.proposed,
            ran=now - started,
            detail=detail[: outputs.MAX_DETAIL],
        )
        if result.productive:
            self._log.append(EvidenceFound, slot=slot.call.slot, call_id=slot.call.id, tool=slot.tool.name)
        slot.coroutine = None
        for sharer in slot.sharers:
            self._share(sharer, slot, result)
        for dependent in slot.dependents:
            dependent.waits -= 1
            if not dependent.waits and not dependent.settled:
                self._make_ready(dependent)
        if slot.dependents:
            self._spawn()
        if not self._open and self._batch is not None:
            self._batch.done.set()
            self._check_quiet()

    def _share(self, slot: _Slot, first: _Slot, result: Result) -> None:
        if slot.settled:
            return
        if result.kind == "not_run":
            shared = msgspec.structs.replace(result, call_id=slot.call.id)
        else:
            shared = msgspec.structs.replace(result, call_id=slot.call.id, reused_from=first.call.id)
        self._settle(slot, shared)

    def _clock(self) -> float:
        return self._run.seams.clock()


@types.coroutine
def _in_context(
    context: contextvars.Context, coroutine: Coroutine[Any, Any, Any], suspended: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """Drive a coroutine inside a context of its own; ``suspended`` is called when it waits for the first time."""
    run = context.run
    try:
        yielded = run(coroutine.send, None)
    except StopIteration as stop:
        return stop.value
    suspended()
    while True:
        try:
            sent = yield yielded
        except BaseException as error:
            failure: BaseException | None = error
        else:
            failure = None
        try:
            yielded = run(coroutine.send, sent) if failure is None else run(coroutine.throw, failure)
        except StopIteration as stop:
            return stop.value


async def _awaiting(value: Any) -> Any:
    return await value


def _frame(coroutine: Coroutine[Any, Any, Any] | None) -> str | None:
    """The innermost frame of a coroutine that waits."""
    frame = None
    inner: Any = coroutine
    while inner is not None:
        found = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if found is None:
            break
        frame = found
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    if frame is None:
        return None
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def _parameters(tool: Tool) -> str:
    return msgspec.json.encode(tool.schema.get("properties", {})).decode()[:1500]
