"""Errors that a user of the library can meet. A tool's failure is a result and a stop is an outcome: neither raises."""

from __future__ import annotations


class WatchkeeperError(Exception):
    """Base of all errors raised by watchkeeper."""


class ConfigurationError(WatchkeeperError, ValueError):
    """Raised when an agent, a tool, a profile or a limit cannot work as given; names the thing and the remedy."""


class SupervisorClosed(WatchkeeperError):
    """Raised when a run is asked of a supervisor that is not open (any more)."""


class SpawnRefused(WatchkeeperError):
    """Raised when a sub-agent would exceed the depth or the number of children of its root run."""


class RunEndedError(WatchkeeperError):
    """Raised when a run that has ended is asked to pause, resume or take a message."""


class ApprovalError(WatchkeeperError):
    """Raised when a yes or a no does not match a call that waits for one; it changes nothing and nothing is run.

    ``code``: ``unknown`` (there is no such approval), ``resolved`` (it is settled already; an answer counts once),
    ``hash`` (the arguments are not those that are to be run), ``scope`` or ``pattern`` (what is granted cannot be).
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class CassetteError(WatchkeeperError):
    """Raised for a cassette that cannot be written, read or played; names the file, the line and the remedy."""


class CassetteMiss(CassetteError):
    """Raised when something is asked that the cassette does not hold; ``difference`` shows how it differs from the
    nearest of what was recorded (a short unified diff; empty if it was recorded less often than it is asked)."""

    def __init__(self, message: str, difference: str = "") -> None:
        super().__init__(f"{message}\n{difference}" if difference else message)
        self.difference = difference


class SocketForbidden(CassetteError, OSError):
    """Raised where a socket would be used while a cassette is played that forbids any; to who asks, a network that is
    not there."""


class Transient(WatchkeeperError):
    """Raised by a tool whose failure will pass; ``retry_after`` is the wait in seconds that it knows of, if any.

    Tools that only read, or that are declared idempotent, are retried; for others it is a failed result that names
    the wait.
    """

    def __init__(self, message: str = "temporarily unavailable", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        usable = isinstance(retry_after, int | float) and 0 <= retry_after < float("inf")
        self.retry_after = retry_after if usable else None


class ToolError(WatchkeeperError):
    """Raised by a tool to fail with a message that the model may read, and a hint of what to do next.

    Any other exception is shown to the model only as its kind and a short message.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
