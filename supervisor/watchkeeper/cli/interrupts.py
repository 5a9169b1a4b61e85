"""Ctrl-C in three steps: end after this turn, stop now, without waiting. It works also when the event loop does not."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Iterator

from ..errors import RunEndedError
from ..messages import Mode
from ..run import Run
from .exits import CANCELLED, complain, leave_at_once
from .narrator import INTERRUPTED

MODES: tuple[Mode, ...] = ("after_turn", "now", "kill")
TERMINATED = "terminated"
"""The reason of a cancel by SIGTERM."""
PATIENCE = 3.0
"""Seconds after the third signal at which the process ends, whatever holds it up."""
DEAF = 0.5
"""Seconds without an answer of the event loop after which it is said that it is blocked."""
_NEXT = {"after_turn": "Ctrl-C again: stop now", "now": "Ctrl-C again: end the process", "kill": "ending the process"}


class Interrupts:
    """Turns signals into cancels of the run that it was given, or hands it over where it is to be instead of stopped.

    The event loop's own signal receivers would be deaf while a tool blocks the loop, and that is when a person needs
    Ctrl-C most. So the handler only puts the signal into a queue, which is safe at any moment, and a thread of its own
    takes it from there: it asks the loop for the cancel, and ends the process if the loop does not answer the third.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._signals: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._steps = 0
        self._reason = INTERRUPTED

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM over. Outside the main thread signals cannot be had: then nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        thread = threading.Thread(target=self._serve, name="watchkeeper-signals", daemon=True)
        thread.start()
        before = {number: signal.signal(number, self._came) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._over.set()
            self._signals.put(None)

    def watch(self, run: Run) -> None:
        """Cancel this run from now on; at once, if signals have come already."""
        with self._lock:
            self._run = run
            if self._steps:
                (run.hand_over if run.hands_over else run.cancel)(self._reason, MODES[self._steps - 1])

    def _came(self, number: int, frame: object) -> None:
        self._signals.put(number)

    def _serve(self) -> None:
        while (number := self._signals.get()) is not None:
            with self._lock:
                if not self._steps:
                    self._reason = TERMINATED if number == signal.SIGTERM else INTERRUPTED
                least = 2 if number == signal.SIGTERM else 1
                self._steps = min(max(self._steps + 1, least), len(MODES))
                run, mode = self._run, MODES[self._steps - 1]
            if run is not None:
                self._cancel(run, mode)
            if mode == "kill" and not self._over.wait(self._patience):
                leave_at_once(CANCELLED)

    def _cancel(self, run: Run, mode: Mode) -> None:
        heard = threading.Event()
        with contextlib.suppress(RunEndedError, RuntimeError):
            ask = run.threadsafe.hand_over if run.hands_over else run.threadsafe.cancel
            ask(self._reason, mode)
            if run.seams.post(heard.set) and not heard.wait(DEAF):
                complain(f"the run does not hear it: something blocks its event loop ({_NEXT[mode]})")
