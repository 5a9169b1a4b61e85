"""What a tool returned, as text for the model: bounded, decodable, and marked where it was cut."""

from __future__ import annotations

from typing import Any

import msgspec

from .escapes import neutral
from .failures import HOSTILE
from .redaction import HELD, NOTHING_SECRET, Redaction
from .tools import ToolOutput

MAX_DETAIL = 20_000
"""Characters of the full text of an error in an event."""

_CONTAINERS = (str, bytes, list, tuple, dict, set, frozenset)
_encode = msgspec.json.Encoder(enc_hook=str).encode


class Rendered(msgspec.Struct, frozen=True, gc=False):
    content: str
    productive: bool
    error: str | None
    cut: int
    detail: str = ""


def render(value: Any, limit: int, redaction: Redaction = NOTHING_SECRET) -> Rendered:
    """As :func:`_render`; a value whose own methods fail is named instead of shown."""
    try:
        return _render(value, limit, redaction)
    except HOSTILE as error:
        return Rendered(f"(a {type(value).__name__} that cannot be shown: {type(error).__name__})", False, None, 0)


def _render(value: Any, limit: int, redaction: Redaction) -> Rendered:
    """What a tool returned, in at most ``limit`` characters and a note of what was cut. First terminal escapes and
    secrets are taken out, so that neither is cut in half.

    Never raises: what cannot be encoded is shown as text. Productive is what is not empty, unless the tool says
    otherwise; an outcome that the tool calls an error never is.
    """
    if type(value) is str and 0 < len(value) <= limit and value.isascii() and not value.isspace():
        return Rendered(redaction.text(value if value.isprintable() else neutral(value)), True, None, 0)
    error: str | None = None
    productive: bool | None = None
    if isinstance(value, ToolOutput):
        error = value.error and redaction.text(str(value.error))
        productive, value = value.productive, value.content
    whole = text(value)
    if productive is None:
        productive = not _empty(value) and bool(whole) and not whole.isspace()
    head = limit * 3 // 4
    tail = limit - head
    if len(whole) > limit + 2 * HELD:  # too long to be looked through: what is kept, and enough beside it
        begin, end = (redaction.text(neutral(part)) for part in (whole[: head + HELD], whole[-tail - HELD :]))
        cut = len(whole) - limit
    else:
        begin = end = redaction.text(neutral(whole))
        cut = max(len(end) - limit, 0)
    if cut:
        note = f"\n[… {cut} characters were cut here; ask for a part of it …]\n"
        content = f"{_whole(begin[:head])}{note}{_whole(end[len(end) - tail :])}"
    else:
        content = _whole(end)
    return Rendered(content, productive and error is None, error, cut)


def text(value: Any) -> str:
    """The text of any value; structured data as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    try:
        found = _encode(value).decode()
        # A date, a path: as text, not as a JSON string.
        return str(msgspec.json.decode(found)) if found.startswith('"') else found
    except HOSTILE:
        try:
            return str(value)
        except HOSTILE as error:
            return f"(a {type(value).__name__} that cannot be shown: {type(error).__name__})"


def _whole(text: str) -> str:
    """Without half characters (lone surrogates), which no server takes."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, _CONTAINERS) and not value)
