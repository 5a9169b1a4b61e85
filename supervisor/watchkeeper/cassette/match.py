"""What makes two requests the same, and how the nearest one differs from one that was not recorded. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from ..fingerprint import digest
from ..history import MARK

MAX_LINES = 40
"""Lines of a difference that are shown."""
MAX_WIDTH = 120
"""Characters of a line: longer texts are broken, so that what differs in them is seen."""
COMPARED = 20_000
"""Characters of a request that are compared when the nearest one is looked for."""
MOST = 50
"""Requests that are looked at for that."""

NUMBER = r"\d+(?:[.,]\d+)*"
AMOUNT = re.compile(rf"{NUMBER}(?: ?(?:k|M|ms|s|min|h)\b)?(?: {NUMBER} ?(?:ms|s|min|h)\b)*")
"""A number, with its unit or several (1 h 30 min)."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Asking(msgspec.Struct, frozen=True):
    """A request as it is compared: host and port do not count, nor does what is volatile."""

    method: str
    path: str
    body: Any

    @property
    def key(self) -> str:
        return f"{self.method} {self.path} {digest(_encode(self.body))}"

    def lines(self) -> list[str]:
        return [f"{self.method} {self.path}", *shown(self.body)]


def asking(method: str, url: str, body: Any, volatile: Sequence[str] = ()) -> Asking:
    """``volatile``: places in the body that do not count, such as ``metadata.request_id`` or ``messages.*.id``; those
    that begin with ``?`` are parameters of the URL."""
    parts = urlsplit(url)
    dropped = {place[1:] for place in volatile if place.startswith("?")}
    pairs = sorted(pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in dropped)
    path = f"{parts.path}?{urlencode(pairs, safe='[]')}" if pairs else parts.path
    for place in volatile:
        if not place.startswith("?"):
            body = _without(body, place.split("."))
    return Asking(method.upper(), path, body)


def without_amounts(body: Any) -> Any:
    """A copy of a request whose last message ends without amounts: what a run has left of time and tokens stands there
    (its status line), and is another where a fault takes its time, where tools are real, or where nothing is waited
    for. Its words count."""
    messages = body.get("messages") if isinstance(body, dict) else None
    last = messages[-1] if isinstance(messages, list | tuple) and messages else None
    if messages is None or not isinstance(last, dict):
        return body
    content = last.get("content")
    if not isinstance(content, str) or (at := content.rfind(MARK)) < 0:
        return body
    text = content[:at] + AMOUNT.sub("#", content[at:])
    return {**body, "messages": [*messages[:-1], {**last, "content": text}]}


def nearest(wanted: Sequence[str], recorded: Iterable[Sequence[str]]) -> Sequence[str] | None:
    """The recorded one that is most like it; of equals the first."""
    text = "\n".join(wanted)[:COMPARED]
    found = list(recorded)[:MOST]
    if not found:
        return None
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(text)

    def likeness(lines: Sequence[str]) -> float:
        matcher.set_seq1("\n".join(lines)[:COMPARED])
        return matcher.quick_ratio()

    return max(found, key=likeness)


def difference(recorded: Sequence[str], wanted: Sequence[str]) -> str:
    """A short unified diff: ``-`` was recorded, ``+`` is asked."""
    lines = list(difflib.unified_diff(recorded, wanted, "recorded", "asked", lineterm="", n=1))
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES} more lines"]
    return "\n".join(lines)


def shown(value: Any) -> list[str]:
    """Data as lines, such that a difference is a matter of few of them."""
    lines = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str).splitlines()
    return [line[at : at + MAX_WIDTH] for line in lines for at in range(0, len(line), MAX_WIDTH)]


def _without(value: Any, path: Sequence[str]) -> Any:
    """A copy without what stands at the path; ``*`` stands for every item or field."""
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        hit = {n for n in range(len(value)) if first in ("*", str(n))}
        if not rest:
            return [one for n, one in enumerate(value) if n not in hit]
        return [_without(one, rest) if n in hit else one for n, one in enumerate(value)]
    if isinstance(value, dict):
        if not rest:
            return {name: one for name, one in value.items() if first not in ("*", name)}
        return {name: _without(one, rest) if first in ("*", name) else one for name, one in value.items()}
    return value
