"""One worker process from outside: its start, the line to it, where it stands, and an end that leaves nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Container, Mapping, Sequence

import anyio

from . import leftovers
from .wire import SIGNS, AnyOrder, AnySign, Lines, line

LINE, STACKS = "WATCHKEEPER_LINE", "WATCHKEEPER_STACKS"
"""Environment variables of a worker: descriptors of its line to the foreman, and of the file into which
``faulthandler`` writes on :data:`SHOW`."""
SHOW = signal.SIGUSR2
"""Makes a thread of a worker write its own stack, even while a C extension holds the interpreter's lock. It must not
write those of others: they may be at work, and what reads their frames then ends the process now and then (one time in
a hundred, measured with four busy threads; one in some thousand where each shows its own)."""
ANSWER = 0.5
"""Seconds that a worker gets for that."""
PATIENCE, SWEEP = 3.0, 5.0
"""Seconds that commands of tools have to end themselves when their worker is gone (TERM, two seconds, KILL), and within
which all has to be gone."""
LOOK = 0.02
"""Seconds between two looks where nothing can be waited for."""


class Child:
    """A process of its own session. :meth:`end` must be called, whatever happens."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it. Blocks until the system has done so, some milliseconds: it is bound to the thread that starts it.
        Raises ``OSError``."""
        self._mark = secrets.token_hex(16)
        self._stacks = os.memfd_create("stacks")
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        self.deaf = False
        """It does not read what it is told."""
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603  (our own worker)
                    argv,
                    stdin=subprocess.DEVNULL,
                    env={
                        **os.environ,
                        **environ,
                        LINE: str(theirs.fileno()),
                        STACKS: str(self._stacks),
                        leftovers.MARK: self._mark,
                    },
                    pass_fds=(theirs.fileno(), self._stacks),
                    start_new_session=True,
                )
            except BaseException:
                self._close()
                raise
        self.pid = self._process.pid
        self._heard = False

    def tell(self, order: AnyOrder) -> None:
        try:
            self._line.send(line(order))
        except BlockingIOError:
            self.deaf = True
        except OSError:  # it is gone
            return

    async def signs(self) -> AsyncGenerator[AnySign]:
        """What it says, until its end closes."""
        lines = Lines(SIGNS)
        while True:
            await anyio.wait_readable(self._line)
            try:
                piece = self._line.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not piece:
                return
            self._heard = True
            for sign in lines.feed(piece):
                yield sign

    async def ended(self) -> int:
        """Wait for its end; the exit code, or minus the signal that killed it. Its process group goes with it."""
        with contextlib.suppress(OSError, AttributeError):  # no such call on this system
            descriptor = os.pidfd_open(self.pid)
            try:
                await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
        while self._process.returncode is None:
            if not self._is_dead():
                await anyio.sleep(LOOK)
                continue
            self.kill()  # before it is collected: until then no other group can have its number
            self._process.wait()
        return self._process.returncode

    def _is_dead(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    async def native_stack(self, *, whole: bool = False) -> str:
        """Where its first thread stands, the event loop's, or all of them, one after the other; asked by signal. Empty
        if it does not say so in time."""
        if self._process.returncode is not None or not self._heard:  # before its first word the signal would end it
            return ""
        os.ftruncate(self._stacks, 0)
        os.lseek(self._stacks, 0, os.SEEK_SET)
        with anyio.move_on_after(ANSWER):
            for thread in self._threads() if whole else (self.pid,):
                _signal(self.pid, thread)
                size = -1
                while size != os.fstat(self._stacks).st_size or (thread == self.pid and not size):
                    size = os.fstat(self._stacks).st_size
                    await anyio.sleep(LOOK)
        return os.pread(self._stacks, 1 << 16, 0).decode("utf-8", "replace").strip()

    def _threads(self) -> list[int]:
        """The first one first."""
        try:
            return sorted(map(int, os.listdir(f"/proc/{self.pid}/task")), key=lambda one: (one != self.pid, one))
        except OSError:
            return [self.pid]

    def kill(self) -> None:
        """At once, with its process group."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self, others: Container[int] | None = None) -> tuple[int, ...]:
        """Kill it if it is alive, and end what it has left; ids of what did not go in time.

        ``others``: the other children of this process, if it adopts orphans (:func:`.leftovers.adopt`). Commands of
        tools end themselves when their worker is gone, and are given the time for that.
        """
        left: set[int] = set()
        with anyio.CancelScope(shield=True):
            self.kill()
            await self.ended()
            self._close()
            began = anyio.current_time()
            while True:
                marked = leftovers.marked(self._mark)
                left = marked | (leftovers.adopted(others) if others is not None else set())
                waited = anyio.current_time() - began
                if not left or waited >= SWEEP:
                    break
                for pid in left if waited >= PATIENCE else marked:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                await anyio.sleep(LOOK)
        return tuple(sorted(left))

    def _close(self) -> None:
        self._line.close()
        os.close(self._stacks)


def _signal(pid: int, thread: int) -> None:
    """Send :data:`SHOW` to one thread. One that is gone, and a system without such a call, are passed over."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).tgkill(pid, thread, int(SHOW))
