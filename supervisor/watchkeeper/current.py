"""Where a tool finds itself: the call that it is running for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run import Run


class Here:
    """The call that the current code runs for."""

    __slots__ = ("attempt", "call_id", "idempotency_key", "key", "run", "tool")

    def __init__(
        self, run: Run, call_id: str, tool: str, key: str, attempt: int = 1, idempotency_key: str = ""
    ) -> None:
        self.run = run
        self.call_id = call_id
        self.tool = tool
        self.key = key
        """Equal calls (tool and arguments) have equal keys."""
        self.attempt = attempt
        self.idempotency_key = idempotency_key
        """For a call that may write: hand it to a service that takes one, and the call has its effect at most once. The
        same for each attempt at the call and after a recovery, another one for the next equal call. Empty for a call
        that only reads."""


HERE: ContextVar[Here] = ContextVar("watchkeeper_call")


def current_call() -> Here:
    """The call that this code runs for; raises ``LookupError`` outside of a tool."""
    return HERE.get()
