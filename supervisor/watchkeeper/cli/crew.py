"""A crew: worker processes that do units of work side by side; what they give back comes in the order of the units."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from .exits import FAILED, CommandError, told_of

Unit = TypeVar("Unit")
Given = TypeVar("Given")

AHEAD = 4
"""Units for each worker that may be done while an earlier one is still at work: so memory stays bounded."""
LOOK_UP = 0.5
"""Seconds after which waiting looks up: an interrupt that comes just before a wait does not end it."""
LEAVE = 1.0
"""Seconds that a worker gets to end."""


class _Failed:
    """A worker's own error, as text."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Quit(_Failed):
    """Something that a worker called wanted to end the program."""


class _Worker(Generic[Unit]):
    """One process and this end of its pipe."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe
        self.unit: tuple[int, Unit] | None = None


class Crew(Generic[Unit, Given]):
    """Made by :func:`crew_of`. Each worker has one unit at a time, so neither end of a pipe ever waits for the other.

    A worker that dies ends the work with a :class:`CommandError`. The workers end with this process, however it ends:
    the other end of their pipe closes. Interrupts are this process's to answer.
    """

    def __init__(self, work: Callable[[Unit], Given], jobs: int, describe: Callable[[Unit], str]) -> None:
        self._describe = describe
        self._workers: list[_Worker[Unit]] = []
        for stream in (sys.stdout, sys.stderr):  # what is not written yet would be written by every child
            stream.flush()
        method = _start_method()
        context: Any = multiprocessing.get_context(method)  # its type lacks what all of them have
        try:
            for _ in range(jobs):
                ours, theirs = context.Pipe()
                # A fork has copies of our ends, and would never see them close.
                copies = [ours, *(worker.pipe for worker in self._workers)] if method == "fork" else []
                process = context.Process(target=_serve, args=(theirs, copies, work), daemon=True)
                process.start()
                theirs.close()
                self._workers.append(_Worker(process, ours))
        except BaseException:
            self.close()
            raise

    def map(self, units: Iterable[Unit]) -> Iterator[Given]:
        """What ``work`` gives for each unit, in order. Units are taken as they are needed."""
        idle = deque(self._workers)
        done: dict[int, Given] = {}
        due = number = 0
        source = iter(units)
        more = True
        while True:
            while due in done:
                yield done.pop(due)
                due += 1
            while more and idle and number - due < AHEAD * len(self._workers):
                try:
                    unit = next(source)
                except StopIteration:
                    more = False
                    break
                worker = idle.popleft()
                worker.unit = number, unit
                number += 1
                self._send(worker)
            busy = {worker.pipe: worker for worker in self._workers if worker.unit is not None}
            if not busy:
                if more or due in done:
                    continue
                return
            for pipe in wait(list(busy), LOOK_UP):
                assert isinstance(pipe, Connection)
                worker = busy[pipe]
                assert worker.unit is not None
                done[worker.unit[0]] = self._receive(worker)
                worker.unit = None
                idle.append(worker)

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(LEAVE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join(LEAVE)
        self._workers.clear()

    def _send(self, worker: _Worker[Unit]) -> None:
        assert worker.unit is not None
        try:
            worker.pipe.send(worker.unit[1])
        except OSError as error:
            raise self._died(worker) from error

    def _receive(self, worker: _Worker[Unit]) -> Given:
        try:
            given = worker.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died(worker) from error
        if isinstance(given, _Quit):
            raise CommandError(given.text, FAILED)
        if isinstance(given, _Failed):
            raise RuntimeError(f"in a worker process:\n{given.text}")
        return given  # type: ignore[no-any-return]

    def _died(self, worker: _Worker[Unit]) -> CommandError:
        worker.process.join(LEAVE)
        code = worker.process.exitcode
        how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        where = self._describe(worker.unit[1]) if worker.unit is not None else "its start"
        return CommandError(
            f"a worker process died ({how}) at {where}; what came before it is judged. Out of memory, or killed by "
            "somebody? --jobs 1 works without workers",
            FAILED,
        )


def _start_method() -> str:
    """Forking starts in a few milliseconds, but only a process without threads may be forked."""
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"


def _serve(pipe: Connection, copies: list[Connection], work: Callable[[Unit], Given]) -> None:
    """A worker: does what comes through the pipe until it closes."""
    for copy in copies:
        copy.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    given: object
    while True:
        try:
            unit = pipe.recv()
        except (EOFError, OSError):
            break
        try:
            given = work(unit)
        except SystemExit as error:
            given = _Quit(told_of(error))
        except Exception:
            given = _Failed(traceback.format_exc())
        try:
            pipe.send(given)
        except OSError:
            break
    os._exit(0)  # nothing of what a fork brought along may run or be written a second time


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1
