"""An application reached without a network, on both back ends, with streams that come as they are sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2


class InProcess(httpx2.AsyncBaseTransport):
    """A transport for httpx2. Its tasks belong to the group that it is given; closing a response is a disconnect.

    ``window``: chunks that the client's side takes in before it has read any; then the application has to wait.
    """

    def __init__(self, app: Any, group: anyio.abc.TaskGroup, *, window: int = 1_000_000) -> None:
        self.app = app
        self.group = group
        self.window = window

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        left = anyio.Event()
        began = anyio.Event()
        head: dict[str, Any] = {}
        into, out = anyio.create_memory_object_stream[bytes](self.window)
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": body, "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
                began.set()
                return
            try:
                if message.get("body"):
                    await into.send(message["body"])
            except anyio.BrokenResourceError:
                return
            if not message.get("more_body"):
                into.close()

        async def work() -> None:
            try:
                await self.app(scope_of(request), receive, send)
            finally:
                into.close()
                began.set()

        self.group.start_soon(work)
        await began.wait()
        return httpx2.Response(head["status"], headers=head["headers"], stream=_Body(out, left))


def scope_of(request: httpx2.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port or 80),
        "client": ("127.0.0.1", 12345),
        "root_path": "",
        "state": {},
    }


class _Body(httpx2.AsyncByteStream):
    def __init__(self, out: Any, left: anyio.Event) -> None:
        self._out = out
        self._left = left

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._out:
            yield chunk

    async def aclose(self) -> None:
        self._left.set()
        self._out.close()
