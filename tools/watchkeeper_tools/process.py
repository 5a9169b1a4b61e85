"""One command with everything that it starts, from its start to the proof that nothing of it is left."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from watchkeeper import ToolError

from . import reaper

GRACE = 2.0
"""Seconds between TERM and KILL."""
MARK = "WATCHKEEPER_CALL"
"""Environment variable by which a process is known to belong to a command; its value is a random id."""
HEAD, TAIL = 8_000, 12_000
"""Bytes kept of an output's beginning and end; what is between is counted and dropped."""
FLOOD = 64 << 20
"""Bytes of output after which a command is ended."""
_DRAIN = 0.5
_LAST_RESORT = 1.0


@dataclass
class Output:
    """The beginning and the end of what was written, in bounded memory, and how much it was."""

    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = HEAD - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]

    def text(self) -> str:
        tail = self._tail[-TAIL:]
        cut = self.total - len(self._head) - len(tail)
        if not cut:
            return (self._head + tail).decode("utf-8", "replace")
        ends = (bytes(end).decode("utf-8", "replace") for end in (self._head, tail))
        return f"\n[… {cut:,} bytes of output are left out …]\n".join(ends)


@dataclass
class Ended:
    """How a command ended. ``status`` is its exit code, or minus the signal that killed it; None if it was stopped."""

    output: Output
    status: int | None = None
    errno: int = 0
    """Why it could not be started (0: it was)."""
    timed_out: bool = False
    flooded: bool = False
    ended: int = 0
    """Processes that it left running and that were ended."""
    left: tuple[int, ...] = ()
    """Ids of processes that could not be ended."""
    sure: bool = True
    """False where the system gives no way to find a process that has left its group."""


class Command:
    """A command in a process tree of its own.

    :meth:`run` returns when the command has ended, after ``seconds``, or when its output floods. Whatever the way, also
    on cancel or an error, all that it started is ended first: TERM, two seconds, KILL. That is shielded from cancels;
    it takes at most about seven seconds and nearly always some milliseconds. Raises :class:`ToolError` if the system
    starts no process.
    """

    def __init__(self, argv: Sequence[str], *, directory: int, environment: Mapping[str, str], seconds: float) -> None:
        self._argv = list(argv)
        self._directory = directory
        self._mark = secrets.token_hex(16)
        self._environment = {**environment, MARK: self._mark}
        self._seconds = seconds

    async def run(self, stdin: bytes = b"") -> Ended:
        ended = Ended(Output())
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, anyio.CancelScope(shield=True):  # a start that is cut off half-way could not be undone
                process = await self._start(theirs.fileno(), has_input=bool(stdin))
            try:
                with anyio.move_on_after(self._seconds) as scope:
                    await self._attend(process, stdin, ended)
                ended.timed_out = scope.cancelled_caught
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end(process, ours, ended)
        return ended

    async def _start(self, control: int, *, has_input: bool) -> Process:
        script = [sys.executable, "-I", "-S", reaper.__file__, str(control), str(self._directory), str(GRACE)]
        try:
            return await anyio.open_process(
                [*script, *self._argv],
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                pass_fds=(control, self._directory),
            )
        except OSError as error:
            raise ToolError(f"no process can be started: {os.strerror(error.errno or 0).lower()}") from error

    async def _attend(self, process: Process, stdin: bytes, ended: Ended) -> None:
        """Feed and read until the command has ended, its output has, or is too much."""
        assert process.stdout is not None
        read_all = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process.stdout, ended, read_all, group.cancel_scope)
            if process.stdin is not None:
                group.start_soon(_feed, process.stdin, stdin)
            await process.wait()
            with anyio.move_on_after(_DRAIN):  # whoever outlives the reaper may hold the pipe
                await read_all.wait()
            group.cancel_scope.cancel()

    async def _end(self, process: Process, control: socket.socket, ended: Ended) -> None:
        if process.returncode is None:
            with suppress(OSError):
                control.shutdown(socket.SHUT_WR)
            with anyio.move_on_after(GRACE + reaper.KILL_SECONDS + 0.5):
                await process.wait()
        report = _report(control)
        if report is None:  # the reaper was killed or hangs: what bears the mark is found without it
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            ended.left = await _sweep(self._mark)
            ended.sure = False
        else:
            ended.status, ended.errno = report.get("status"), report.get("errno", 0)
            ended.ended, ended.left = report.get("ended", 0), tuple(report.get("left", ()))
            ended.sure = report.get("sure", True)
        with anyio.move_on_after(_LAST_RESORT):
            await process.wait()
            await process.aclose()


async def _read(stream: ByteReceiveStream, ended: Ended, done: anyio.Event, scope: anyio.CancelScope) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            ended.output.add(await stream.receive())
            if ended.output.total > FLOOD:
                ended.flooded = True
                scope.cancel()
    done.set()


async def _feed(stream: ByteSendStream, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):  # a command need not read all
        await stream.send(data)
        await stream.aclose()


def _report(control: socket.socket) -> dict[str, Any] | None:
    control.setblocking(False)
    try:
        report = json.loads(control.recv(65536))
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) else None


async def _sweep(mark: str) -> tuple[int, ...]:
    """Kill all processes that bear the mark, until none is found or a second has passed; those that are left."""
    needle = f"{MARK}={mark}".encode()
    with anyio.move_on_after(_LAST_RESORT):
        while found := _marked(needle):
            for pid in found:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(0.01)
    return _marked(needle)


def _marked(needle: bytes) -> tuple[int, ...]:
    """Ids of live processes that bear the mark; none where there is no /proc."""
    found = []
    with suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if needle in file.read().split(b"\0"):
                        found.append(int(name))
    return tuple(found)
