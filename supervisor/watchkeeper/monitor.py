"""The loop monitor: a thread that notices a blocked event loop and names what holds it."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from . import reports
from .seams import Seams

EVERY = 0.05
"""Seconds between two looks."""
BLOCKED = 0.1
"""Seconds without an answer from the loop that count as blocked."""


class LoopMonitor:
    """Asks the loop for a sign of life, from outside; a timer in the loop itself is blind to a blocked loop."""

    def __init__(self, seams: Seams, busy: Callable[[], bool], tell: Callable[[float, str], None]) -> None:
        self._seams = seams
        self._busy = busy
        self._tell = tell
        self._stop = threading.Event()
        self._answered = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="watchkeeper-monitor", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY):
            if not self._busy():
                continue  # an idle loop is left to sleep
            self._answered.clear()
            asked = time.monotonic()
            if not self._seams.post(self._answered.set):
                return
            if self._answered.wait(BLOCKED):
                continue
            frame = self._frame()
            # At once and from here: the loop itself may never come to it.
            reports.report("loop_blocked", seconds=BLOCKED, frame=frame)
            while not self._answered.wait(0.5) and not self._stop.is_set():
                frame = frame or self._frame()
            seconds = time.monotonic() - asked
            if not self._seams.post(lambda seconds=seconds, frame=frame: self._tell(seconds, frame)):  # type: ignore[misc]
                return

    def _frame(self) -> str:
        frame = sys._current_frames().get(self._seams.thread or -1)
        if frame is None:
            return "unknown"
        inner = traceback.extract_stack(frame)[-1]
        return f"{inner.filename}:{inner.lineno} in {inner.name}"
