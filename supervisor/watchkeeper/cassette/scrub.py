"""What may stand in a cassette: no secret, whichever way it comes. Pure.

Headers by a list of those that are allowed, all else by the redaction of the supervisor. A text that comes in pieces
keeps its pieces, byte for byte, as long as there is no secret in it, within a piece, across pieces, or across the
events of a stream that carries text in pieces of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ..redaction import LEAST, MARK, Redaction, Stream

REQUEST_HEADERS = frozenset({"accept", "content-type", "openai-beta", "anthropic-version", "anthropic-beta"})
RESPONSE_HEADERS = frozenset(
    {"content-type", "retry-after", "retry-after-ms", "x-should-retry", "openai-model", "openai-processing-ms"}
)
CREDENTIALS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
"""Headers whose values are secrets wherever else they turn up, such as in the error of a server that repeats them."""
_SECRET_PARAMETERS = ("key", "token", "secret", "sig", "signature", "password", "auth", "code", "credential")
Path = tuple[str | int, ...]


def told_in(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The secrets that a request carries in its headers."""
    found = []
    for name, value in headers:
        if name.lower() in CREDENTIALS:
            scheme, _, rest = value.strip().partition(" ")
            found += [part for part in (rest.strip() or scheme, value.strip()) if len(part) >= LEAST]
    return found


def headers_of(headers: Iterable[tuple[str, str]], allowed: frozenset[str], redaction: Redaction) -> dict[str, str]:
    """The headers that may be kept, in lower case. ``date`` stays only beside a Retry-After, which counts from it."""
    found = {name.lower(): redaction.text(value) for name, value in headers if name.lower() in allowed}
    if "retry-after" in found:
        found |= {name.lower(): value for name, value in headers if name.lower() == "date"}
    return found


def url_of(url: str, redaction: Redaction) -> str:
    """The URL without user, password, fragment, and the values of parameters that are named like a secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = parts.query
    if query:
        pairs = parse_qsl(query, keep_blank_values=True)
        if any(_is_secret(name) for name, _ in pairs):
            query = urlencode([(name, MARK if _is_secret(name) else value) for name, value in pairs], safe="[]")
    return redaction.text(urlunsplit((parts.scheme, host, parts.path, query, "")))


def _is_secret(name: str) -> bool:
    words = name.lower().replace("-", "_").split("_")
    return any(word.endswith(_SECRET_PARAMETERS) for word in words)


def pieces_of(pieces: Sequence[bytes], content_type: str, redaction: Redaction) -> list[bytes]:
    """The pieces of a body without secrets: as they are where there is none."""
    if redaction.inert or not pieces:
        return list(pieces)
    whole = b"".join(pieces)
    try:
        text = whole.decode()
    except UnicodeDecodeError:
        text = whole.decode("latin-1")
        return list(pieces) if redaction.text(text) == text else [MARK.encode()]
    clean = text
    if "event-stream" in content_type:
        clean = _events(text, redaction)
    elif "json" in content_type:
        clean = _json(text, redaction)
    clean = redaction.text(clean)
    return list(pieces) if clean == text else _recut(clean.encode(), [len(piece) for piece in pieces])


def texts_of(pieces: Sequence[str], redaction: Redaction) -> list[str]:
    """The pieces of one text without secrets; where there is one, with what had to be held back moved on. One more
    than there were: the rest at its end."""
    if redaction.inert or redaction.text("".join(pieces)) == "".join(pieces):
        return [*pieces, ""]
    stream = Stream(redaction)
    return [*(stream.feed(piece) for piece in pieces), stream.rest()]


def value_of(value: Any, redaction: Redaction) -> Any:
    """Plain data without secrets, also where text within it is JSON again."""
    return redaction.anything(value)


def _recut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """As many pieces as there were, each of its size, the last one with the rest."""
    found, place = [], 0
    for size in sizes[:-1]:
        found.append(data[place : place + size])
        place += size
    return [*found, data[place:]]


def _json(text: str, redaction: Redaction) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    clean = redaction.anything(value)
    return text if clean == value else json.dumps(clean, ensure_ascii=False)


def _events(text: str, redaction: Redaction) -> str:
    """A stream of events: the texts at one place of their data are pieces of one text."""
    lines = text.split("\n")
    found: list[tuple[int, Any]] = []
    for number, line in enumerate(lines):
        if line.startswith("data:"):
            try:
                found.append((number, json.loads(line[5:])))
            except (ValueError, RecursionError):
                continue
    texts: dict[Path, list[tuple[int, str]]] = {}
    for place, (_, data) in enumerate(found):
        for path, piece in _leaves(data, ()):
            texts.setdefault(path, []).append((place, piece))
    changed: set[int] = set()
    for path, parts in texts.items():
        pieces = [piece for _, piece in parts]
        clean = texts_of(pieces, redaction)
        if clean[:-1] == pieces:
            continue
        clean[-2:] = [clean[-2] + clean[-1]]
        for (place, before), after in zip(parts, clean, strict=True):
            if before != after:
                _put(found[place][1], path, after)
                changed.add(place)
    for place in changed:
        number, data = found[place]
        end = "\r" if lines[number].endswith("\r") else ""
        lines[number] = f"data: {json.dumps(data, ensure_ascii=False)}{end}"
    return "\n".join(lines)


def _leaves(value: Any, path: Path) -> Iterable[tuple[Path, str]]:
    """Every text with the place where it stands. What has an ``index`` is told apart by that: the calls of a reply."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _leaves(one, (*path, name))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _leaves(one, (*path, _index(one, number)))


def _put(value: Any, path: Path, text: str) -> None:
    for step in path[:-1]:
        value = _at(value, step)
    if isinstance(value, list):
        value[next(n for n, one in enumerate(value) if _index(one, n) == path[-1])] = text
    else:
        value[path[-1]] = text


def _at(value: Any, step: str | int) -> Any:
    if isinstance(value, list):
        return next(one for number, one in enumerate(value) if _index(one, number) == step)
    return value[step]


def _index(value: Any, number: int) -> int:
    index = value.get("index") if isinstance(value, Mapping) else None
    return index if isinstance(index, int) else number
