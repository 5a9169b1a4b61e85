"""A thread of its own for a SQLite file: jobs go to it in order, and as many as wait share one transaction."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio

from ..engine import EngineError, Unavailable
from ..seams import Seams
from .database import TROUBLES, cannot
from .landing import Landing, landings

MOST = 500
"""Jobs of one transaction."""
CLOSING = 10.0
"""Seconds that the last transaction may take."""

S = TypeVar("S")
T = TypeVar("T")


class _Job:
    __slots__ = ("done", "error", "function", "value")

    def __init__(self, function: Callable[[Any], Any], done: Landing | None = None) -> None:
        self.function = function
        self.done = done
        self.value: Any = None
        self.error: BaseException | None = None


class Desk(Generic[S]):
    """What sits at it is made in its thread by ``open``, and every job gets it.

    A job either raises :class:`EngineError` before it has written anything or does not raise; what SQLite or the
    system raises undoes the whole transaction and is raised, explained, by all jobs in it. They can be asked again.
    Anything else is of one job alone: those beside it are done without it.
    """

    def __init__(self, name: str, path: Path, seams: Seams, open: Callable[[], S]) -> None:
        self._name = name
        self._path = path
        self._seams = seams
        self._open = open
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = True
        """Nobody is there to do a job: it is not open yet, could not be opened, or was closed."""

    async def start(self) -> None:
        """Open the file. Raises what ``open`` raises, and :class:`EngineError` if no thread is to be had."""
        self._landing = landings()
        first = _Job(lambda seat: None, self._landing())
        thread = threading.Thread(target=self._work, args=(first,), name=f"watchkeeper-{self._name}", daemon=True)
        self._left = anyio.Event()
        try:
            self._closed = False
            thread.start()
        except RuntimeError as error:
            self._closed = True
            raise Unavailable(f"{self._path} cannot be used: no thread could be started ({error})") from error
        await self._value(first)

    async def ask(self, function: Callable[[S], T]) -> T:
        """What ``function`` returns, when it is durable. On cancellation it may be done or not."""
        if self._closed:
            raise Unavailable(f"{self._path} is closed: use the engine within `async with engine:`")
        job = _Job(function, self._landing())
        self._jobs.put(job)
        value: T = await self._value(job)
        return value

    def tell(self, function: Callable[[S], object]) -> None:
        """The same for who does not wait, from any thread; what it raises is nobody's."""
        if not self._closed:
            self._jobs.put(_Job(function))

    async def close(self) -> None:
        """Finish what was asked, and close the file. Closing twice changes nothing."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING), self._seams.outside_work():
                await self._left.wait()

    async def _value(self, job: _Job) -> Any:
        assert job.done is not None
        with self._seams.outside_work():
            await job.done.wait()
        if job.error is not None:
            raise job.error
        return job.value

    def _work(self, first: _Job) -> None:
        try:
            seat = self._open()
        except BaseException as error:
            first.error = cannot(self._path, error) if isinstance(error, TROUBLES) else error
            self._closed = True
            self._say([first])
            return
        self._say([first])
        try:
            while True:
                batch = self._next()
                if batch is None:
                    return
                self.do(seat, batch)
                self._say(batch)
        finally:
            self.leave(seat)
            left = self._left
            self._seams.post(left.set)

    def _next(self) -> list[_Job] | None:
        job = self._jobs.get()
        if job is None:
            return None
        batch = [job]
        while len(batch) < MOST:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            batch.append(job)
        return batch

    def do(self, seat: S, batch: list[_Job]) -> None:
        """Do the jobs of a batch, in order. In the thread."""
        for job in batch:
            try:
                job.value = job.function(seat)
            except EngineError as error:
                job.error = error
            except TROUBLES as error:
                job.error = cannot(self._path, error)
            except BaseException as error:  # carried to whoever asked, whatever it is
                job.error = error

    def leave(self, seat: S) -> None:
        """Close what sits there. In the thread."""
        close = getattr(seat, "close", None)
        if close is not None:
            close()

    def _say(self, batch: list[_Job]) -> None:
        self._seams.post(lambda: _wake(batch))


def _wake(batch: list[_Job]) -> None:
    for job in batch:
        if job.done is not None:
            job.done.set()


class Seat:
    """What writes to a file: a connection, and what is done with it once for each transaction."""

    connection: sqlite3.Connection

    def begin(self) -> None:
        """Before the jobs of a transaction."""

    def flush(self) -> None:
        """After them: write what was gathered. May raise like a job."""

    def committed(self) -> None:
        """They are durable."""

    def undone(self) -> None:
        """They are not: forget what was gathered."""

    def close(self) -> None:
        self.connection.close()


W = TypeVar("W", bound=Seat)


class WritingDesk(Desk[W]):
    """A desk whose batches are transactions that begin with BEGIN IMMEDIATE."""

    def do(self, seat: W, batch: list[_Job]) -> None:
        connection = seat.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            seat.begin()
            for job in batch:
                try:
                    job.value = job.function(seat)
                except EngineError as error:
                    job.error = error
            seat.flush()
            connection.execute("COMMIT")
        except BaseException as error:
            self._undo(seat, batch, error)
        else:
            seat.committed()

    def _undo(self, seat: W, batch: list[_Job], error: BaseException) -> None:
        told = cannot(self._path, error) if isinstance(error, TROUBLES) else error
        try:
            if seat.connection.in_transaction:
                seat.connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            told = cannot(self._path, second)
        seat.undone()
        if isinstance(told, Exception) and not isinstance(told, EngineError):
            if len(batch) > 1:
                for job in batch:
                    job.error = None
                    self.do(seat, [job])
                return
            odd, told = told, EngineError(f"{self._path} does not take this: {type(told).__name__}: {told}")
            told.__cause__ = odd
        for job in batch:
            job.error = job.error or told
            job.value = None
