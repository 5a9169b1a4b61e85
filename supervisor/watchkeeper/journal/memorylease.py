"""What an engine in memory hands out: leases, and who iterates over them, over commands and over facts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from ..engine import Answered, AnyCommand, EngineError, Fenced, Lease, RunStatus, Slice, UnknownRun
from ..log import Gap
from ..messages import Event
from .checks import budget_of
from .trees import Tree

if TYPE_CHECKING:
    from .memory import MemoryEngine

FULL_LOOK = 0.05
"""Seconds after which a worker that had no room is asked again; twice as many each time, up to a second."""


class MemoryLease:
    """An attempt at a run in memory."""

    def __init__(self, engine: MemoryEngine, tree: Tree, worker: str) -> None:
        self.tree = tree
        self.run = tree.root.standing.run
        self.spec = tree.root.spec
        self.crashes = tree.crashes
        self.attempt = tree.lease(worker)
        self.worker = worker
        self._engine = engine
        self._over = False
        self._granted = False
        """What attempts before this one were granted is taken back."""

    @property
    def lost(self) -> bool:
        return self._over

    async def facts(self, run: str | None = None) -> AsyncIterator[Event]:
        record = self.tree.records.get(run or self.run)
        if record is None:
            raise UnknownRun(f"there is no run {run!r} in the tree of {self.run}")
        for event in list(record.facts):
            yield event

    async def children(self) -> Sequence[RunStatus]:
        return [self.tree.status(record) for record in self.tree.records.values() if record is not self.tree.root]

    async def append(self, events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
        await anyio.lowlevel.checkpoint()
        if self._over:
            raise Fenced(f"attempt {self.attempt} at run {self.run} is over")
        fresh = self.tree.admitted(events, charges)
        for event in fresh:
            if event.run not in self.tree.records and event.run in self._engine.places:
                raise EngineError(f"there is a run {event.run} already, in another tree")
        for event in fresh:
            made = self.tree.append(event, self._engine.made + 1)
            if made is not None:
                self._engine.next()
                self._engine.places[event.run] = self.tree
        if fresh and charges:
            for charge, amount in charges.items():
                self._engine.limits.charge(self.run, *budget_of(charge), amount)

    async def grant(self, budget: str, amounts: Mapping[str, float]) -> Slice:
        await anyio.lowlevel.checkpoint()
        if self._over:
            raise Fenced(f"attempt {self.attempt} at run {self.run} is over")
        self._engine.limits.check(budget)
        if not self._granted:
            self._engine.limits.reclaim(self.run)
            self._granted = True
        return self._engine.limits.grant(self.run, budget, amounts)

    async def settle(self, command: AnyCommand, answer: Answered) -> None:
        self.tree.settle(msgspec.structs.replace(answer, id=command.id))

    def commands(self) -> AsyncIterator[AnyCommand]:
        return Commands(self)

    async def refuse(self, why: str) -> None:
        if self._over:
            raise Fenced(f"attempt {self.attempt} at run {self.run} is over")
        self.tree.root.standing.refused = why

    async def release(self, *, suspended: bool = False) -> None:
        if not self._over:
            self._over = True
            self._engine.given_back(self, suspended)

    def die(self) -> None:
        """Nobody is there any more who executes it."""
        self._over = True
        self._engine.given_back(self, False)


class Leases:
    def __init__(self, engine: MemoryEngine, capacity: Callable[[], int], worker: str) -> None:
        self._engine = engine
        self._capacity = capacity
        self._worker = worker
        self._begun = False

    def __aiter__(self) -> Leases:
        return self

    async def __anext__(self) -> Lease:
        engine = self._engine
        if not self._begun:
            engine.check_open()
            self._begun = True
            engine.giving[self._worker] = self
            engine.bell.ring()
            for lease in [one for one in engine.leases_given if one.worker == self._worker]:
                lease.die()
        await anyio.lowlevel.checkpoint()
        pause = FULL_LOOK
        while engine.is_open and engine.giving.get(self._worker) is self:
            heard = engine.bell.heard()
            waits = engine.waits()
            if waits and self._capacity() > 0:
                return engine.take(self._worker)
            with anyio.move_on_after(pause if waits else float("inf")):
                await heard.wait()
            pause = FULL_LOOK if heard.is_set() else min(pause * 2, 1.0)
        raise StopAsyncIteration


class Commands:
    def __init__(self, lease: MemoryLease) -> None:
        self._lease = lease
        self._given: set[str] = set()

    def __aiter__(self) -> Commands:
        return self

    async def __anext__(self) -> AnyCommand:
        tree = self._lease.tree
        while not self._lease.lost:
            for sent in tree.commands.values():
                if sent.answer is None and sent.command.id not in self._given:
                    self._given.add(sent.command.id)
                    return sent.command
            await tree.bell.heard().wait()
        raise StopAsyncIteration


class Watch:
    def __init__(self, engine: MemoryEngine, run: str, after: int) -> None:
        self._engine = engine
        self._run = run
        self._after = max(after, 0)

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Event | Gap:
        record = self._engine.tree(self._run).records[self._run]
        while True:
            if self._after + 1 < record.first:
                gap = Gap(self._after + 1, record.first - 1)
                self._after = gap.last
                return gap
            if self._after < record.standing.n:
                self._after += 1
                return record.facts[self._after - record.first]
            if record.ended:
                raise StopAsyncIteration
            await record.bell.heard().wait()
            self._engine.check_open()
