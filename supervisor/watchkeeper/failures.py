"""What a failure is about: the leaf of an exception group, its code, what a model may read of it, and the whole."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from .errors import ToolError, Transient
from .escapes import neutral
from .redaction import HELD, NOTHING_SECRET, Redaction

HOSTILE = (Exception, SystemExit, GeneratorExit)
"""What the methods of a foreign object may raise when it is shown."""
SHOWN = 300
"""Characters of an exception's text that a model may read."""

TOLD = "__watchkeeper_text__"
"""The attribute of a failure that is played from a cassette: the whole of it as it was when it was recorded."""
LONGEST = 19_000
"""Characters of a traceback."""


def leaf(failure: BaseException) -> BaseException:
    """The first real failure inside nested groups; cancelled siblings are dropped."""
    leaves = list(_leaves(failure))
    return next((one for one in leaves if not _is_cancelled(one)), leaves[0])


def holds(failure: BaseException, kind: type[BaseException]) -> bool:
    """The failure, or one inside its nested groups, is of that kind."""
    return any(isinstance(one, kind) for one in _leaves(failure))


def is_timeout(failure: BaseException) -> bool:
    """A timeout of whatever library, also inside a group."""
    return any(kind is TimeoutError or kind.__name__ in _TIMEOUTS for kind in type(leaf(failure)).__mro__)


def describe(
    failure: BaseException, hint: str | None, redaction: Redaction = NOTHING_SECRET
) -> tuple[str, str, str | None]:
    """Code, short text and hint for the model. Never a traceback."""
    if isinstance(failure, ToolError):
        return "tool_error", short(failure, redaction), failure.hint or hint
    if isinstance(failure, Transient):
        return "transient", short(failure, redaction), hint
    return redaction.text(type(failure).__name__), short(failure, redaction), hint


def short(failure: BaseException, redaction: Redaction = NOTHING_SECRET) -> str:
    """The first line of its text, without secrets and terminal escapes."""
    try:
        text = str(failure).strip()
    except HOSTILE:
        return ""
    line = redaction.within(neutral(text.partition("\n")[0][: SHOWN + HELD]), SHOWN + 1)
    return line if len(line) <= SHOWN else line[:SHOWN] + "…"


def full_text(failure: BaseException, redaction: Redaction = NOTHING_SECRET) -> str:
    """The whole of it with its traceback, for people, without secrets; of a very long one the begin and the end."""
    try:
        text = getattr(failure, TOLD, None) or "".join(traceback.format_exception(failure))
        text = redaction.text(str(text))
        if len(text) <= LONGEST:
            return text
        head = LONGEST // 4
        return f"{text[:head]}\n[… {len(text) - LONGEST} characters left out …]\n{text[head - LONGEST :]}"
    except HOSTILE as error:
        return f"{type(failure).__name__} (its traceback cannot be shown: {type(error).__name__})"


_TIMEOUTS = frozenset({"TooSlowError", "Timeout", "TimeoutException", "TimeoutExpired"})
"""Classes of trio, requests, httpx and subprocess that say the same without being a ``TimeoutError``."""


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    """Depth first, without recursion: groups may be nested deeper than the stack allows."""
    rest = [failure]
    while rest:
        one = rest.pop()
        if isinstance(one, BaseExceptionGroup):
            rest.extend(reversed(one.exceptions))
        else:
            yield one


def _is_cancelled(failure: BaseException) -> bool:
    return type(failure).__name__ in ("CancelledError", "Cancelled")
