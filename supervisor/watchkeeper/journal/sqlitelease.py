"""What an engine in SQLite hands out: leases, and who iterates over them, over commands and over facts."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from ..engine import Answered, AnyCommand, EngineError, Fenced, Lease, RunStatus, Slice
from ..log import Gap
from ..messages import Event
from .book import Given

if TYPE_CHECKING:
    from .sqlite import SqliteEngine, WorkersFile

FULL_LOOK = 0.05
"""Seconds after which a worker that had no room is asked again; twice as many each time, up to a second."""
AT_ONCE = 64
"""Runs that a worker takes from the queue of all, or leases, in one transaction."""


class SqliteLease:
    """An attempt at a run, fenced by its number in the worker's file."""

    def __init__(self, engine: SqliteEngine, file: WorkersFile, given: Given) -> None:
        self.run = given.run
        self.spec = given.spec
        self.attempt = given.attempt
        self.crashes = given.crashes
        self.file = file
        self._engine = engine
        self._over = False
        self._back = False
        self._granted = False
        """What attempts before this one were granted is taken back."""

    @property
    def lost(self) -> bool:
        return self._over or not self.file.lock.stood()

    async def facts(self, run: str | None = None) -> AsyncIterator[Event]:
        run = run or self.run
        after = 0
        whole = False
        while not whole:
            found = await self._engine.reader.ask(lambda reader, after=after: reader.facts(run, after))  # type: ignore[misc]  # a default in a lambda
            for event in found.found:
                if isinstance(event, Gap):
                    raise EngineError(f"facts {event.first} to {event.last} of run {run} were deleted")
                after = event.n
                yield event
            whole = found.whole or not found.found

    async def children(self) -> Sequence[RunStatus]:
        worker, run = self.file.name, self.run
        return await self._engine.reader.ask(lambda reader: reader.children(worker, run))

    async def append(self, events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
        if self._over:
            raise Fenced(f"attempt {self.attempt} at run {self.run} is over")
        run, attempt, kept, charged = self.run, self.attempt, tuple(events), dict(charges or {})
        try:
            await self.file.desk.ask(lambda book: book.append(run, attempt, kept, charged))
        except Fenced:
            self._over = True
            raise

    async def grant(self, budget: str, amounts: Mapping[str, float]) -> Slice:
        if self.lost:
            raise Fenced(f"attempt {self.attempt} at run {self.run} is over")
        run, asked, engine = self.run, dict(amounts), self._engine
        if not self._granted:
            charged = await self.file.desk.ask(lambda book: book.charged(run))
            await engine.control.ask(lambda control: control.reclaim(run, charged))
            self._granted = True
        return await engine.control.ask(lambda control: control.grant(run, budget, asked))

    async def settle(self, command: AnyCommand, answer: Answered) -> None:
        root, said = self.run, msgspec.structs.replace(answer, id=command.id)
        await self._engine.control.ask(lambda control: control.settle(root, said))

    def commands(self) -> AsyncIterator[AnyCommand]:
        return Commands(self._engine, self)

    async def refuse(self, why: str) -> None:
        run, attempt = self.run, self.attempt
        await self.file.desk.ask(lambda book: book.refuse(run, attempt, why))

    async def release(self, *, suspended: bool = False) -> None:
        if not self._back:
            self.die()
            await self._engine.given_back(self, suspended)
            self._back = True

    def die(self) -> None:
        """Nobody is there any more who executes it."""
        self._over = True
        self._engine.commanded.ring(self.run)


class Leases:
    """The runs that are there to be executed by this worker, and then those of the queue of all."""

    def __init__(self, engine: SqliteEngine, capacity: Callable[[], int]) -> None:
        self._engine = engine
        self._capacity = capacity
        self._begun = False
        self._before: deque[SqliteLease] = deque()
        """Leases of whoever iterated before."""

    def __aiter__(self) -> Leases:
        return self

    async def __anext__(self) -> Lease:
        engine = self._engine
        if not self._begun:
            self._begin()
        while self._before and engine.is_open and engine.giving is self:
            await engine.given_back(self._before[0], False)
            self._before.popleft()
        pause = FULL_LOOK
        while engine.is_open and engine.giving is self:
            heard = engine.at_work.heard()
            room = self._capacity()
            if room > 0:
                if not engine.ready:
                    if not engine.died and not engine.queue:
                        await engine.claim(min(room, AT_ONCE))
                    await self._prepare(min(room, AT_ONCE))
                if engine.ready:
                    lease = engine.ready.popleft()
                    engine.leases_given[lease.run] = lease
                    return lease
            with anyio.move_on_after(pause if room <= 0 else float("inf")):
                await heard.wait()
            pause = FULL_LOOK if heard.is_set() else min(pause * 2, 1.0)
        raise StopAsyncIteration

    def _begin(self) -> None:
        """Whoever iterated before is gone, and with it its leases."""
        engine = self._engine
        engine.check_open()
        if engine.worker is None:
            raise EngineError("an engine without a worker's name gives no leases; name one: SqliteEngine(worker=…)")
        self._begun = True
        engine.giving = self
        engine.at_work.ring()
        self._before.extend(engine.leases_given.values())
        for lease in self._before:
            lease.die()

    async def _prepare(self, most: int) -> None:
        """Lease some of what is there, in one transaction."""
        engine = self._engine
        line = engine.died or engine.queue
        if not line:
            return
        file = line[0][0]
        runs: list[str] = []
        while line and line[0][0] is file and len(runs) < most:
            runs.append(line.popleft()[1])
        assert engine.worker is not None
        worker = engine.worker
        try:
            given = await file.desk.ask(lambda book: [book.lease(run, worker) for run in runs])
        except BaseException:
            line.extendleft((file, run) for run in reversed(runs))
            raise
        engine.ready.extend(SqliteLease(engine, file, one) for one in given)


class Commands:
    """What is sent to the tree of a lease, each command once."""

    def __init__(self, engine: SqliteEngine, lease: SqliteLease) -> None:
        self._engine = engine
        self._lease = lease
        self._bell = engine.commanded.of(lease.run)
        self._found: deque[AnyCommand] = deque()
        self._given: set[str] = set()
        self._next: anyio.Event | None = None
        """What is set when there is more than was found."""

    def __aiter__(self) -> Commands:
        return self

    async def __anext__(self) -> AnyCommand:
        root = self._lease.run
        while not self._lease.lost:
            while self._found:
                command = self._found.popleft()
                if command.id not in self._given:
                    self._given.add(command.id)
                    return command
            if self._next is not None:
                there_is_more, self._next = self._next, None
                await there_is_more.wait()
                continue
            heard = self._bell.heard()
            try:
                self._found.extend(await self._engine.reader.ask(lambda reader: reader.commands(root)))
            except EngineError:
                if self._lease.lost:
                    break
                raise
            self._next = heard
        raise StopAsyncIteration


class Watch:
    """The facts of a run, those that are there and then those that come."""

    def __init__(self, engine: SqliteEngine, run: str, after: int) -> None:
        self._engine = engine
        self._run = run
        self._after = max(after, 0)
        self._bell = engine.watched.of(run)
        self._found: deque[Event | Gap] = deque()
        self._whole = False

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Event | Gap:
        engine, run = self._engine, self._run
        while not self._found:
            if self._whole:
                raise StopAsyncIteration
            engine.check_open()
            heard, early = self._bell.heard(), engine.early.heard()
            after = self._after
            facts = await engine.reader.ask(lambda reader: reader.facts(run, after))  # noqa: B023 - asked at once
            self._found.extend(facts.found)
            self._whole = facts.whole
            if not facts.found and not facts.whole:
                await (early if facts.early else heard).wait()
        event = self._found.popleft()
        self._after = event.last if isinstance(event, Gap) else event.n
        return event
