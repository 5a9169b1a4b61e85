"""Looking on until one goes away: q or Ctrl-C end the looking, and never what is looked at."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import anyio
import anyio.to_thread

LOOK = 0.1
"""Seconds between two looks whether the keys are still asked for."""
QUIT = b"qQ"


class Watcher:
    """Somebody who looks on; ``gone`` once they have gone away."""

    def __init__(self) -> None:
        self.gone = False


@contextlib.asynccontextmanager
async def looking_on(*, keys: bool = True) -> AsyncIterator[Watcher]:
    """What is inside is cancelled when q is typed at the terminal, or on SIGINT and SIGTERM."""
    watcher = Watcher()
    async with anyio.create_task_group() as tasks:

        def go() -> None:
            watcher.gone = True
            tasks.cancel_scope.cancel()

        async def signals() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as came:
                async for _ in came:
                    go()

        async def typed() -> None:
            over = threading.Event()
            try:
                if await anyio.to_thread.run_sync(wait_for_quit, over, abandon_on_cancel=True):
                    go()
            finally:
                over.set()

        if threading.current_thread() is threading.main_thread():
            tasks.start_soon(signals)
        if keys and at_keyboard():
            tasks.start_soon(typed)
        yield watcher
        tasks.cancel_scope.cancel()


def at_keyboard() -> bool:
    """Keys can be read one by one: standard input is a terminal, and this process is in its foreground."""
    try:
        return (
            os.name == "posix"
            and sys.stdin is not None
            and sys.stdin.isatty()
            and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        )
    except (OSError, ValueError):
        return False


def wait_for_quit(over: threading.Event) -> bool:
    """Read keys, one by one and unseen, until q is typed or it is ``over``. False at the end of input, too."""
    source = sys.stdin.fileno()
    with _key_by_key(source):
        while not over.is_set():
            ready, _, _ = select.select([source], [], [], LOOK)
            if not ready:
                continue
            piece = os.read(source, 64)
            if not piece:
                return False
            if any(key in QUIT for key in piece):
                return True
    return False


@contextlib.contextmanager
def _key_by_key(source: int) -> Iterator[None]:
    import termios
    import tty

    before = termios.tcgetattr(source)
    try:
        tty.setcbreak(source, termios.TCSANOW)  # Ctrl-C is still a signal
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(source, termios.TCSANOW, before)
