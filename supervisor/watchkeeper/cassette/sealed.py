"""No socket: while a cassette is played, nothing of this process reaches a network."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from ..errors import SocketForbidden

FORBIDDEN = frozenset(
    f"socket.{name}"
    for name in ("bind", "connect", "getaddrinfo", "gethostbyname", "gethostbyaddr", "sendto", "sendmsg")
)
"""What the interpreter is about to do, as its audit events name it. A pair of sockets, by which an event loop wakes
itself, is made without any of these."""
_sealed = 0
_hooked = False


@contextlib.contextmanager
def forbidden_sockets() -> Iterator[None]:
    """Until the end of the block, in every thread: whoever looks a host up, connects or listens gets
    :class:`SocketForbidden`, before anything is sent. Processes that are started have their own sockets."""
    global _hooked, _sealed
    if not _hooked:
        sys.addaudithook(_hear)  # for as long as the process lives: there is no taking it away
        _hooked = True
    _sealed += 1
    try:
        yield
    finally:
        _sealed -= 1


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _sealed and event in FORBIDDEN:
        where = " ".join(str(one) for one in arguments[-2:] if isinstance(one, str | int | tuple))[:200]
        raise SocketForbidden(f"{event} {where}: a cassette is played, and nothing may reach a network meanwhile")
