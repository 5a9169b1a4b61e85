"""Threads for plain functions. A thread cannot be killed: one that does not end in time is abandoned and counted.

Daemon threads of our own, so that a hanging tool never holds up the end of the process, and so that the count of the
abandoned ones is ours: the two event loops treat their worker threads differently.
"""

from __future__ import annotations

import contextvars
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import anyio

from .seams import Seams

MAX_THREADS = 40
MAX_ABANDONED = 8
WAIT = 60.0
"""Seconds that a call waits for a thread; its own time begins when it has one."""


class NoThread(Exception):
    """Raised when no thread is to be had: all of them are abandoned or at work."""


class Job:
    """One function on its way through a thread."""

    __slots__ = ("abandoned", "context", "error", "finished", "function", "ident", "on_end", "value")

    def __init__(self, function: Callable[[], Any], context: contextvars.Context) -> None:
        self.function = function
        self.context = context
        self.value: Any = None
        self.error: BaseException | None = None
        self.finished = anyio.Event()
        self.abandoned = False
        self.ident: int | None = None
        self.on_end: Callable[[], None] | None = None

    def frame(self) -> str | None:
        """Where the thread is right now."""
        frame = sys._current_frames().get(self.ident or -1)
        if frame is None:
            return None
        summary = traceback.extract_stack(frame)[-1]
        return f"{summary.filename}:{summary.lineno} in {summary.name}"


class Threads:
    """Runs functions in daemon threads, at most ``limit`` at a time."""

    def __init__(self, seams: Seams, *, limit: int = MAX_THREADS, abandoned: int = MAX_ABANDONED) -> None:
        self._seams = seams
        self._limit = limit
        self._max_abandoned = abandoned
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._free = anyio.Semaphore(limit)
        self.alive = 0
        self.abandoned: set[Job] = set()

    async def run(
        self,
        function: Callable[[], Any],
        context: contextvars.Context,
        on_start: Callable[[], None],
        on_abandon: Callable[[Job], None],
    ) -> Any:
        """Run ``function`` in a thread and return its value or raise its error. ``on_start`` is called when a thread
        has it.

        On cancellation the thread is abandoned: ``on_abandon`` gets the job, whose ``on_end`` is called in the loop
        when the thread does end. Raises :class:`NoThread` if too many threads are abandoned already, or none comes
        free in time; calls that are at work when the cap is reached may still go beyond it.
        """
        self._check_abandoned()
        with anyio.move_on_after(WAIT) as waited:
            await self._free.acquire()
        if waited.cancelled_caught:
            raise NoThread(f"none of {self._limit} threads came free within {WAIT:g} s")
        try:
            self._check_abandoned()
            job = Job(function, context)
            with self._seams.outside_work():
                self._hand_over(job)
                on_start()
                try:
                    await job.finished.wait()
                except BaseException:
                    if not job.finished.is_set():
                        job.abandoned = True
                        self.abandoned.add(job)
                        on_abandon(job)
                    raise
        finally:
            self._free.release()
        if isinstance(job.error, KeyboardInterrupt):
            # Nobody can have meant this process: interrupts go to the main thread.
            raise RuntimeError("the tool raised KeyboardInterrupt") from job.error
        if job.error is not None:
            raise job.error
        return job.value

    @property
    def exhausted(self) -> bool:
        """So many calls never ended that no other one gets a thread."""
        return len(self.abandoned) >= self._max_abandoned

    def _check_abandoned(self) -> None:
        if self.exhausted:
            raise NoThread(f"{len(self.abandoned)} earlier calls never ended and hold their threads")

    def _hand_over(self, job: Job) -> None:
        """To an idle thread or a new one; a job that nobody will take is never put into the queue."""
        if self._idle:
            self._idle -= 1
        else:
            try:
                self._spawn()
            except RuntimeError as error:
                raise NoThread(f"no thread could be started: {error}") from error
        self._jobs.put(job)

    def close(self) -> None:
        """Let idle threads end. Those at work end with their job."""
        for _ in range(self.alive):
            self._jobs.put(None)

    def _spawn(self) -> None:
        threading.Thread(target=self._work, name=f"watchkeeper-tool-{self.alive + 1}", daemon=True).start()
        self.alive += 1

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job.ident = threading.get_ident()
            try:
                job.value = job.context.run(job.function)
            except BaseException as error:  # carried to the loop, whatever it is
                job.error = error
            job.ident = None
            # What the job was made of goes now: this thread may come round to its last line after the run has ended.
            del job.function, job.context
            if not self._seams.post(lambda job=job: self._ended(job)):  # type: ignore[misc]  # a default in a lambda
                return
            del job

    def _ended(self, job: Job) -> None:
        self._idle += 1
        job.finished.set()
        if job.abandoned:
            self.abandoned.discard(job)
            if job.on_end is not None:
                job.on_end()
