"""The handle of a run for other threads: each method hands its work to the run's loop."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import RunEndedError
from .messages import Mode, Outcome

if TYPE_CHECKING:
    from .run import Run

T = TypeVar("T")


class FromThreads:
    """The handle for other threads: each method hands its work to the run's loop and returns at once."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def cancel(self, reason: str = "cancelled", mode: Mode = "now") -> None:
        self._post(lambda: self._run.cancel(reason, mode))

    def pause(self, reason: str = "paused", *, seconds: float | None = None) -> None:
        self._post(_if_alive(lambda: self._run.pause(reason, seconds=seconds)))

    def resume(self, reason: str = "") -> None:
        self._post(_if_alive(lambda: self._run.resume(reason)))

    def steer(self, text: str) -> None:
        self._post(_if_alive(lambda: self._run.steer(text)))

    def snapshot(self, timeout: float | None = 5.0) -> dict[str, Any]:
        """Raises ``TimeoutError`` if the loop does not answer in time (it is blocked)."""
        return self._ask(self._run.snapshot).result(timeout)

    def wait(self, timeout: float | None = None) -> Outcome:
        """Block this thread until the outcome; raises ``TimeoutError`` after ``timeout`` seconds."""
        future: concurrent.futures.Future[Outcome] = concurrent.futures.Future()

        def register() -> None:
            if self._run.outcome is not None:
                future.set_result(self._run.outcome)
            else:
                self._run._waiters.append(future)

        def forget() -> None:
            if future in self._run._waiters:
                self._run._waiters.remove(future)

        self._post(register)
        try:
            return future.result(timeout)
        except TimeoutError:
            self._run.seams.post(forget)
            raise

    def _ask(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def answer() -> None:
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

        self._post(answer)
        return future

    def _post(self, function: Callable[[], Any]) -> None:
        if not self._run.seams.post(function):
            raise RunEndedError(f"run {self._run.id} cannot be reached: its event loop has ended")


def _if_alive(function: Callable[[], None]) -> Callable[[], None]:
    """The run may end between the call in the thread and its turn in the loop."""

    def guarded() -> None:
        with contextlib.suppress(RunEndedError):
            function()

    return guarded
