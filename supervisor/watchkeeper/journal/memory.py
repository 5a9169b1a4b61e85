"""The engine in the memory of one process: for tests, and for what need not outlive it.

It belongs to one event loop. An attempt has died when its engine was left or another iterator of leases was opened for
the same worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import anyio
import msgspec

from ..engine import (
    Answered,
    AnyCommand,
    Cancel,
    EngineError,
    Fenced,
    Lease,
    Page,
    Query,
    RunSpec,
    RunStatus,
    UnknownRun,
)
from ..log import Gap
from ..messages import Event, Mode
from ..seams import Seams
from . import unstarted
from .bell import Bell
from .checks import budget_of, check_command, check_name, check_spec, fitting, limit_of
from .shares import Shares
from .status import Standing
from .trees import Record, Tree

KEPT = 1000
"""Ended runs whose facts are kept, sub-agents not counted; of more the oldest lose theirs, as ``prune`` takes them."""
ROWS = 10
"""Times as many without facts of which it is still known how they ended."""
FULL_LOOK = 0.05
"""Seconds after which a worker that had no room for a run that waits is asked again."""
WORKER = "main"


class MemoryEngine:
    """Keeps runs as long as the object lives, also while it is not open: what was at work when it was left is given out
    again when it is opened anew. ``kept`` bounds the ended runs of which it has the facts."""

    def __init__(self, *, seams: Seams | None = None, kept: int = KEPT) -> None:
        self._seams = seams or Seams()
        self._kept = kept
        self._trees: dict[str, Tree] = {}
        self._places: dict[str, Tree] = {}
        """The tree of each run, sub-agents included."""
        self._made = 0
        self._queue: deque[Tree] = deque()
        self._died: deque[Tree] = deque()
        self._ended: deque[Tree] = deque()
        self._bare: deque[Tree] = deque()
        """Ended trees without their facts."""
        self._leases: list[MemoryLease] = []
        self._bell = Bell()
        self._open = False
        self.limits = Shares()

    async def __aenter__(self) -> MemoryEngine:
        if self._open:
            raise EngineError("this engine is open already")
        self._seams.bind()
        self._open = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._open = False
        for lease in list(self._leases):
            lease.die()
        self.limits.reclaim()
        self._bell.ring()
        for tree in self._trees.values():
            tree.bell.ring()
            for record in tree.records.values():
                record.bell.ring()

    async def submit(self, spec: RunSpec, *, run: str = "") -> RunStatus:
        self._check_open()
        check_spec(spec)
        run = check_name("the id of a run", run) if run else self._seams.new_id("r")
        known = self._trees.get(run)
        if known is not None:
            if known.root.spec != spec:
                raise EngineError(f"there is a run {run} already, and it is another one; submit this under another id")
            return known.status(known.root)
        if run in self._places:
            raise EngineError(f"there is a run {run} already, a sub-agent; submit this under another id")
        standing = Standing(run=run, root=run)
        tree = Tree(Record(standing, spec, self._seams.wall(), self._next()))
        self._trees[run] = self._places[run] = tree
        self._queue.append(tree)
        self._bell.ring()
        return tree.status(tree.root)

    async def get(self, run: str) -> RunStatus:
        tree = self._tree(run)
        return tree.status(tree.records[run])

    async def list(self, query: Query) -> Page:
        self._check_open()
        most = limit_of(query)
        places = ((tree, record) for tree in self._trees.values() for record in tree.records.values())
        newest = sorted(places, key=lambda place: place[1].order, reverse=True)
        if query.before:
            last = self._tree(query.before).records[query.before].order
            newest = [place for place in newest if place[1].order < last]
        found: list[RunStatus] = []
        for tree, record in newest:
            one = tree.status(record)
            if fitting(query, one.spec.agent, one.spec.labels, one.state, one.parent, one.worker):
                if len(found) == most:
                    return Page(tuple(found), True)
                found.append(one)
        return Page(tuple(found), False)

    async def cancel(
        self, run: str, reason: str = "cancelled", mode: Mode = "now", *, by: str = "", id: str = ""
    ) -> None:
        if not self._tree(run).records[run].ended:
            await self.send(run, Cancel(id=id, by=by, reason=reason, mode=mode))

    async def send(self, run: str, command: AnyCommand) -> str:
        tree = self._tree(run)
        check_command(command)
        command = msgspec.structs.replace(command, id=command.id or self._seams.new_id("c"), run=run)
        sent = tree.send(command)
        if isinstance(command, Cancel) and not tree.attempt and not tree.root.ended:
            self._queue.remove(tree)
            for event in unstarted.cancelled(run, tree.root.spec, command.reason, command.mode, self._seams.wall()):
                tree.append(event, 0)
            tree.settle(Answered(id=sent, taken=True))
            tree.refuse_the_rest()
            self._has_ended(tree)
        return sent

    async def answered(self, run: str, command: str) -> Answered:
        tree = self._tree(run)
        sent = tree.commands.get(command)
        if sent is None or sent.command.run != run:
            raise EngineError(f"run {run} was sent no command {command[:100]!r}")
        while sent.answer is None:
            self._check_open()
            await tree.bell.heard().wait()
        return sent.answer

    def watch(self, run: str, after: int = 0) -> AsyncIterator[Event | Gap]:
        return _Watch(self, run, after)

    def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        return _Leases(self, capacity, worker or WORKER)

    async def prune(self, *, older_than: float | None = None) -> int:
        """Let go of the facts of trees that ended more than so many seconds ago; how many trees. ``watch`` gives a
        :class:`.log.Gap` for them, and ``get`` still says how they ended."""
        self._check_open()
        line = self._seams.wall() - (older_than or 0.0)
        gone = [tree for tree in self._ended if (tree.root.standing.ended or 0.0) <= line]
        for tree in gone:
            self._ended.remove(tree)
            self._forget(tree)
        return len(gone)

    # -- for leases and watchers -------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise EngineError("the engine is not open: use it within `async with engine:`")

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _tree(self, run: str) -> Tree:
        self._check_open()
        tree = self._places.get(run)
        if tree is None:
            raise UnknownRun(f"there is no run {run[:100]!r}")
        return tree

    def _take(self, worker: str) -> MemoryLease:
        lease = MemoryLease(self, (self._died or self._queue).popleft(), worker)
        self._leases.append(lease)
        return lease

    def _waits(self) -> bool:
        return bool(self._died or self._queue)

    def _back(self, lease: MemoryLease, suspended: bool) -> None:
        self._leases.remove(lease)
        tree = lease.tree
        tree.given_back(suspended=suspended)
        if tree.root.ended:
            self._has_ended(tree)
        else:
            self._died.append(tree)
        self._bell.ring()

    def _has_ended(self, tree: Tree) -> None:
        self._ended.append(tree)
        while len(self._ended) > self._kept:
            self._forget(self._ended.popleft())

    def _forget(self, tree: Tree) -> None:
        tree.commands.clear()
        for record in tree.records.values():
            record.forget()
        self._bare.append(tree)
        while len(self._bare) > ROWS * self._kept:
            oldest = self._bare.popleft()
            del self._trees[oldest.root.standing.run]
            for run in oldest.records:
                del self._places[run]


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
            if event.run not in self.tree.records and event.run in self._engine._places:
                raise EngineError(f"there is a run {event.run} already, in another tree")
        for event in fresh:
            made = self.tree.append(event, self._engine._made + 1)
            if made is not None:
                self._engine._next()
                self._engine._places[event.run] = self.tree
        if fresh and charges:
            for charge, amount in charges.items():
                self._engine.limits.charge(*budget_of(charge), amount)

    async def settle(self, command: AnyCommand, answer: Answered) -> None:
        self.tree.settle(msgspec.structs.replace(answer, id=command.id))

    def commands(self) -> AsyncIterator[AnyCommand]:
        return _Commands(self)

    async def release(self, *, suspended: bool = False) -> None:
        if not self._over:
            self._over = True
            self._engine._back(self, suspended)

    def die(self) -> None:
        """Nobody is there any more who executes it."""
        self._over = True
        self._engine._back(self, False)


class _Leases:
    def __init__(self, engine: MemoryEngine, capacity: Callable[[], int], worker: str) -> None:
        self._engine = engine
        self._capacity = capacity
        self._worker = worker
        self._begun = False

    def __aiter__(self) -> _Leases:
        return self

    async def __anext__(self) -> Lease:
        engine = self._engine
        if not self._begun:
            engine._check_open()
            self._begun = True
            for lease in [one for one in engine._leases if one.worker == self._worker]:
                lease.die()
        await anyio.lowlevel.checkpoint()
        while engine._open:
            heard = engine._bell.heard()
            waits = engine._waits()
            if waits and self._capacity() > 0:
                return engine._take(self._worker)
            with anyio.move_on_after(FULL_LOOK if waits else float("inf")):
                await heard.wait()
        raise StopAsyncIteration


class _Commands:
    def __init__(self, lease: MemoryLease) -> None:
        self._lease = lease
        self._given: set[str] = set()

    def __aiter__(self) -> _Commands:
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


class _Watch:
    def __init__(self, engine: MemoryEngine, run: str, after: int) -> None:
        self._engine = engine
        self._run = run
        self._after = max(after, 0)

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> Event | Gap:
        record = self._engine._tree(self._run).records[self._run]
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
            self._engine._check_open()
