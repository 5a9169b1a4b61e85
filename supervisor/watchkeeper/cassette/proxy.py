"""A reverse proxy that records: for agents that are not ours, in any language, between them and their model."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.abc

from ..errors import ConfigurationError
from ..redaction import Redaction
from .tape import Tape
from .transport import Recording
from .wire import BadRequest, Incoming, Wire, forwarded, head_of

if TYPE_CHECKING:
    import httpx2

GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
CONNECT_TIMEOUT = 30.0
"""Seconds for a connection to the server; for a reply there is no limit: that is the client's business."""


class RecordingProxy:
    """Passes requests on to ``upstream`` and replies back, each piece when it comes, and records both.

    A client uses it in place of ``upstream``: what stands behind the proxy's port is put behind the URL. Only headers
    between neighbours are dropped; ``Accept-Encoding`` becomes ``identity``, so that secrets can be seen and cut out of
    the recording. A client that leaves ends its request at the server. Listens on loopback alone.

    Raises :class:`ConfigurationError` for an upstream that is no URL.
    """

    def __init__(self, upstream: str, tape: Tape, *, redaction: Redaction | None = None) -> None:
        parts = urlsplit(upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(f"upstream must look like https://host/v1, not {upstream!r}")
        self.upstream = upstream.rstrip("/")
        self._tape = tape
        self._redaction = redaction

    async def serve(self, port: int = 0, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until it is cancelled; tells ``task_status`` the port. What is under way then is recorded as far as it
        came. Raises ``OSError`` for a port that is not to be had."""
        import httpx2

        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
        async with (
            listener,
            Recording(httpx2.AsyncHTTPTransport(limits=limits), self._tape, redaction=self._redaction) as transport,
        ):
            task_status.started(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610  (not Django)
            async with anyio.create_task_group() as tasks:

                async def connected(stream: anyio.abc.SocketStream) -> None:
                    async with stream:
                        with suppress(*GONE):
                            wire = Wire(stream)
                            while await self._exchange(wire, transport):
                                pass

                await listener.serve(connected, tasks)

    async def _exchange(self, wire: Wire, transport: Recording) -> bool:
        """One request and its reply; False if the connection is done with."""
        try:
            request = await wire.request()
        except BadRequest as error:
            await wire.send(_told(400, "Bad Request", str(error)))
            return False
        if request is None:
            return False
        whole = False
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await wire.left()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            with suppress(*GONE):
                whole = await self._pass_on(request, wire, transport)
            tasks.cancel_scope.cancel()
        return whole and request.keep_alive

    async def _pass_on(self, request: Incoming, wire: Wire, transport: Recording) -> bool:
        import httpx2

        headers = [(name, value) for name, value in request.headers if name.lower() not in ("host", "content-length")]
        timeout = {"connect": CONNECT_TIMEOUT, "read": None, "write": None, "pool": None}
        sent = httpx2.Request(
            request.method,
            self.upstream + request.target,
            headers=headers,
            content=request.body or None,
            extensions={"timeout": timeout},
        )
        try:
            response = await transport.handle_async_request(sent)
        except httpx2.HTTPError as error:
            await wire.send(_told(502, "Bad Gateway", f"{self.upstream} cannot be asked: {type(error).__name__}"))
            return True
        try:
            return await self._answer(request, response, wire)
        except httpx2.HTTPError:
            return False  # in the middle of the reply: the client sees it break off, as it did
        finally:
            await response.aclose()

    async def _answer(self, request: Incoming, response: httpx2.Response, wire: Wire) -> bool:
        status, headers = response.status_code, forwarded(response.headers.multi_items())
        reason = bytes(response.extensions.get("reason_phrase", b"")).decode("latin-1")
        bare = request.method == "HEAD" or status in (204, 304)
        in_chunks = not bare and request.chunks and "content-length" not in response.headers
        await wire.send(head_of(status, reason, headers, "transfer-encoding: chunked" if in_chunks else None))
        assert hasattr(response.stream, "__aiter__")
        async for piece in response.stream:
            if piece and not bare:
                await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece)
        if in_chunks:
            await wire.send(b"0\r\n\r\n")
        return bare or in_chunks or "content-length" in response.headers


def _told(status: int, reason: str, text: str) -> bytes:
    body = json.dumps({"error": {"message": text, "type": "proxy_error", "code": status}}).encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
    if status == 400:
        headers.append(("connection", "close"))
    return head_of(status, reason, headers, None) + body
