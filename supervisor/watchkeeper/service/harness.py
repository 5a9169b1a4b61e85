"""What every worker process is, whatever it executes: bound to its foreman, watched from a thread, told when to end."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
import anyio.abc

from ..errors import WatchkeeperError
from ..reports import report
from ..seams import Seams
from .child import LINE, SHOW, STACKS
from .garbage import collect_seldom
from .heartbeat import Heartbeat
from .leftovers import die_with_parent
from .wire import AnyOrder, Bye, Drain, Reload, Stop

FAILED = 1
"""Exit code of a worker that could not work; why is in its last word to the foreman."""


class Duty:
    """What the foreman wants of a worker; also what a signal wants. Lives in the worker's loop."""

    def __init__(self, heartbeat: Heartbeat, drain: float) -> None:
        self.heartbeat = heartbeat
        self._drain = drain
        self.seconds = 0.0
        """How long turns may finish, once :attr:`over` is set."""
        self.over = anyio.Event()
        """It is to end."""
        self.at_once = anyio.Event()
        """Without letting turns finish."""
        self.on_reload: Callable[[], None] = lambda: None

    def obey(self, order: AnyOrder) -> None:
        match order:
            case Drain(seconds=seconds):
                self.seconds = seconds
                self.over.set()
            case Stop():
                self.over.set()
                self.at_once.set()
            case Reload():
                self.on_reload()
            case _:
                pass

    async def signals(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """TERM drains, a second one stops at once; USR1 writes tasks and stacks to the log."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1) as received:
            task_status.started()
            async for number in received:
                if number == signal.SIGUSR1:
                    report("stack", pid=os.getpid(), stack=self.heartbeat.stack())
                else:
                    self.obey(Stop() if self.over.is_set() else Drain(self._drain))


Body = Callable[[Duty, Seams], Awaitable[None]]


def work(body: Body, *, backend: Literal["asyncio", "trio"], drain: float) -> int:
    """Run a worker's body on a loop until it returns; the exit code. The body binds the heartbeat once it can be asked
    for its runs, says ``Hello``, and returns some time after ``duty.over``.

    The process ends with its foreman: by the kernel, and by the end of the line if the kernel does not know how.
    """
    die_with_parent(os.getppid())
    faulthandler.register(SHOW, file=int(os.environ.pop(STACKS)), all_threads=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the foreman's business
    heartbeat = Heartbeat(socket.socket(fileno=int(os.environ.pop(LINE))))
    os.set_inheritable(heartbeat.fileno(), False)
    heartbeat.start()
    collect_seldom()

    async def main() -> None:
        seams = Seams()
        seams.bind()
        duty = Duty(heartbeat, drain)
        async with anyio.create_task_group() as tasks:
            await tasks.start(duty.signals)
            await body(duty, seams)
            tasks.cancel_scope.cancel()
        for number in (signal.SIGTERM, signal.SIGUSR1):  # nobody listens any more, and it ends as it should
            signal.signal(number, signal.SIG_IGN)

    code = 0
    try:
        anyio.run(main, backend=backend)
    except* WatchkeeperError as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        heartbeat.say(Bye(problem=str(first)))
        code = FAILED
    return code


def leave(code: int) -> None:
    """End the process now: a daemon thread that hangs in a tool does not hold it up."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
