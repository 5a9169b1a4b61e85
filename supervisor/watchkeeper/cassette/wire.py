"""The server's side of HTTP/1.1, as far as a proxy needs it: requests in, within bounds; replies out in pieces."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import anyio.abc
import msgspec

MAX_HEAD = 64 * 1024
MAX_BODY = 64 << 20
"""Bytes of a request."""
HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that are between two neighbours and no further (RFC 9110, 7.6.1)."""
Headers = list[tuple[str, str]]


class BadRequest(Exception):
    """Raised for what is no request that can be passed on; the text is for whoever sent it."""


class Incoming(msgspec.Struct, frozen=True):
    """A request. ``headers`` are those that may be passed on."""

    method: str
    target: str
    headers: Headers
    body: bytes
    keep_alive: bool
    chunks: bool
    """Whoever asks understands a reply in chunks."""


class Wire:
    """One connection of a client."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._buffer = b""

    async def request(self) -> Incoming | None:
        """The next request; None if there is none any more. Raises :class:`BadRequest`."""
        head = await self._head()
        if head is None:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
            raise BadRequest("this is no request of HTTP/1.1")
        if not words[1].startswith("/"):
            raise BadRequest("the target of a request is a path here: this is no forward proxy")
        headers: Headers = []
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise BadRequest("a header of the request is none")
            headers.append((name, value.strip()))
        body = await self._body(headers)
        connection = _value(headers, "connection").lower()
        new = words[2] == "HTTP/1.1"
        return Incoming(
            words[0],
            words[1],
            forwarded(headers),
            body,
            keep_alive=new and "close" not in connection,
            chunks=new,
        )

    async def left(self) -> None:
        """Wait until the client leaves. What it sends meanwhile is its next request."""
        while len(self._buffer) <= MAX_HEAD:
            try:
                self._buffer += await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
        await anyio.sleep_forever()

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def _head(self) -> bytes | None:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise BadRequest(f"the head of the request is longer than {MAX_HEAD} bytes")
            try:
                self._buffer += await self._stream.receive()
            except anyio.EndOfStream:
                return None
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        return head

    async def _body(self, headers: Headers) -> bytes:
        if _value(headers, "expect").lower() == "100-continue":
            await self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        coding = _value(headers, "transfer-encoding").lower()
        length = _value(headers, "content-length")
        if coding:
            if coding != "chunked" or length:
                raise BadRequest("the length of the request's body cannot be told")
            return await self._chunked()
        if length and not (length.isascii() and length.isdecimal() and int(length) <= MAX_BODY):
            raise BadRequest(f"the request's content-length must be a number up to {MAX_BODY}")
        return await self._exactly(int(length or 0))

    async def _chunked(self) -> bytes:
        body = b""
        while True:
            size = (await self._line()).partition(b";")[0].strip()
            try:
                count = int(size, 16) if size.isalnum() else -1
            except ValueError:
                count = -1
            if not 0 <= count <= MAX_BODY - len(body):
                raise BadRequest("the request's body is in no chunks that can be read, or too long")
            if not count:
                while await self._line():
                    pass  # trailers go no further
                return body
            body += await self._exactly(count)
            await self._exactly(2)

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise BadRequest("a line of the request is too long")
            self._buffer += await self._stream.receive()
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    async def _exactly(self, count: int) -> bytes:
        parts, missing = [self._buffer], count - len(self._buffer)
        while missing > 0:
            parts.append(await self._stream.receive())
            missing -= len(parts[-1])
        data = b"".join(parts)
        self._buffer = data[count:]
        return data[:count]


def forwarded(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers that go further: none that are between two neighbours, nor those that ``Connection`` names."""
    given = list(headers)
    named = {name.strip().lower() for key, value in given if key.lower() == "connection" for name in value.split(",")}
    return [(name, value) for name, value in given if name.lower() not in HOP_BY_HOP | named]


def head_of(status: int, reason: str, headers: Headers, framing: str | None) -> bytes:
    """The head of a reply."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    if framing is not None:
        lines.append(framing)
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _value(headers: Headers, name: str) -> str:
    return ", ".join(value for key, value in headers if key.lower() == name)
