"""A chat-completions server on loopback that plays a script, strictly: the public double of a model's endpoint."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

from .strict import check_request
from .turns import (
    CallTools,
    Drop,
    Fault,
    Plan,
    Raw,
    Reply,
    Say,
    Slow,
    Stall,
    Turn,
    call_as_text,
    context_overflow,
    half_call,
    no_quota,
    plan,
    rate_limited,
    rejected,
    tokens,
)

__all__ = [
    "CallTools",
    "ChatServer",
    "Drop",
    "Fault",
    "Raw",
    "Received",
    "Reply",
    "Say",
    "Script",
    "Slow",
    "Stall",
    "Turn",
    "call_as_text",
    "check_request",
    "context_overflow",
    "half_call",
    "no_quota",
    "rate_limited",
    "rejected",
]

Script = Sequence[Turn] | Callable[[dict[str, Any], int], Turn]
"""Turns in order, or a function of the request's body and its number (from 1) in this script."""

MAX_HEAD = 64 * 1024
MAX_BODY = 16 * 1024 * 1024
READ_TIMEOUT = 30.0
"""Seconds for a request to come in whole, and for a connection to stay open without one."""


@dataclass
class Received:
    """One request to ``/v1/chat/completions``, also if it was rejected. Times are of the event loop's clock."""

    body: Any
    headers: dict[str, str]
    at: float
    connection: int
    """Number of the connection it came on, from 1: equal numbers are one connection kept alive."""
    status: int = 0
    rejected: str | None = None
    chunks: int = 0
    """Chunks of the reply that were sent."""
    complete: bool = False
    """The reply was sent to its end."""
    closed_by_peer: bool = False
    """The client left before the reply was complete."""
    closed_at: float | None = None
    done: anyio.Event = field(default_factory=anyio.Event)
    """Set when the server has finished with it, or the client has left."""


class ChatServer(contextlib.AbstractAsyncContextManager["ChatServer"]):
    """``async with ChatServer([Say("hello")]) as server:`` and point a client at ``server.base_url``.

    ``script`` is a list of turns or a function; a mapping of model names to such scripts gives every model its own, so
    that several runs can use one server at once. Each accepted request takes the next turn; after the last one they are
    answered with 400 ``script_ended``. Requests that :func:`check_request` finds fault with are answered with 400 and
    take no turn. ``rejects`` names fields that this server does not know (400 ``unsupported_parameter``);
    ``context_window`` (tokens of 4 characters) answers longer prompts with the 400 of llama.cpp.

    Listens on 127.0.0.1 at a port that the system picks. Leaving closes every connection. An error in a script function
    is raised out of the ``async with``.
    """

    def __init__(
        self,
        script: Script | Mapping[str, Script],
        *,
        context_window: int | None = None,
        rejects: Sequence[str] = (),
    ) -> None:
        self._scripts: dict[str, Script] = dict(script) if isinstance(script, Mapping) else {"": script}
        self._played: dict[str, int] = dict.fromkeys(self._scripts, 0)
        self.context_window = context_window
        self.rejects = tuple(rejects)
        self.requests: list[Received] = []
        self.connections = 0
        """Connections accepted so far."""
        self.base_url = ""
        self._arrived = anyio.Event()

    async def __aenter__(self) -> ChatServer:
        self._context = self._serving()
        await self._context.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> bool | None:
        return await self._context.__aexit__(*exc_info)

    async def arrived(self, count: int) -> Received:
        """Wait until so many chat requests have come in; returns the last of them."""
        while len(self.requests) < count:
            await self._arrived.wait()
        return self.requests[count - 1]

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncGenerator[None]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 (not Django)
        self.base_url = f"http://127.0.0.1:{port}/v1"
        failure: Exception | None = None
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._connection, tasks)
            try:
                yield
            except Exception as error:  # let through as it is: a task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _connection(self, stream: SocketStream) -> None:
        self.connections += 1
        connection = _Connection(stream, self.connections)
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, TimeoutError):
            async with stream:
                while await self._exchange(connection):
                    pass

    async def _exchange(self, connection: _Connection) -> bool:
        """One request and its answer; False if the connection is done with."""
        try:
            method, path, headers, raw = await connection.read_request()
        except ValueError as error:
            await connection.send(_error(400, str(error)))
            return False
        if (method, path) == ("GET", "/v1/models"):
            data = [{"id": name or "scripted", "object": "model", "owned_by": "watchkeeper"} for name in self._scripts]
            return await connection.send(Plan(200, {}, json.dumps({"object": "list", "data": data}).encode()))
        if path != "/v1/chat/completions":
            return await connection.send(_error(404, f"no such path: {path}"))
        if method != "POST":
            return await connection.send(_error(405, f"{method} is not allowed here"))
        return await self._chat(connection, headers, raw)

    async def _chat(self, connection: _Connection, headers: dict[str, str], raw: bytes) -> bool:
        body: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(raw)
        received = Received(body, headers, anyio.current_time(), connection.number)
        self.requests.append(received)
        self._arrived.set()
        self._arrived = anyio.Event()
        try:
            answer = self._answer(received)
            received.status = answer.status
            return await connection.answer(answer, received)
        finally:
            received.done.set()

    def _answer(self, received: Received) -> Plan:
        body = received.body
        if body is None:
            received.rejected = "the body is not JSON"
        else:
            received.rejected = check_request(body)
        if received.rejected is not None:
            return _error(400, received.rejected)
        for name in self.rejects:
            if name in body:
                text = f"Unsupported parameter: '{name}' is not supported with this model."
                return plan(rejected(text, code="unsupported_parameter", param=name), body, 0)
        if self.context_window is not None and (length := tokens(body)) > self.context_window:
            return plan(context_overflow(length, self.context_window), body, 0)
        key = "" if "" in self._scripts else body["model"]
        if key not in self._scripts:
            text = f"The model '{key}' does not exist"
            return plan(rejected(text, code="model_not_found", param="model", status=404), body, 0)
        return plan(self._next(key, body), body, len(self.requests))

    def _next(self, key: str, body: dict[str, Any]) -> Turn:
        script = self._scripts[key]
        self._played[key] += 1
        n = self._played[key]
        if callable(script):
            return script(body, n)
        if n > len(script):
            return rejected(f"the script has only {len(script)} turns", code="script_ended")
        return script[n - 1]


class _Connection:
    """One client: requests in, answers out, and a look at whether it is still there."""

    def __init__(self, stream: SocketStream, number: int) -> None:
        self.stream = stream
        self.number = number
        self._buffer = b""

    async def read_request(self) -> tuple[str, str, dict[str, str], bytes]:
        """Raises ``ValueError`` for what is not a request within bounds, ``EndOfStream`` if the client has left."""
        with anyio.fail_after(READ_TIMEOUT):
            while (end := self._buffer.find(b"\r\n\r\n")) < 0:
                if len(self._buffer) > MAX_HEAD or (self._buffer and not self._buffer[:1].isalpha()):
                    raise ValueError("this is not HTTP, or the head of the request is too large")
                self._buffer += await self.stream.receive()
            first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            words = first.split(" ")
            length = headers.get("content-length", "0")
            if len(words) != 3 or "transfer-encoding" in headers or not length.isdecimal() or int(length) > MAX_BODY:
                raise ValueError(f"a request of at most {MAX_BODY} bytes with a content-length is wanted")
            stop = end + 4 + int(length)
            while len(self._buffer) < stop:
                self._buffer += await self.stream.receive()
        raw, self._buffer = self._buffer[end + 4 : stop], self._buffer[stop:]
        return words[0], words[1].partition("?")[0], headers, raw

    async def send(self, answer: Plan) -> bool:
        """Send an answer that is not streamed. True: the connection can be used again."""
        await self.stream.send(_head(answer, f"content-length: {len(answer.whole)}") + answer.whole)
        return True

    async def answer(self, answer: Plan, received: Received) -> bool:
        """Play the answer; notes in ``received`` if the client leaves before its end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, tasks, received)
            try:
                await self._play(answer, received)
            except anyio.BrokenResourceError:
                _left(received)
            tasks.cancel_scope.cancel()
        return received.complete

    async def _watch(self, tasks: TaskGroup, received: Received) -> None:
        try:
            while len(self._buffer) < MAX_HEAD:  # a client that sends on (pipelining) is heard after the answer
                self._buffer += await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            _left(received)
            tasks.cancel_scope.cancel()

    async def _play(self, answer: Plan, received: Received) -> None:
        if not answer.streamed and answer.end == "done":
            await anyio.sleep(answer.delay)
            received.complete = True
            await self.send(answer)
            return
        if answer.streamed and (answer.chunks or answer.end == "done"):
            await self._play_chunks(answer, received)
        if answer.end == "stall":
            await anyio.sleep_forever()
        if answer.end == "reset":
            raw = self.stream.extra(SocketAttribute.raw_socket)  # noqa: S610 (not Django)
            # Closing then sends RST.
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _play_chunks(self, answer: Plan, received: Received) -> None:
        pieces = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in answer.chunks]
        if answer.end == "done":
            pieces = [*pieces[:-1], b"".join(pieces[-1:]) + b"0\r\n\r\n"]
        await self.stream.send(_head(answer, "transfer-encoding: chunked"))
        for i, piece in enumerate(pieces, 1):
            await anyio.sleep(answer.delay)
            received.complete = answer.end == "done" and i == len(pieces)
            received.chunks = min(i, len(answer.chunks))
            await self.stream.send(piece)


def _left(received: Received) -> None:
    if not received.complete:
        received.closed_by_peer = True
        received.closed_at = anyio.current_time()


def _head(answer: Plan, framing: str) -> bytes:
    headers = {"content-type": "application/json", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    headers |= {name.lower(): value for name, value in answer.headers.items()}
    lines = [f"HTTP/1.1 {answer.status} {'OK' if answer.status == 200 else 'Scripted'}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, framing, "", ""]).encode("latin-1")


def _error(status: int, message: str) -> Plan:
    return plan(rejected(message, status=status), {}, 0)
