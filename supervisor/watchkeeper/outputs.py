"""What a tool returned, as text for the model: bounded, decodable, and marked where it was cut."""

from __future__ import annotations

from typing import Any

import msgspec

from .tools import ToolOutput

MAX_DETAIL = 20_000
"""Characters of the full text of an error in an event."""

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Rendered(msgspec.Struct, frozen=True, gc=False):
    content: str
    productive: bool
    error: str | None
    cut: int
    detail: str = ""


def render(value: Any, limit: int) -> Rendered:
    """Never raises: what cannot be encoded is shown as text."""
    error: str | None = None
    productive: bool | None = None
    if type(value) is ToolOutput:
        productive, error, value = value.productive, value.error, value.content
    content = text(value)
    if productive is None:
        productive = error is None and bool(content) and not _empty(value)
    cut = len(content) - limit
    if cut > 0:
        head = limit * 3 // 4
        tail = limit - head
        content = f"{content[:head]}\n[… {cut} characters were cut here; ask for a part of it …]\n{content[-tail:]}"
    return Rendered(content, bool(productive), error, max(cut, 0))


def text(value: Any) -> str:
    if type(value) is str:
        found = value
    elif value is None:
        return ""
    elif isinstance(value, (bytes, bytearray, memoryview)):
        found = bytes(value).decode("utf-8", "replace")
    else:
        try:
            found = _encode(value).decode("utf-8", "replace")
            if found.startswith('"'):
                found = str(msgspec.json.decode(found))  # a date, a path: as text, not as a JSON string
        except Exception:
            try:
                found = str(value)
            except Exception as error:
                found = f"(a {type(value).__name__} that cannot be shown: {type(error).__name__})"
    if not found.isascii():
        found = found.encode("utf-8", "replace").decode("utf-8", "replace")
    return found


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, bytes, list, tuple, dict, set, frozenset)) and not value)
