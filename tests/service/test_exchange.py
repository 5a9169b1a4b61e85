"""One request over a socket: an answer is whole, or it is none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from watchkeeper.service.client import HttpEngine, Unreachable
from watchkeeper.service.exchange import exchange

pytestmark = pytest.mark.anyio

WHOLE = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def answering(path: Path, answer: bytes | None, asked: list[bytes]) -> AsyncIterator[str]:
    """What listens at a socket of that folder and gives one answer to all; None: it only listens."""
    socket = str(path / "s")

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            asked.append(await stream.receive())
            if answer is None:
                await anyio.sleep_forever()
            else:
                await stream.send(answer)

    async with await anyio.create_unix_listener(socket) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield socket
        group.cancel_scope.cancel()


async def test_status_and_body_come_back(tmp_path: Path) -> None:
    asked: list[bytes] = []
    with anyio.fail_after(20):
        async with answering(tmp_path, WHOLE, asked) as socket:
            assert await exchange(socket, "POST", "/x?a=1", {"Key": "k"}, b"said", 20) == (201, b"hello")
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [b"POST /x?a=1 HTTP/1.0", b"Host: localhost", b"Content-Length: 4", b"Key: k"]
    assert body == b"said"


@pytest.mark.parametrize(
    "answer",
    [b"", WHOLE[:10], WHOLE[:-1], WHOLE + b"!", b"SSH-2.0 hello\r\n\r\n", WHOLE.replace(b"5", b"five")],
    ids=["nothing", "in the head", "in the body", "too much", "another protocol", "no length"],
)
async def test_what_is_no_whole_answer_is_an_error(answer: bytes, tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with answering(tmp_path, answer, []) as socket:
            with pytest.raises(OSError, match="closed with"):
                await exchange(socket, "GET", "/", {}, b"", 20)
            async with HttpEngine(f"unix:{socket}") as engine:
                with pytest.raises(Unreachable, match="start one with"):
                    await engine.get("r1")


async def test_nobody_there_and_nobody_who_answers(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        with pytest.raises(FileNotFoundError):
            await exchange(str(tmp_path / "none"), "GET", "/", {}, b"", 20)
        async with answering(tmp_path, None, []) as socket:
            with pytest.raises(TimeoutError):
                await exchange(socket, "GET", "/", {}, b"", 0)


async def test_a_header_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="Key"):
        await exchange(str(tmp_path / "none"), "GET", "/", {"Key": "a\r\nHost: b"}, b"", 20)
