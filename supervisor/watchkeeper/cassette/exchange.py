"""One exchange with a server on its way into a cassette, and out of it again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..redaction import Redaction
from . import scrub
from .entries import TICKS, HttpChunk, HttpEnd, HttpRequest, HttpResponse, Line

MAX_BODY = 64 << 20
"""Bytes of a reply that are kept; of a longer one the beginning, which ends as if it had been cut there."""
TOO_LONG = "TooLong"


class Exchange:
    """An exchange that is being recorded. Its lines are written when it is over, so that no secret is cut in half."""

    def __init__(
        self,
        n: int,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        *,
        redaction: Redaction,
        now: float,
    ) -> None:
        given = list(headers)
        self._redaction = redaction.and_of(scrub.told_in(given))
        self._began = now
        self._n = n
        kind = next((value for name, value in given if name.lower() == "content-type"), "")
        self._request = HttpRequest(
            n=n,
            method=method,
            url=scrub.url_of(url, self._redaction),
            headers=scrub.headers_of(given, scrub.REQUEST_HEADERS, self._redaction),
            **body_of(body, kind, self._redaction),
        )
        self._response: HttpResponse | None = None
        self.over = False
        """Its lines are written."""
        self._kind = ""
        self._pieces: list[bytes] = []
        self._times: list[int] = []
        self._size = 0

    def answered(self, status: int, headers: Iterable[tuple[str, str]], now: float) -> None:
        given = list(headers)
        self._kind = next((value for name, value in given if name.lower() == "content-type"), "")
        kept = scrub.headers_of(given, scrub.RESPONSE_HEADERS, self._redaction)
        self._response = HttpResponse(n=self._n, at=self._ticks(now), status=status, headers=kept)

    def came(self, piece: bytes, now: float) -> None:
        self._size += len(piece)
        if self._size <= MAX_BODY:
            self._pieces.append(piece)
            self._times.append(self._ticks(now))

    def lines(self, now: float, *, error: BaseException | None = None, left: bool = False) -> list[Line]:
        """All of it, without secrets."""
        found: list[Line] = [self._request]
        if self._response is not None:
            found.append(self._response)
        pieces = scrub.pieces_of(self._pieces, self._kind, self._redaction)
        found += [
            HttpChunk(n=self._n, at=at, **_as_text(piece)) for at, piece in zip(self._times, pieces, strict=False)
        ]
        name = type(error).__name__ if error is not None else TOO_LONG if self._size > MAX_BODY else ""
        message = self._redaction.within(str(error), 500) if error is not None else ""
        found.append(HttpEnd(n=self._n, at=self._ticks(now), error=name, message=message, left=left))
        return found

    def _ticks(self, now: float) -> int:
        return max(round((now - self._began) * TICKS), 0)


class Played(msgspec.Struct, frozen=True):
    """A recorded exchange, put together from its lines."""

    request: HttpRequest
    response: HttpResponse | None
    chunks: tuple[tuple[int, bytes], ...]
    end: HttpEnd | None


def exchanges(lines: Iterable[Line]) -> list[Played]:
    """All exchanges of a recording, in the order in which they were asked."""
    requests: dict[int, HttpRequest] = {}
    responses: dict[int, HttpResponse] = {}
    chunks: dict[int, list[tuple[int, bytes]]] = {}
    ends: dict[int, HttpEnd] = {}
    for line in lines:
        if isinstance(line, HttpRequest):
            requests[line.n] = line
        elif isinstance(line, HttpResponse):
            responses[line.n] = line
        elif isinstance(line, HttpChunk):
            chunks.setdefault(line.n, []).append((line.at, bytes_of(line)))
        elif isinstance(line, HttpEnd):
            ends[line.n] = line
    return [
        Played(request, responses.get(n), tuple(chunks.get(n, ())), ends.get(n))
        for n, request in sorted(requests.items())
    ]


def body_of(body: bytes, content_type: str, redaction: Redaction) -> dict[str, Any]:
    """The fields of a request's line that hold its body: as data if it is JSON."""
    if not body:
        return {}
    if "json" in content_type or body[:1] in b"{[":
        try:
            return {"body": scrub.value_of(json.loads(body), redaction)}
        except (ValueError, RecursionError):
            pass
    return _as_text(b"".join(scrub.pieces_of([body], content_type, redaction)))


def body_in(line: HttpRequest) -> Any:
    """The body as it is compared."""
    return line.body if line.body is not None else line.text if line.text is not None else line.base64


def bytes_of(line: HttpChunk | HttpRequest) -> bytes:
    if line.base64 is not None:
        try:
            return base64.b64decode(line.base64)
        except ValueError:
            return b""
    return (line.text or "").encode("utf-8", "replace")


def _as_text(piece: bytes) -> dict[str, str]:
    try:
        return {"text": piece.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(piece).decode()}


def asked_most_like(wanted: Sequence[str], recorded: Iterable[Sequence[str]]) -> str:
    """The difference to the nearest of what was recorded; empty if nothing was."""
    from .match import difference, nearest

    found = nearest(wanted, recorded)
    return "" if found is None else difference(found, wanted)
