"""The handle of a run for other threads: each method hands its work to the run's loop."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from . import failures, reports
from .errors import RunEndedError
from .messages import Mode, Outcome

if TYPE_CHECKING:
    from .approvals import Approval, Scope
    from .guards.rule import Pattern
    from .run import Run

T = TypeVar("T")


class FromThreads:
    """The handle for other threads: each method hands its work to the run's loop and returns at once."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def cancel(self, reason: str = "cancelled", mode: Mode = "now") -> None:
        check_cancel(reason, mode)
        self._post(lambda: self._run.cancel(reason, mode))

    def hand_over(self, reason: str = "asked", mode: Mode = "after_turn") -> None:
        check_cancel(reason, mode, "hand_over")
        self._post(lambda: self._run.hand_over(reason, mode))

    def pause(self, reason: str = "paused", *, seconds: float | None = None) -> None:
        if seconds is not None:
            check_pause(seconds)
        self._post(_if_alive(lambda: self._run.pause(reason, seconds=seconds)))

    def resume(self, reason: str = "") -> None:
        self._post(_if_alive(lambda: self._run.resume(reason)))

    def steer(self, text: str) -> None:
        check_steer(text)
        self._post(_if_alive(lambda: self._run.steer(text)))

    def add_budget(self, amounts: Mapping[str, float], *, by: str = "", timeout: float | None = 5.0) -> None:
        """As ``Run.add_budget``: returns when it counts, raises what that raises. ``TimeoutError`` if the loop does not
        answer in time; it may still count then."""
        self._ask(lambda: self._run.add_budget(dict(amounts), by=by)).result(timeout)

    def approvals(self, timeout: float | None = 5.0) -> tuple[Approval, ...]:
        """As ``Run.approvals``. Raises ``TimeoutError`` if the loop does not answer in time."""
        return self._ask(lambda: self._run.approvals).result(timeout)

    def approve(
        self,
        approval: str,
        arguments_hash: str,
        scope: Scope = "once",
        *,
        pattern: Mapping[str, Pattern] | None = None,
        by: str = "person",
        timeout: float | None = 5.0,
    ) -> None:
        """As ``Run.approve``: returns when it counts, raises what that raises. ``TimeoutError`` if the loop does not
        answer in time; it may still count then."""
        self._ask(lambda: self._run.approve(approval, arguments_hash, scope, pattern=pattern, by=by)).result(timeout)

    def deny(self, approval: str, reason: str = "", *, by: str = "person", timeout: float | None = 5.0) -> None:
        """As ``Run.deny``; else as :meth:`approve`."""
        self._ask(lambda: self._run.deny(approval, reason, by=by)).result(timeout)

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
        def contained() -> None:
            try:
                function()
            except Exception as error:  # nobody is there to take it; in trio it would end everything
                reports.report(
                    "call_from_thread_failed",
                    run=self._run.id,
                    cause=failures.full_text(error, self._run.log.redaction),
                )

        if not self._run.seams.post(contained):
            raise RunEndedError(f"run {self._run.id} cannot be reached: its event loop has ended")


def _if_alive(function: Callable[[], None]) -> Callable[[], None]:
    """The run may end between the call in the thread and its turn in the loop."""

    def guarded() -> None:
        with contextlib.suppress(RunEndedError):
            function()

    return guarded


def check_cancel(reason: object, mode: object, what: str = "cancel") -> None:
    """Raises ``ValueError`` for what is no reason or no mode; so do the two below for theirs."""
    if mode not in get_args(Mode) or not isinstance(reason, str):
        raise ValueError(f"{what} takes a reason (str) and after_turn, now or kill; not {reason!r} and {mode!r}")


def check_pause(seconds: object) -> None:
    if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise ValueError(f"pause takes seconds from 0 up, not {seconds!r}")


def check_steer(text: object) -> None:
    if not isinstance(text, str):
        raise ValueError(f"steer takes a str, not {type(text).__name__}")
