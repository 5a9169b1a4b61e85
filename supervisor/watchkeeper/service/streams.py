"""Streams of events over HTTP: server-sent events and lines of JSON, that no reader can make expensive.

The framework's own response for server-sent events takes a thread for its beginning and knows neither pings nor slow
readers, so the response is ours; it is an ASGI application of one method.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import anyio
import msgspec

from ..engine import EngineError
from ..journal.bell import Bell

PING = 15.0
"""Seconds without an event after which a ping shows that the line stands."""
SLOW = 30.0
"""Seconds that a reader may take nothing; then it is cut, and may come back with the id of the last event it has."""
BACKLOG = 256 * 1024
"""Bytes that wait for a reader; beyond them its source waits, which is a cursor and costs nothing."""
STREAMS = 2_000
"""Streams at once."""
RETRY = 1_000
"""Milliseconds after which a browser asks again when the line was cut."""

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"

log = logging.getLogger("watchkeeper.service")


class Form(msgspec.Struct, frozen=True):
    """How events are written down."""

    media_type: str
    ping: bytes
    first: bytes
    event: Callable[[str, bytes, int | None], bytes]
    """Of a type, data in JSON on one line, and a number, if it has one."""


def _sse_event(kind: str, data: bytes, n: int | None) -> bytes:
    head = f"event: {kind}\n" if n is None else f"id: {n}\nevent: {kind}\n"
    return b"%bdata: %b\n\n" % (head.encode(), data)


def _line(kind: str, data: bytes, n: int | None) -> bytes:
    """A fact is its own line; anything else is an object with its name, which no fact's type is."""
    return data + b"\n" if n is not None and kind != "gap" else b'{"%b":%b}\n' % (kind.encode(), data)


FORMS = {
    SSE: Form(SSE, b": ping\n\n", b"retry: %d\n\n" % RETRY, _sse_event),
    NDJSON: Form(NDJSON, b"\n", b"", _line),
}


class Backlog:
    """Chunks on their way to a reader, bounded in bytes; one task puts, one takes."""

    def __init__(self, most: int = BACKLOG) -> None:
        self._most = most
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = Bell()

    async def put(self, chunk: bytes) -> None:
        """Waits while there is more than the bound; a chunk that is larger than it goes in alone."""
        while self._chunks and self._bytes + len(chunk) > self._most:
            await self._changed.heard().wait()
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        self._changed.ring()

    async def take(self) -> bytes:
        """All that is there, at least one chunk; empty when it is closed."""
        while not self._chunks and not self._closed:
            await self._changed.heard().wait()
        found = b"".join(self._chunks)
        self._chunks.clear()
        self._bytes = 0
        self._changed.ring()
        return found

    def close(self) -> None:
        self._closed = True
        self._changed.ring()


class Streams:
    """The streams of a service: how many there are, how many were cut, and the end of all when it closes."""

    def __init__(self, *, ping: float = PING, slow: float = SLOW) -> None:
        self.ping = ping
        self.slow = slow
        self.open = 0
        self.cut = 0
        self._scopes: set[anyio.CancelScope] = set()
        self._closing = False

    @property
    def full(self) -> bool:
        return self.open >= STREAMS

    @contextmanager
    def until_closing(self, seconds: float = float("inf")) -> Iterator[anyio.CancelScope]:
        """A wait that ends after so many seconds, or when the service closes; its scope says that it was cut short."""
        with anyio.move_on_after(seconds) as scope:
            if self._closing:
                scope.cancel()
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    def close(self) -> None:
        """End all of them and begin no new one."""
        self._closing = True
        for scope in self._scopes:
            scope.cancel()


class EventStream:
    """A response of events. ``source`` gives chunks, written in ``form``; it is left when the reader goes, is cut, or
    the service closes. A reader that was cut may find one last event ``cut`` when it reads on.
    """

    def __init__(self, streams: Streams, form: Form, source: AsyncGenerator[bytes, None]) -> None:
        self._streams = streams
        self._form = form
        self._source = source

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", f"{self._form.media_type}; charset=utf-8".encode()), (b"x-accel-buffering", b"no")]
        streams = self._streams
        streams.open += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async with anyio.create_task_group() as group:
                group.start_soon(_leave, receive, group.cancel_scope)
                backlog = Backlog()
                with streams.until_closing() as closing:
                    group.start_soon(self._fill, backlog)
                    await self._deliver(backlog, send)
                if closing.cancelled_caught:
                    with anyio.move_on_after(streams.slow):
                        await send({"type": "http.response.body", "body": self._last("closing"), "more_body": False})
                group.cancel_scope.cancel()
        finally:
            streams.open -= 1

    async def _fill(self, backlog: Backlog) -> None:
        try:
            async with aclosing(self._source) as chunks:
                async for chunk in chunks:
                    await backlog.put(chunk)
        except EngineError as error:
            told = msgspec.json.encode({"detail": str(error)[:2_000]})
            await backlog.put(self._form.event("error", told, None))
        except Exception:
            log.exception("a stream of events has failed")
            await backlog.put(self._form.event("error", b'{"detail":"the service has failed at this stream"}', None))
        backlog.close()

    async def _deliver(self, backlog: Backlog, send: Any) -> None:
        body = self._form.first
        while True:
            if body and not await self._sent(send, body, more=True):
                self._streams.cut += 1
                await self._sent(send, self._last("cut"), more=False)
                return
            body = self._form.ping
            with anyio.move_on_after(self._streams.ping):
                body = await backlog.take()
                if not body:
                    await self._sent(send, b"", more=False)
                    return

    async def _sent(self, send: Any, body: bytes, *, more: bool) -> bool:
        with anyio.move_on_after(self._streams.slow):
            await send({"type": "http.response.body", "body": body, "more_body": more})
            return True
        return False

    def _last(self, kind: str) -> bytes:
        return self._form.event(kind, b"{}", None)


async def _leave(receive: Any, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
