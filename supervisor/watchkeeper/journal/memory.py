"""The engine in the memory of one process: for tests, and for what need not outlive it.

It belongs to one event loop. An attempt has died when its engine was left or another iterator of leases was opened for
the same worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec

from ..engine import (
    Answered,
    AnyCommand,
    Cancel,
    EngineError,
    Lease,
    Page,
    Query,
    RunSpec,
    RunStatus,
    Unavailable,
    UnknownRun,
)
from ..log import Gap
from ..messages import Event, Mode
from ..seams import Seams
from . import unstarted
from .bell import Bell
from .checks import check_command, check_name, check_spec, fitting, limit_of, without_halves
from .memorylease import Leases, MemoryLease, Watch
from .shares import Shares
from .status import Standing
from .trees import Record, Tree

KEPT = 1000
"""Ended runs whose facts are kept, sub-agents not counted; of more the oldest lose theirs, as ``prune`` takes them."""
ROWS = 10
"""Times as many without facts of which it is still known how they ended."""
WORKER = "main"


class MemoryEngine:
    """Keeps runs as long as the object lives, also while it is not open: what was at work when it was left is given out
    again when it is opened anew. ``kept`` bounds the ended runs of which it has the facts."""

    def __init__(self, *, seams: Seams | None = None, kept: int = KEPT) -> None:
        self._seams = seams or Seams()
        self._kept = kept
        self._trees: dict[str, Tree] = {}
        self.places: dict[str, Tree] = {}
        """The tree of each run, sub-agents included."""
        self.made = 0
        self._queue: deque[Tree] = deque()
        self._died: deque[Tree] = deque()
        self._ended: deque[Tree] = deque()
        self._bare: deque[Tree] = deque()
        """Ended trees without their facts."""
        self.leases_given: list[MemoryLease] = []
        self.giving: dict[str, Leases] = {}
        """By worker who iterates over leases."""
        self.bell = Bell()
        self.is_open = False
        self.limits = Shares()

    async def __aenter__(self) -> MemoryEngine:
        if self.is_open:
            raise EngineError("this engine is open already")
        self._seams.bind()
        self.is_open = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.is_open = False
        for lease in list(self.leases_given):
            lease.die()
        self.bell.ring()
        for tree in self._trees.values():
            tree.bell.ring()
            for record in tree.records.values():
                record.bell.ring()

    async def submit(self, spec: RunSpec, *, run: str = "") -> RunStatus:
        self.check_open()
        check_spec(spec)
        spec = without_halves(spec)
        run = check_name("the id of a run", run) if run else self._seams.new_id("r")
        known = self._trees.get(run)
        if known is not None:
            if known.root.spec != spec:
                raise EngineError(f"there is a run {run} already, and it is another one; submit this under another id")
            return known.status(known.root)
        if run in self.places:
            raise EngineError(f"there is a run {run} already, a sub-agent; submit this under another id")
        if spec.budget:
            self.limits.check(spec.budget)
        standing = Standing(run=run, root=run)
        tree = Tree(Record(standing, spec, self._seams.wall(), self.next()))
        self._trees[run] = self.places[run] = tree
        self._queue.append(tree)
        self.bell.ring()
        return tree.status(tree.root)

    async def get(self, run: str) -> RunStatus:
        tree = self.tree(run)
        return tree.status(tree.records[run])

    async def list(self, query: Query) -> Page:
        self.check_open()
        most = limit_of(query)
        places = ((tree, record) for tree in self._trees.values() for record in tree.records.values())
        newest = sorted(places, key=lambda place: place[1].order, reverse=True)
        if query.before:
            last = self.tree(query.before).records[query.before].order
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
        if not self.tree(run).records[run].ended:
            await self.send(run, Cancel(id=id, by=by, reason=reason, mode=mode))

    async def send(self, run: str, command: AnyCommand) -> str:
        tree = self.tree(run)
        check_command(command)
        command = without_halves(command)
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
        tree = self.tree(run)
        sent = tree.commands.get(command)
        if sent is None or sent.command.run != run:
            raise EngineError(f"run {run} was sent no command {command[:100]!r}")
        while sent.answer is None:
            self.check_open()
            await tree.bell.heard().wait()
        return sent.answer

    def watch(self, run: str, after: int = 0) -> AsyncIterator[Event | Gap]:
        return Watch(self, run, after)

    def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        return Leases(self, capacity, worker or WORKER)

    async def prune(self, *, older_than: float | None = None) -> int:
        """Let go of the facts of trees that ended more than so many seconds ago; how many trees. ``watch`` gives a
        :class:`.log.Gap` for them, and ``get`` still says how they ended."""
        self.check_open()
        line = self._seams.wall() - (older_than or 0.0)
        gone = [tree for tree in self._ended if (tree.root.standing.ended or 0.0) <= line]
        for tree in gone:
            self._ended.remove(tree)
            self._forget(tree)
        return len(gone)

    # -- for leases and watchers -------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if not self.is_open:
            raise Unavailable("the engine is not open: use it within `async with engine:`")

    def next(self) -> int:
        self.made += 1
        return self.made

    def tree(self, run: str) -> Tree:
        self.check_open()
        tree = self.places.get(run)
        if tree is None:
            raise UnknownRun(f"there is no run {run[:100]!r}")
        return tree

    def take(self, worker: str) -> MemoryLease:
        lease = MemoryLease(self, (self._died or self._queue).popleft(), worker)
        self.leases_given.append(lease)
        return lease

    def waits(self) -> bool:
        return bool(self._died or self._queue)

    def given_back(self, lease: MemoryLease, suspended: bool) -> None:
        self.leases_given.remove(lease)
        tree = lease.tree
        tree.given_back(suspended=suspended)
        self.limits.reclaim(lease.run, ended=tree.root.ended)
        if tree.root.ended:
            self._has_ended(tree)
        else:
            self._died.append(tree)
        self.bell.ring()

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
                del self.places[run]
