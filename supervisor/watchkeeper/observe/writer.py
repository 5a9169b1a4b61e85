"""Lines written by a thread of their own: whoever logs never waits for a pipe, a disk or a terminal."""

from __future__ import annotations

import queue
import threading
from typing import TextIO

WAITING = 10_000
"""Lines that wait to be written; what comes beyond is left out and counted."""
LAST = 2.0
"""Seconds that :meth:`Writer.close` waits for what is left."""


class Writer:
    """Callable from any thread. Where writing fails (a full disk, nobody reads), nothing more is written; ``failed``
    says why. ``left_out`` counts the lines for which there was no room."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING)
        self.left_out = 0
        self.failed: OSError | ValueError | None = None
        self._thread = threading.Thread(target=self._work, name="watchkeeper log lines", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Queue one line, without its end."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.left_out += 1

    def close(self) -> bool:
        """Write what is left; False if it was not done within :data:`LAST` seconds. The stream stays open."""
        try:
            self._lines.put(None, timeout=LAST)
        except queue.Full:
            return False
        self._thread.join(LAST)
        return not self._thread.is_alive()

    # structlog's names for what a logger does.
    msg = debug = info = warning = error = critical = exception = fatal = log = write

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            self._do(line)
        self._do("")

    def _do(self, line: str) -> None:
        if self.failed is not None:
            return
        try:
            if line:
                self._stream.write(f"{line}\n")
            if not line or self._lines.empty():
                self._stream.flush()
        except (OSError, ValueError) as error:
            self.failed = error
