"""An HTTP server on sockets that are bound already; uvicorn, without what belongs to the process around it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.abc

CLOSING = 2
"""Seconds that requests get to end when the server closes."""
CONNECTIONS = 4096
"""Connections at the same time; one more is answered 503."""


class Listener:
    """Serves one ASGI application until :meth:`close`. For asyncio alone, as uvicorn is."""

    def __init__(self, app: Any, listening: socket.socket) -> None:
        import uvicorn

        class Server(uvicorn.Server):
            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield  # signals are the control process's

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                started.set()

        started = self._started = anyio.Event()
        self._socket = listening
        self._server = Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # nobody is believed to say for whom he asks
                limit_concurrency=CONNECTIONS,
                timeout_graceful_shutdown=CLOSING,
            )
        )

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Ready when requests are answered."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._server.serve, [self._socket])
            await self._started.wait()
            task_status.started()

    def close(self) -> None:
        self._server.should_exit = True
