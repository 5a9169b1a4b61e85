"""The engine in SQLite: one folder, one file for each worker, and one for what is submitted and sent.

Each file has a thread of its own that alone writes to it, and one more thread reads: so it is the same on asyncio and
on trio. What others do in the folder is learned by hints (``hints.py``), and without one every second.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from ..engine import (
    Answered,
    AnyCommand,
    BudgetStanding,
    Cancel,
    EngineError,
    Lease,
    Page,
    Query,
    RunSpec,
    RunStatus,
    Unavailable,
)
from ..log import Gap
from ..messages import Event, Mode
from ..seams import Seams
from .bell import Bell, Bells
from .book import Book, unlocked
from .checks import check_command, check_name, check_spec, without_halves
from .control import Control
from .database import There
from .desk import Desk, WritingDesk
from .hints import Hints
from .lock import Lock, is_held
from .readings import Changed, Readings
from .retention import prune
from .schema import CONTROL_FILE, WORKERS
from .sqlitelease import Leases, SqliteLease, Watch

T = TypeVar("T")


class WorkersFile:
    """A worker's file that this process owns."""

    def __init__(self, name: str, lock: Lock, desk: WritingDesk[Book], path: Path) -> None:
        self.name = name
        self.lock = lock
        self.desk = desk
        self._path = path
        self._there = There(path)

    def check(self) -> None:
        """Raises :class:`Unusable` if it, or its lock, was deleted or replaced."""
        self._there.check()
        if not self.lock.stands():
            raise unlocked(self._path)


class SqliteEngine:
    """Runs in a folder, shared by processes. With ``worker`` it owns the file of that worker and gives leases; without,
    it submits, looks, sends and leaves the executing to others.

    Opening it raises :class:`EngineError` if another process is that worker, or if the folder cannot be used: it names
    the file and the remedy. So does every call; after a full disk the same can be asked again.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, worker: str | None = None, seams: Seams | None = None
    ) -> None:
        self.folder = Path(folder)
        self.worker = None if worker is None else check_name("the name of a worker", worker)
        self._seams = seams or Seams()
        self._open = False
        self.files: dict[str, WorkersFile] = {}
        self.died: deque[tuple[WorkersFile, str]] = deque()
        """Runs whose attempt is over without an end record, and those that were claimed and never begun."""
        self.queue: deque[tuple[WorkersFile, str]] = deque()
        self.ready: deque[SqliteLease] = deque()
        """Leases that nobody has got yet."""
        self.leases_given: dict[str, SqliteLease] = {}
        self.giving: Leases | None = None
        """Who iterates over leases."""
        self._unsure = False
        """A claim broke off: something may be claimed that nobody knows of."""
        self.at_work = Bell()
        """Rings when there may be a run to execute."""
        self.early = Bell()
        """Rings when something was submitted, claimed, sent or answered."""
        self.watched = Bells()
        self.commanded = Bells()
        self._looks = False

    # -- open and close ----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> SqliteEngine:
        if self._open:
            raise EngineError("this engine is open already")
        self._seams.bind()
        folder, name = self.folder, self.worker or "control"
        self.control = WritingDesk("control", folder / CONTROL_FILE, self._seams, lambda: Control(folder, self._sent))
        self.reader = Desk("reader", folder, self._seams, lambda: Readings(folder))
        self._hints = Hints(folder / "hints", name, self._look)
        try:
            await self.control.start()
            await self.reader.start()
            self._open = True
            if self.worker is not None:
                await self.adopt(self.worker)
                await self._end_forsaken()
            self._hints.open()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._close()

    async def _close(self) -> None:
        self._open = False
        for lease in list(self.leases_given.values()):
            lease.die()
        for bell in (self.at_work, self.early):
            bell.ring()
        self.watched.ring_all()
        self.commanded.ring_all()
        self._hints.close()
        for lease in self.ready:
            run, attempt = lease.run, lease.attempt
            lease.file.desk.tell(lambda book, run=run, attempt=attempt: book.release(run, attempt, True))  # type: ignore[misc]  # defaults in a lambda
        self.ready.clear()
        for file in self.files.values():
            await file.desk.close()
            file.lock.release()
        self.files.clear()
        self.died.clear()
        self.queue.clear()
        await self.control.close()
        await self.reader.close()

    def check_files(self) -> None:
        """Raises :class:`Unusable` if a file of this worker was deleted or replaced. Nothing can be written any more
        then, and otherwise that is not heard of before there is something to write."""
        for file in self.files.values():
            file.check()

    @property
    def is_open(self) -> bool:
        return self._open

    def check_open(self) -> None:
        if not self._open:
            raise Unavailable("the engine is not open: use it within `async with engine:`")

    async def adopt(self, worker: str) -> None:
        """Take over the file of a worker whose process is gone: its runs are given out by ``leases`` here. Raises
        :class:`EngineError` while that process lives."""
        self.check_open()
        if self.worker is None:
            raise EngineError("an engine without a worker's name executes nothing, and adopts no runs")
        if worker in self.files:
            return
        path = self.folder / WORKERS / f"{check_name('the name of a worker', worker)}.db"
        lock = Lock(path.with_suffix(".lock"))
        await lock.take()
        desk = WritingDesk(f"journal-{worker}", path, self._seams, lambda: Book(path, lock.stands, self._written))
        try:
            await desk.start()
            await self._take_in(WorkersFile(worker, lock, desk, path))
        except BaseException:
            await desk.close()
            lock.release()
            raise

    async def _take_in(self, file: WorkersFile) -> None:
        """What a worker's file holds from an earlier life, and what was claimed for it and has not come there."""
        placed = await self.control.ask(lambda control: control.in_file(file.name))
        lost, at = await file.desk.ask(lambda book: book.lacks(placed)), self._seams.wall()
        await self.control.ask(lambda control: control.lost(sorted(lost), at))
        claimed = await self.control.ask(lambda control: control.claimed(file.name))
        await file.desk.ask(lambda book: book.take_in(claimed))
        ended = await file.desk.ask(Book.ended_runs)
        charged = await file.desk.ask(lambda book: {run: book.charged(run) for run in ended})

        def settle(control: Control) -> None:
            control.placed([run for run, *_ in claimed])
            control.over(ended)
            for run, amounts in charged.items():
                control.spent(run, amounts)

        await self.control.ask(settle)
        await file.desk.ask(lambda book: book.over(ended))
        for run, begun in await file.desk.ask(Book.open_runs):
            (self.died if begun else self.queue).append((file, run))
        self.files[file.name] = file
        self.at_work.ring()

    async def _end_forsaken(self) -> None:
        """The runs of workers that are gone together with their files get their ends, for nobody else would."""
        for worker in await self.control.ask(Control.claimants):
            path, at = self.folder / WORKERS / f"{worker}.db", self._seams.wall()
            if path.exists():
                continue
            lock = Lock(path.with_suffix(".lock"))
            with contextlib.suppress(EngineError):  # it is there: it sees for itself when it starts anew
                await lock.take()
                try:
                    await self.control.ask(lambda control, worker=worker, at=at: control.forsaken(worker, at))  # type: ignore[misc]  # defaults in a lambda
                finally:
                    lock.release()

    def alive(self, worker: str) -> bool:
        """Whether a process is that worker now."""
        return is_held(self.folder / WORKERS / f"{check_name('the name of a worker', worker)}.lock")

    # -- the port ----------------------------------------------------------------------------------------------------

    async def submit(self, spec: RunSpec, *, run: str = "") -> RunStatus:
        self.check_open()
        check_spec(spec)
        spec = without_halves(spec)
        run = check_name("the id of a run", run) if run else self._seams.new_id("r")
        at = self._seams.wall()
        await self.control.ask(lambda control: control.submit(run, spec, at))
        return await self.get(run)

    async def get(self, run: str) -> RunStatus:
        self.check_open()
        return await self.reader.ask(lambda reader: reader.status(run))

    async def cancel(
        self, run: str, reason: str = "cancelled", mode: Mode = "now", *, by: str = "", id: str = ""
    ) -> None:
        status = await self.get(run)
        if status.state != "ended":
            await self._send(status, Cancel(id=id, by=by, reason=reason, mode=mode))

    async def send(self, run: str, command: AnyCommand) -> str:
        return await self._send(await self.get(run), command)

    async def _send(self, status: RunStatus, command: AnyCommand) -> str:
        check_command(command)
        command = without_halves(command)
        sent = msgspec.structs.replace(command, id=command.id or self._seams.new_id("c"), run=status.run)
        root, ended, at = status.root, status.state == "ended" and status.parent != "", self._seams.wall()
        return await self.control.ask(lambda control: control.send(root, sent, ended, at))

    async def answered(self, run: str, command: str) -> Answered:
        root = (await self.get(run)).root
        while True:
            heard = self.early.heard()
            answer = await self.reader.ask(lambda reader: reader.answer(root, run, command))
            if answer is not None:
                return answer
            await heard.wait()
            self.check_open()

    def watch(self, run: str, after: int = 0) -> AsyncIterator[Event | Gap]:
        return Watch(self, run, after)

    def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        """``worker`` is that of the engine, or empty."""
        if worker and worker != self.worker:
            raise EngineError(f"this engine is the worker {self.worker!r}, not {worker!r}; open one of that name")
        return Leases(self, capacity)

    async def list(self, query: Query) -> Page:
        self.check_open()
        return await self.reader.ask(lambda reader: reader.page(query))

    async def prune(self, *, older_than: float | None = None, larger_than: int | None = None) -> int:
        """Delete the facts of trees that ended more than so many seconds ago, then the oldest ended ones for as long as
        a file of this worker is larger than so many bytes; how many trees. ``get`` still says how they ended, for the
        newest 10,000; ``watch`` gives a :class:`.log.Gap`. Nothing that is at work waits for it longer than for one
        small transaction."""
        self.check_open()
        line = None if older_than is None else self._seams.wall() - older_than
        pruned = 0
        for file in list(self.files.values()):
            pruned += await prune(file.desk, self.control, line, larger_than)
        return pruned

    @property
    def limits(self) -> SqliteLimits:
        return SqliteLimits(self)

    # -- for leases and watchers -------------------------------------------------------------------------------------

    async def claim(self, most: int) -> None:
        """Take up to so many runs from the queue of all into one's own."""
        assert self.worker is not None
        name, file = self.worker, self.files[self.worker]
        if not self._unsure and not await self.reader.ask(Readings.waits):
            return
        unsure, self._unsure = self._unsure, True
        claimed = await self.control.ask(lambda control: control.claim(name, most))
        if unsure:
            known = {
                *self.leases_given,
                *(lease.run for lease in self.ready),
                *(run for _, run in (*self.died, *self.queue)),
            }
            claimed = await self.control.ask(lambda control: control.claimed(name))
            claimed = [one for one in claimed if one[0] not in known]
        await file.desk.ask(lambda book: book.take_in(claimed))
        runs = [run for run, *_ in claimed]
        self.queue.extend((file, run) for run in runs)
        self._unsure = False
        self.control.tell(lambda control: control.placed(runs))

    async def given_back(self, lease: SqliteLease, suspended: bool) -> None:
        run, attempt, file = lease.run, lease.attempt, lease.file
        ended = await file.desk.ask(lambda book: book.release(run, attempt, suspended))
        if lease.spec.budget and self.leases_given.get(run) is lease:
            # Before another attempt may be granted anything. If it cannot be written that attempt does it.
            with contextlib.suppress(EngineError):
                charged = await file.desk.ask(lambda book: book.charged(run))
                await self.control.ask(lambda control: (control.spent if ended else control.reclaim)(run, charged))
        if self.leases_given.get(run) is lease:
            del self.leases_given[run]
            if not ended:
                self.died.append((file, run))
            self.at_work.ring()
        if ended:
            await self.control.ask(lambda control: control.over([run]))
            file.desk.tell(lambda book: book.over([run]))

    def _written(self, runs: Iterable[str]) -> None:
        """A worker's file of ours has new facts. In its thread."""
        self._seams.post(lambda: self._ring(runs))
        self._hints.ring()

    def _sent(self) -> None:
        """The control file is otherwise. In its thread."""
        self._look()
        self._hints.ring()

    def _look(self) -> None:
        """See what has changed; from any thread."""
        if not self._looks:
            self._looks = True
            self.reader.tell(self._look_now)

    def _look_now(self, reader: Readings) -> None:
        self._looks = False
        changed = reader.look()
        self._seams.post(lambda: self._seen(changed))

    def _seen(self, changed: Changed) -> None:
        self._ring(changed.runs)
        for tree in changed.trees:
            self.commanded.ring(tree)
        if changed.control:
            self.early.ring()
            self.at_work.ring()

    def _ring(self, runs: Iterable[str]) -> None:
        for run in runs:
            self.watched.ring(run)


class SqliteLimits:
    """Budgets that workers share, in the control file."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    async def define(self, budget: str, amounts: Mapping[str, float]) -> None:
        await self._ask(lambda control: control.define(budget, amounts))

    async def left(self, budget: str) -> dict[str, float]:
        return await self._ask(lambda control: control.left(budget))

    async def standing(self) -> list[BudgetStanding]:
        return await self._ask(lambda control: control.standing())

    async def _ask(self, function: Callable[[Control], T]) -> T:
        self._engine.check_open()
        return await self._engine.control.ask(function)
