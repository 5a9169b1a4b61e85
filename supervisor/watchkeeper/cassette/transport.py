"""A cassette at the transport of ``httpx2``: what is asked of a server is recorded on its way, or played."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import CassetteError, CassetteMiss
from ..redaction import Redaction
from .entries import TICKS
from .exchange import Exchange, Played, asked_most_like, body_in, body_of, exchanges
from .fault import BROKEN, MALFORMED, RATE_LIMITED, Fault, Faults
from .match import Asking, asking, without_amounts
from .tape import Adding, Tape, read

if TYPE_CHECKING:
    import httpx2

    Transport = httpx2.AsyncBaseTransport
else:
    Transport = object  # httpx2 is slow to load, and asks no more of a transport than its methods

CLOSE_TIMEOUT = 2.0
"""Seconds that closing a reply which nobody reads on may hold up a cancel."""
IDENTITY = "identity"


class Recording(Transport):
    """A transport that writes down what goes through another one.

    Streams go through piece by piece, as they come. Replies are asked for uncompressed, so that secrets in them can be
    seen. ``redaction``: what is cut out, beside the keys in the headers of the request; by default what looks like a
    key, and the values of environment variables with telling names. Errors of the other transport are passed on, and
    recorded. The tape is closed with the transport.
    """

    def __init__(self, inner: Transport, tape: Tape, *, redaction: Redaction | None = None) -> None:
        self._inner = inner
        self._tape = tape
        self._redaction = redaction if redaction is not None else Redaction(environment=os.environ)
        self._count = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it on, and give the reply as it comes in."""
        import httpx2

        self._count += 1
        body = await request.aread()
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() != "accept-encoding"]
        exchange = Exchange(
            self._count,
            request.method,
            str(request.url),
            headers,
            body,
            redaction=self._redaction,
            now=anyio.current_time(),
        )
        sent = httpx2.Request(
            request.method,
            request.url,
            headers=[*headers, ("accept-encoding", IDENTITY)],
            stream=request.stream,
            extensions=request.extensions,
        )
        try:
            response = await self._inner.handle_async_request(sent)
        except BaseException as error:
            self._keep(exchange, error)
            raise
        exchange.answered(response.status_code, response.headers.multi_items(), anyio.current_time())
        encoding = response.headers.get("content-encoding", IDENTITY).strip().lower()

        async def close() -> None:
            await response.aclose()
            self._keep(exchange, left=True)  # unless its stream was read, and kept by that

        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=stream_of(_recorded(response, exchange, self._keep, encoding), close),
            extensions=response.extensions,
        )

    def _keep(self, exchange: Exchange, error: BaseException | None = None, left: bool = False) -> None:
        left = left or (error is not None and not isinstance(error, Exception))
        if not exchange.over:
            exchange.over = True
            self._tape.write(*exchange.lines(anyio.current_time(), error=None if left else error, left=left))

    async def __aenter__(self) -> Recording:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._inner.__aexit__(*exc_info)
        self._tape.close()

    async def aclose(self) -> None:
        await self._inner.aclose()
        self._tape.close()


class Playing(Transport):
    """A transport that answers from a cassette, and never opens a socket.

    Equal requests (method, path, canonical body without what is ``volatile``: see :func:`.match.asking`) get what was
    recorded for them, in order, piece by piece. ``waits`` plays the recorded times, too; by default nothing is waited
    for. What was not recorded raises :class:`CassetteMiss`. ``faults`` are laid over it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        waits: bool = False,
        volatile: Sequence[str] = (),
        faults: Iterable[Fault] = (),
        redaction: Redaction | None = None,
    ) -> None:
        self._faults = Faults(faults)
        self.path = str(path)
        self._waits = waits
        self._volatile = tuple(volatile)
        self._redaction = redaction if redaction is not None else Redaction(environment=os.environ)
        contents = read(path)
        self.missed: CassetteMiss | None = None
        """The first request that was not recorded, if one came."""
        self.cut = contents.cut
        """What was left out at the end of the file; empty if nothing was."""
        self._recorded: list[tuple[Asking, Played]] = []
        self._left: dict[str, deque[Played]] = {}
        for take in contents.of("http"):
            for played in exchanges(take.lines):
                line = played.request
                wanted = asking(line.method, line.url, body_in(line), self._volatile)
                self._recorded.append((wanted, played))
                self._left.setdefault(wanted.key, deque()).append(played)

    @property
    def unplayed(self) -> int:
        """Recorded exchanges that nobody has asked for yet."""
        return sum(map(len, self._left.values()))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The recorded reply. Raises :class:`CassetteMiss`, or the error that was recorded."""
        import httpx2

        fault = self._faults.next()
        if fault is not None and fault.kind == "loss":
            raise httpx2.ConnectError("the connection was lost (a fault laid over the cassette)")
        try:
            left = self._find(request, await request.aread())
        except CassetteMiss as miss:
            self.missed = self.missed or miss
            raise
        if fault is not None and fault.kind in ("rate_limited", "server_error"):
            return _refused(fault)
        played = left.popleft() if fault is None or fault.kind == "slow" else left[0]
        if played.response is None:
            await self._until(0, played.end.at if played.end is not None else 0)
            raise _broken(played)
        await self._until(0, played.response.at)
        return httpx2.Response(
            played.response.status,
            headers=played.response.headers,
            stream=stream_of(self._pieces(played) if fault is None else _faulty(played, fault), _nothing),
            extensions={"http_version": b"HTTP/1.1"},
        )

    def _find(self, request: httpx2.Request, body: bytes) -> deque[Played]:
        """What is left for this request, at least one."""
        from . import scrub

        redaction = self._redaction.and_of(scrub.told_in(request.headers.multi_items()))
        fields = body_of(body, request.headers.get("content-type", ""), redaction)
        found = fields.get("body", fields.get("text", fields.get("base64")))
        wanted = asking(request.method, scrub.url_of(str(request.url), redaction), found, self._volatile)
        left = self._left.get(wanted.key)
        if left:
            return left
        if other := self._alike(wanted):
            return other
        what = f"{self.path} has no recording of {wanted.method} {wanted.path}"
        if left is not None:
            times = sum(one.key == wanted.key for one, _ in self._recorded)
            raise CassetteMiss(f"{what} for the {times + 1}. time: it was recorded {times} times; record it anew")
        lines = wanted.lines()
        alike = [one.lines() for one, _ in self._recorded if one.path == wanted.path]
        difference = asked_most_like(lines, alike or [one.lines() for one, _ in self._recorded])
        raise CassetteMiss(f"{what} with this body; the nearest differs so:" if difference else what, difference)

    def _alike(self, wanted: Asking) -> deque[Played] | None:
        """What is left for a request that differs in what a run of ours has left, as its status line says it."""
        body = without_amounts(wanted.body)
        for one, _ in self._recorded:
            if one.path == wanted.path and one.method == wanted.method and without_amounts(one.body) == body:
                left = self._left[one.key]
                if left:
                    return left
        return None

    async def _pieces(self, played: Played) -> AsyncIterator[bytes]:
        assert played.response is not None
        before = played.response.at
        for at, piece in played.chunks:
            await self._until(before, at)
            before = at
            yield piece
        if played.end is None or played.end.error or played.end.left:
            raise _broken(played)

    async def _until(self, before: int, at: int) -> None:
        await anyio.sleep(max(at - before, 0) / TICKS if self._waits else 0)

    async def __aenter__(self) -> Playing:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        pass

    async def aclose(self) -> None:
        pass


def recording_client(
    path: str | os.PathLike[str], *, adding: Adding = "once", redaction: Redaction | None = None
) -> httpx2.AsyncClient:
    """A client that records. Nothing is kept open between requests, and no proxy of the environment is used: make a
    client with a :class:`Recording` transport of your own for that."""
    import httpx2

    inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0))
    transport = Recording(inner, Tape(path, "http", adding=adding), redaction=redaction)
    return httpx2.AsyncClient(transport=transport, timeout=None, follow_redirects=True)


def playing_client(path: str | os.PathLike[str], **settings: Any) -> httpx2.AsyncClient:
    """A client that answers from the cassette; the settings are those of :class:`Playing`."""
    import httpx2

    return httpx2.AsyncClient(transport=Playing(path, **settings), timeout=None)


def stream_of(pieces: AsyncIterator[bytes], close: Any) -> Any:
    """What ``httpx2`` wants of a body."""
    import httpx2

    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in pieces:
                yield piece

        async def aclose(self) -> None:
            with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await pieces.aclose()  # type: ignore[attr-defined]  # a generator
                await close()

    return Body()


def _refused(fault: Fault) -> httpx2.Response:
    import httpx2

    headers = {"content-type": "application/json"}
    if fault.kind == "server_error":
        return httpx2.Response(500, headers=headers, content=BROKEN)
    if fault.retry_after is not None:
        headers["retry-after"] = f"{fault.retry_after:g}"
    return httpx2.Response(429, headers=headers, content=RATE_LIMITED)


async def _faulty(played: Played, fault: Fault) -> AsyncIterator[bytes]:
    import httpx2

    if fault.kind == "slow":
        for _, piece in played.chunks:
            await anyio.sleep(fault.delay)
            yield piece
        return
    for _, piece in played.chunks[: fault.pieces]:
        yield piece
    if fault.kind == "stall":
        await anyio.sleep_forever()
    if fault.kind == "cut":
        raise httpx2.ReadError("the connection was cut (a fault laid over the cassette)")
    yield MALFORMED


async def _nothing() -> None:
    pass


async def _recorded(response: httpx2.Response, exchange: Exchange, keep: Any, encoding: str) -> AsyncIterator[bytes]:
    """The body of a reply as it comes in. Whatever ends it, the exchange is kept."""
    decoder = _Decoder(encoding)
    error: BaseException | None = None
    left = True
    try:
        assert hasattr(response.stream, "__aiter__")
        async for piece in response.stream:
            exchange.came(decoder.feed(piece), anyio.current_time())
            yield piece
        left = False
    except GeneratorExit:
        raise
    except BaseException as failure:
        error, left = failure, False
        raise
    finally:
        keep(exchange, error or decoder.failed, left)


class _Decoder:
    """For a server that compresses although it was asked not to: what is recorded must be looked through."""

    def __init__(self, encoding: str) -> None:
        self.failed: CassetteError | None = None
        self._zlib = zlib.decompressobj(47) if encoding in ("gzip", "x-gzip", "deflate") else None
        if self._zlib is None and encoding not in ("", IDENTITY):
            self.failed = CassetteError(f"a body in {encoding} cannot be looked through for secrets: it was left out")

    def feed(self, piece: bytes) -> bytes:
        if self.failed is not None:
            return b""
        if self._zlib is None:
            return piece
        with suppress(zlib.error):
            return self._zlib.decompress(piece)
        return b""


def _broken(played: Played) -> Exception:
    """The error with which a recorded exchange ended."""
    import httpx2

    end = played.end
    if end is None or end.left:
        return CassetteMiss("the recording of this reply ends here: whoever asked then did not read on")
    kind = getattr(httpx2, end.error, None)
    if isinstance(kind, type) and issubclass(kind, httpx2.TransportError):
        return kind(end.message)
    return httpx2.ReadError(f"{end.error}: {end.message}")
