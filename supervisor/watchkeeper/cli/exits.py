"""How a command ends: its exit code, its one line of complaint, and an end that nothing can hold up."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..messages import Outcome

COMPLETED, FAILED, USAGE, STOPPED, CANCELLED, NOT_APPROVED, HANDED_OVER = range(7)
UNREACHABLE, CONFIGURATION, TIMED_OUT, DETACHED = 69, 78, 124, 130

CODES = {
    "completed": COMPLETED,
    "failed": FAILED,
    "stopped": STOPPED,
    "cancelled": CANCELLED,
    "handed_over": HANDED_OVER,
}
"""Exit codes by the status of the outcome. 2 is for what could not begin: wrong options, no key, no such file."""

MEANINGS = {
    COMPLETED: "the run has completed; the command has done what it was asked to",
    FAILED: "the run has failed; not all of what was asked could be done",
    USAGE: "wrong usage: nothing was done (an option, a run or a file that is not there, a prompt without a terminal)",
    STOPPED: "the run was stopped by watchkeeper: a limit, or the watchdog",
    CANCELLED: "the run was cancelled; the command was interrupted, or nobody reads its output",
    NOT_APPROVED: "the run was stopped because an approval was denied or has expired",
    HANDED_OVER: "the run was handed over to a person",
    UNREACHABLE: "the service cannot be reached",
    CONFIGURATION: "the configuration is wrong",
    TIMED_OUT: "the time that the command was given to wait (`--timeout`) is over",
    DETACHED: "Ctrl-C while waiting for a run, which goes on",
}
"""Every exit code of every command."""
NO_APPROVAL = ("approval_denied", "approval_expired")
"""Reasons of ``stopped`` with an exit code of their own."""

LEAVE = 2.0
"""Seconds that a process gets to end in good order once all is said."""


class CommandError(Exception):
    """Raised when a command cannot do what it was asked to; the message is one line and names the remedy."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


def exit_code(outcome: Outcome) -> int:
    if outcome.status == "stopped" and outcome.reason in NO_APPROVAL:
        return NOT_APPROVED
    return CODES[outcome.status]


def complain(text: str) -> None:
    if sys.stderr is None:  # closed by the caller; print would take standard output instead
        return
    with contextlib.suppress(OSError, ValueError):
        print(f"watchkeeper: {text}", file=sys.stderr, flush=True)


def told_of(error: SystemExit) -> str:
    """Where it was raised: code of a third party must not end the program without a word."""
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    raised = f"SystemExit({error.code!r}), raised at {frame.filename}:{frame.lineno}"
    return f"ended by {raised}: what was to be done is not done"


class HardExit:
    """Ends the process with ``code`` after :data:`LEAVE` seconds, unless it is disarmed before.

    A tool that swallows its cancel, or a thread that waits for a name server, cannot be ended from within; the process
    can. Nothing is lost: what there was to say and to write has been by then.
    """

    def __init__(self, code: int, seconds: float = LEAVE) -> None:
        self._timer = threading.Timer(seconds, leave_at_once, (code,))
        self._timer.daemon = True

    def arm(self) -> None:
        self._timer.start()

    def disarm(self) -> None:
        self._timer.cancel()


def end_for_sure(code: int) -> None:
    """Let the interpreter end in good order, with a hard exit behind it."""
    HardExit(code).arm()


def leave_at_once(code: int) -> None:
    with contextlib.suppress(Exception):
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[?25h")  # the cursor, which a live view hides
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def settle_streams() -> None:
    """Make standard output and error take any text; those that the caller has closed lead into the void."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (as long as the process)
        with contextlib.suppress(AttributeError, ValueError):
            getattr(sys, name).reconfigure(errors="replace")


def forget_stdout() -> None:
    """Nobody can or will read standard output: write into the void, so that the end does not trip over it."""
    with contextlib.suppress(OSError, ValueError):
        void = os.open(os.devnull, os.O_WRONLY)
        os.dup2(void, sys.stdout.fileno())
        os.close(void)
