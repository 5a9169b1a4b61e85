"""What a web server has answered, and how a model reads it."""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from watchkeeper import ToolOutput

if TYPE_CHECKING:
    import httpx2

MAX_BODY = 1_000_000
"""Bytes of an answer that are read."""
MAX_TEXT = 20_000
"""Characters of an answer that are shown."""
MAX_REFUSAL = 2_000
"""Characters that are shown of an answer with a status of 400 or more."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXTUAL = ("text/", "json", "xml", "javascript", "yaml", "urlencoded")
# Python knows codecs that take time quadratic in what a server sends; only those that web pages use are let in.
_CHARSET = re.compile(
    r"charset=[\"']?(utf-?(?:8|16|32)|(?:us-)?ascii|iso-8859-\d+|latin-?1|(?:windows-|cp)125\d|shift_jis|euc-(?:jp|kr)"
    r"|gb(?:k|2312|18030)|big5|koi8-[ru])\b"
)


@dataclass
class Answer:
    """One answer. ``whole`` is false if the body was longer than :data:`MAX_BODY`."""

    status: int
    url: httpx2.URL
    headers: httpx2.Headers
    body: bytes
    whole: bool

    @property
    def redirects(self) -> bool:
        return self.status in _REDIRECTS and "location" in self.headers

    def told(self, notes: Sequence[str] = ()) -> ToolOutput:
        """As a result: the text within its bounds and the notes. A status of 400 or more is marked as an error."""
        text = self._text()
        if self.status >= 400:
            return self._refusal(text)
        if len(text) > MAX_TEXT or not self.whole:
            notes = [*notes, f"cut: the answer has {self._size()}"]
        content = text[:MAX_TEXT] + "".join(f"\n[{note}]" for note in notes)
        evidence = {"status": self.status, "bytes": len(self.body)}
        return ToolOutput(content or "[an empty answer]", productive=bool(self.body), evidence=evidence)

    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait; None if it says nothing usable."""
        return seconds_of(self.headers.get("retry-after"), time.time())

    def _refusal(self, text: str) -> ToolOutput:
        content = f"HTTP {self.status} {_phrase(self.status)}\n{text[:MAX_REFUSAL]}"
        if self.status in (429, 503) and (wait := self.retry_after()) is not None:
            content += f"\n[the server asks to wait {wait:g} seconds]"
        return ToolOutput(content, productive=False, error=f"http_{self.status}")

    def _text(self) -> str:
        kind = self.headers.get("content-type", "").lower()
        textual = any(word in kind for word in _TEXTUAL) if kind else b"\0" not in self.body[:8192]
        if self.body and not textual:
            return f"[{kind[:100] or 'binary'}, {self._size()}: not text, not shown]"
        charset = _CHARSET.search(kind)
        try:
            return self.body.decode(charset.group(1) if charset else "utf-8", "replace")
        except LookupError:  # a number that no ISO 8859 has
            return self.body.decode("utf-8", "replace")

    def _size(self) -> str:
        return f"{len(self.body):,} bytes" if self.whole else f"more than {MAX_BODY:,} bytes"


def seconds_of(retry_after: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or as a date; None if it says nothing usable."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - now)
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
