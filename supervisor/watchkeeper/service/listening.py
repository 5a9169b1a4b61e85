"""Where the service listens: Unix sockets and TCP addresses, each with its own door. asyncio only, as its server is."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import uvicorn
from anyio.abc import TaskStatus

from ..errors import ConfigurationError
from .access import Door
from .app import Service

GRACE = 2
"""Seconds that requests have to end when the service closes; streams and waits end at once."""
LONGEST = 107
"""Bytes of the path of a Unix socket, on Linux."""
BACKLOG = 512
CONNECTIONS = 4_096
"""Connections and requests at once at one address; beyond them the answer is 503."""
STALLED = 60_000
"""Milliseconds after which the kernel gives up a TCP peer that takes nothing of what was sent."""
LOCAL = ("127.0.0.1", "::1", "localhost")


class Bind(msgspec.Struct, frozen=True):
    """One address: a Unix socket (``path``), or host and port."""

    path: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str, default: Path | None = None) -> Bind:
        """``unix:/path/to/api.sock``, ``127.0.0.1:8700`` or ``[::1]:8700``; ``unix:`` alone is ``default``. Raises
        :class:`.ConfigurationError`."""
        kind, colon, path = text.partition(":")
        if kind == "unix" and colon:
            if not (path or default):
                raise ConfigurationError("unix: names no socket; say unix:PATH")
            place = os.path.abspath(path or str(default))
            if len(os.fsencode(place)) > LONGEST:
                raise ConfigurationError(
                    f"unix:{place}: the path of a socket has at most {LONGEST} bytes; say a shorter one (--bind)"
                )
            return cls(path=place)
        host, colon, port = text.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65_536):
            raise ConfigurationError(f"{text} is no address to listen at: say --bind unix:PATH or --bind HOST:PORT")
        return cls(host=host.removeprefix("[").removesuffix("]"), port=int(port))

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def door_of(bind: Bind, hosts: Iterable[str] = ()) -> Door:
    """Its door. ``hosts``: more names by which it may be called, with a port where that is not the default one."""
    if bind.path:
        return Door(local=True)
    own = {bind.host, *(LOCAL if bind.host in (*LOCAL, "0.0.0.0", "::") else ())}  # noqa: S104  (compared, not bound)
    names = {str(Bind(host=host, port=bind.port)) for host in own}
    return Door(hosts=frozenset(name.lower() for name in (*names, *hosts)))


@contextlib.contextmanager
def listener(bind: Bind) -> Iterator[socket.socket]:
    """A socket that listens. That of a Unix socket is removed at the end, and replaced at the beginning if nobody
    listens there. Raises :class:`.ConfigurationError` where it cannot be."""
    made = _unix(Path(bind.path)) if bind.path else _tcp(bind)
    with made:
        try:
            yield made
        finally:
            if bind.path:
                with contextlib.suppress(OSError):
                    os.unlink(bind.path)


def _unix(path: Path) -> socket.socket:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.parent.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"unix:{path} cannot be listened at: {error.strerror}") from error
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise ConfigurationError(
            f"{path.parent} may be written by other users, who could put a socket of theirs there: "
            f"chmod go-w {path.parent}, or say another --bind"
        )
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists():
            _remove_if_dead(path)
        before = os.umask(0o077)
        try:
            made.bind(str(path))
        finally:
            os.umask(before)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise ConfigurationError(f"unix:{path} cannot be listened at: {error.strerror}") from error
    except ConfigurationError:
        made.close()
        raise
    return made


def _remove_if_dead(path: Path) -> None:
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise ConfigurationError(f"{path} is there and is no socket; say another --bind, or remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise ConfigurationError(f"a service listens at {path} already; stop it, or say another --bind")


def _tcp(bind: Bind) -> socket.socket:
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    # Said in full: asyncio switches Nagle's algorithm off only where the protocol is named.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED)
        made.bind((bind.host, bind.port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise ConfigurationError(f"{bind} cannot be listened at: {error.strerror or error}") from error
    return made


async def listen(
    service: Service,
    binds: Sequence[Bind],
    *,
    hosts: Iterable[str] = (),
    started: Callable[[Sequence[Bind]], None] = lambda binds: None,
) -> None:
    """Serve at all of these addresses until cancelled. ``started`` is told them, with the ports that the system chose,
    once all of them answer. A cancel ends streams at once and requests within 2 s.

    Raises :class:`.ConfigurationError` where one cannot be listened at; then at none.
    """
    names = tuple(hosts)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(listener(bind)) for bind in binds]
        bound = [bound_to(bind, made) for bind, made in zip(binds, sockets, strict=True)]
        async with anyio.create_task_group() as group:
            servers = []
            try:
                for bind, made in zip(bound, sockets, strict=True):
                    server = Server(service.door(door_of(bind, names)), made)
                    servers.append(server)
                    await group.start(server.run)
                started(bound)
                await anyio.sleep_forever()
            finally:
                service.close()
                for server in servers:
                    server.close()


class Server:
    """Serves an application at a socket that listens, until it is closed. Signals are the affair of the process around
    it, and so is the lifespan of the service."""

    def __init__(self, app: Any, made: socket.socket) -> None:
        self._socket = made
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                http="h11",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=CONNECTIONS,
                timeout_graceful_shutdown=GRACE,
            )
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Started once it answers. A cancel does not interrupt it: :meth:`close` ends it, within its grace."""
        with anyio.CancelScope(shield=True):
            self._server.started_as = task_status
            await self._server.serve([self._socket])

    def close(self) -> None:
        """Take nothing new; requests have 2 s to end."""
        self._server.should_exit = True


class _Uvicorn(uvicorn.Server):
    started_as: TaskStatus[None] = anyio.TASK_STATUS_IGNORED

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.started_as.started()


def bound_to(bind: Bind, made: socket.socket) -> Bind:
    """The address of a socket that listens, with the port that the system chose."""
    return bind if bind.path else Bind(host=bind.host, port=made.getsockname()[1])
