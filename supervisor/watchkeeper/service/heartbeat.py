"""The worker's side of the line to its foreman: a thread that says that the loop is alive, or what holds it.

A thread, for a blocked loop can say nothing. It also takes the foreman's orders, shows stacks while the loop is
blocked, and ends the process when the foreman is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

from ..seams import Seams
from . import stacks
from .wire import ORDERS, AnyOrder, AnySign, Beat, Blocked, Lines, ShowStack, Stack, line

EVERY = 0.25
"""Seconds between two beats."""
BLOCKED = 1.0
"""Seconds without an answer of the loop after which it is called blocked, and between two reports of that."""


class Heartbeat:
    """Beats from :meth:`start` on, for a loop from :meth:`bind` on, until the process ends.

    ``runs`` and ``stuck`` are asked in the loop, with each beat; orders other than for a stack are handed to ``obey``
    there, those that came before it was bound included.
    """

    def __init__(self, foreman: socket.socket) -> None:
        self._foreman = foreman
        self._foreman.setblocking(True)
        self._saying = threading.Lock()
        self._seams: Seams | None = None
        self._tasks: stacks.Tasks | None = None
        self._obey: Callable[[AnyOrder], None] = lambda order: None
        self._runs: Callable[[], int] = lambda: 0
        self._stuck: Callable[[], tuple[str, ...]] = lambda: ()
        self._early: list[AnyOrder] = []
        self._asked: float | None = None
        self._answer: Beat | None = None
        self._told = 0.0

    def fileno(self) -> int:
        return self._foreman.fileno()

    def start(self) -> None:
        threading.Thread(target=self._beat, name="watchkeeper-heartbeat", daemon=True).start()

    def bind(
        self,
        seams: Seams,
        obey: Callable[[AnyOrder], None],
        runs: Callable[[], int] = lambda: 0,
        stuck: Callable[[], tuple[str, ...]] = lambda: (),
    ) -> None:
        """Watch the loop that runs in this thread, to which ``seams`` are bound."""
        self._tasks, self._obey, self._runs, self._stuck = stacks.tasks_here(), obey, runs, stuck
        self._seams = seams

    def unbind(self) -> None:
        """The loop is about to end."""
        self._seams = None

    def say(self, sign: AnySign) -> None:
        """From any thread. Ends the process if nobody is there to hear it."""
        try:
            with self._saying:
                self._foreman.sendall(line(sign))
        except OSError:
            end_group()

    def stack(self) -> str:
        seams = self._seams
        return stacks.text(seams.thread if seams is not None else None, self._tasks)

    def _beat(self) -> None:
        lines = Lines(ORDERS)
        while True:
            ready, _, _ = select.select([self._foreman], [], [], EVERY)
            if ready:
                self._read(lines)
            self._look(time.monotonic())

    def _read(self, lines: Lines[AnyOrder]) -> None:
        piece = b""
        with contextlib.suppress(OSError):
            piece = self._foreman.recv(65536)
        if not piece:
            end_group()
        for order in lines.feed(piece):
            if isinstance(order, ShowStack):
                self.say(Stack(self.stack()))
            else:
                self._early.append(order)

    def _look(self, now: float) -> None:
        seams = self._seams
        if seams is None:
            self.say(Beat())
            return
        for order in self._early:
            seams.post(lambda order=order: self._obey(order))  # type: ignore[misc]  # a default in a lambda
        self._early.clear()
        if self._asked is not None and self._answer is None:
            if now - max(self._asked, self._told) >= BLOCKED:
                self._told = now
                self.say(Blocked(now - self._asked, self._frame(seams), self.stack()))
            return
        if self._answer is not None:
            self.say(self._answer)
        self._asked, self._answer = now, None
        if not seams.post(lambda: self._say_alive(now)):
            self._seams = self._asked = None

    def _say_alive(self, asked: float) -> None:
        self._answer = Beat(self._runs(), time.monotonic() - asked, self._stuck())

    def _frame(self, seams: Seams) -> str:
        return stacks.innermost(seams.thread)


def end_group() -> None:
    """End this process and all of its group at once, by force: nobody is left who would."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
