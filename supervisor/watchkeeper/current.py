"""Where a tool finds itself: the call that it is running for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .run import Run


class Here:
    """The call that the current code runs for."""

    __slots__ = ("attempt", "call_id", "key", "run", "tool")

    def __init__(self, run: Run, call_id: str, tool: str, key: str, attempt: int = 1) -> None:
        self.run = run
        self.call_id = call_id
        self.tool = tool
        self.key = key
        """Equal calls (tool and arguments) have equal keys."""
        self.attempt = attempt


HERE: ContextVar[Here] = ContextVar("watchkeeper_call")


def current_call() -> Here:
    """The call that this code runs for; raises ``LookupError`` outside of a tool."""
    return HERE.get()
