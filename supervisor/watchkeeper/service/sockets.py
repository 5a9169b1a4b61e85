"""Where the service listens: Unix sockets for their owner alone, and TCP addresses."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from ..errors import ConfigurationError

LONGEST = 107
"""Bytes of a Unix socket's path, on Linux."""
BACKLOG = 512
MODE = 0o600


def bound(place: str, default: Path) -> socket.socket:
    """A listening socket for ``unix:`` (``default``), ``unix:PATH`` or ``HOST:PORT``. A socket file that nobody listens
    on any more is replaced; its folder is made, for its owner alone. Raises :class:`ConfigurationError`."""
    if place.startswith("unix:"):
        return _unix(Path(place.removeprefix("unix:") or default).absolute())
    host, _, port = place.rpartition(":")
    try:
        if int(port) > 65535:
            raise ValueError("a port is at most 65535")
        found = socket.create_server(
            (host.strip("[]"), int(port)),
            family=socket.AF_INET6 if host.startswith("[") else socket.AF_INET,
            backlog=BACKLOG,
        )
    except (OSError, ValueError) as error:
        told = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"{place}: cannot listen there: {told}; name another address (--bind)") from error
    return found


def described(listening: socket.socket) -> str:
    """As it is given with ``--bind``; with the port that the system chose."""
    name = listening.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if listening.family == socket.AF_INET6 else name[0]
    return f"{host}:{name[1]}"


def _unix(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > LONGEST:
        raise ConfigurationError(
            f"unix:{path}: longer than the {LONGEST} bytes that the path of a socket may have; name a shorter one "
            "(--bind unix:PATH)"
        )
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear(path)
        before = os.umask(0o177)
        try:
            made.bind(str(path))
        finally:
            os.umask(before)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise ConfigurationError(f"unix:{path}: cannot listen there: {error.strerror or error}") from error
    return made


def _clear(path: Path) -> None:
    """Take away the socket of a service that has died. Raises ``OSError`` for anything else that is in the way."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(f"{path} is there and no socket; take it away, or name another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise OSError("somebody listens there already; end that one, or name another path")
