"""One request to a service on this machine, and its answer: as much of HTTP as that takes, and no library to load."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import anyio


async def exchange(
    socket: str, method: str, target: str, headers: Mapping[str, str], content: bytes, seconds: float
) -> tuple[int, bytes]:
    """Status and body. A connection of its own, which the service closes behind the answer.

    Raises ``OSError`` where none answers in full, ``TimeoutError`` among them where none does within ``seconds``.
    """
    asked = _asked(method, target, headers, content)
    with anyio.fail_after(seconds):
        async with await anyio.connect_unix(socket) as stream:
            with contextlib.suppress(anyio.BrokenResourceError):  # it may answer before it has read all
                await stream.send(asked)
            try:
                told = b"".join([piece async for piece in stream])
            except anyio.BrokenResourceError as error:
                raise ConnectionResetError("the connection is broken") from error
    return _answer(told)


def _asked(method: str, target: str, headers: Mapping[str, str], content: bytes) -> bytes:
    # HTTP/1.0 has no answers in chunks.
    lines = [f"{method} {target} HTTP/1.0", "Host: localhost", f"Content-Length: {len(content)}"]
    for name, value in headers.items():
        if not value.isprintable():
            raise ConnectionError(f"the header {name} cannot be sent")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("ascii", "replace") + content


def _answer(told: bytes) -> tuple[int, bytes]:
    head, whole, body = told.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if not whole or not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ConnectionResetError("the connection is closed without an answer")
    for line in lines:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip() != b"%d" % len(body):
            raise ConnectionResetError("the connection is closed within the answer")
    return int(rest[:3]), body
