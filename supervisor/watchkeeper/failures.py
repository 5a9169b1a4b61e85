"""What a failure is about: the leaf of an exception group, its code, what a model may read of it, and the whole."""

from __future__ import annotations

import traceback

from .errors import ToolError, Transient

SHOWN = 300
"""Characters of an exception's text that a model may read."""


def leaf(failure: BaseException) -> BaseException:
    """The first real failure inside nested groups; cancelled siblings are dropped."""
    while isinstance(failure, BaseExceptionGroup):
        real = [one for one in failure.exceptions if not _is_cancelled(one)]
        failure = (real or list(failure.exceptions))[0]
    return failure


def holds(failure: BaseException, kind: type[BaseException]) -> bool:
    """The failure, or one inside its nested groups, is of that kind."""
    if isinstance(failure, BaseExceptionGroup):
        return any(holds(one, kind) for one in failure.exceptions)
    return isinstance(failure, kind)


def is_timeout(failure: BaseException) -> bool:
    """A timeout of whatever library, also inside a group."""
    found = leaf(failure)
    return isinstance(found, TimeoutError) or type(found).__name__ in ("TooSlowError", "Timeout", "TimeoutException")


def describe(failure: BaseException, hint: str | None) -> tuple[str, str, str | None]:
    """Code, short text and hint for the model. Never a traceback."""
    if isinstance(failure, ToolError):
        return "tool_error", short(failure), failure.hint or hint
    if isinstance(failure, Transient):
        return "transient", short(failure), hint
    return type(failure).__name__, short(failure), hint


def short(failure: BaseException) -> str:
    try:
        text = str(failure).strip()
    except Exception:
        return ""
    line = text.partition("\n")[0]
    return line if len(line) <= SHOWN else line[:SHOWN] + "…"


def full_text(failure: BaseException) -> str:
    """The whole of it with its traceback, for people."""
    try:
        return "".join(traceback.format_exception(failure))
    except Exception as error:
        return f"{type(failure).__name__} (its traceback cannot be shown: {type(error).__name__})"


def _is_cancelled(failure: BaseException) -> bool:
    return type(failure).__name__ in ("CancelledError", "Cancelled")
