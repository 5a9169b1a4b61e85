"""The recording reverse proxy: through it a client sees what the server sends, when it sends it; all is recorded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cassette import Tape, playing_client
from watchkeeper.cassette.entries import HttpEnd
from watchkeeper.cassette.proxy import RecordingProxy
from watchkeeper.cassette.tape import read
from watchkeeper.cassette.wire import BadRequest, Wire, forwarded
from watchkeeper.errors import ConfigurationError
from watchkeeper.testing import ChatServer, Drop, Say, Slow, Stall

pytestmark = pytest.mark.anyio
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
SECRET = "xyzzy-planted-secret-42"


@asynccontextmanager
async def proxied(upstream: str, path: Path) -> AsyncIterator[str]:
    """A proxy before a server; its base URL."""
    async with anyio.create_task_group() as tasks:
        port = await tasks.start(RecordingProxy(upstream, Tape(path, "http")).serve, 0)
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


async def read_all(client: httpx2.AsyncClient, base: str, body: Any = BODY, **more: Any) -> tuple[int, bytes]:
    async with client.stream("POST", f"{base}/chat/completions", json=body, **more) as response:
        return response.status_code, b"".join([piece async for piece in response.aiter_raw()])


@asynccontextmanager
async def talking(base: str) -> AsyncIterator[Any]:
    """A connection without a client library."""
    async with await anyio.connect_tcp("127.0.0.1", int(base.rpartition(":")[2])) as stream:
        yield stream


async def heard(stream: Any, until: bytes) -> bytes:
    data = b""
    with anyio.fail_after(10):
        while until not in data:
            data += await stream.receive()
    return data


async def test_streams_go_through_and_are_recorded(tmp_path: Path) -> None:
    async with ChatServer([Say("hello"), Say("hello")]) as server, httpx2.AsyncClient() as client:
        direct = await read_all(client, server.base_url)
        async with proxied(server.base_url, tmp_path / "a") as base:
            through = await read_all(client, base, headers={"authorization": f"Bearer {SECRET}"})
        assert through[0] == direct[0] == 200
        assert through[1].replace(b"chatcmpl-2", b"chatcmpl-1") == direct[1]
        assert server.requests[1].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in (tmp_path / "a").read_text("utf-8")
    async with playing_client(tmp_path / "a") as client:
        assert await read_all(client, "http://elsewhere/v1") == through


async def test_each_piece_goes_on_at_once(tmp_path: Path) -> None:
    async with ChatServer([Stall(2)]) as server, httpx2.AsyncClient() as client:  # noqa: SIM117
        async with proxied(server.base_url, tmp_path / "a") as base:
            async with client.stream("POST", f"{base}/chat/completions", json=BODY) as response:
                pieces = response.aiter_raw()
                with anyio.fail_after(10):
                    assert b"data:" in await anext(pieces)  # the server never sends the rest
                await pieces.aclose()
            received = await server.arrived(1)
            with anyio.fail_after(10):
                await received.done.wait()
            assert received.closed_by_peer  # the client left, and so the request at the server ended
    (end,) = [line for line in read(tmp_path / "a").takes[0].lines if isinstance(line, HttpEnd)]
    assert end.left


async def test_ending_it_keeps_what_is_under_way(tmp_path: Path) -> None:
    async with ChatServer([Slow(Say("a long answer " * 20), 0.05)]) as server:  # noqa: SIM117
        async with proxied(server.base_url, tmp_path / "a") as base, talking(base) as stream:
            body = json.dumps(BODY).encode()
            head = f"POST /chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            await stream.send(head.encode() + body)
            await heard(stream, b"data:")
    contents = read(tmp_path / "a")
    assert contents.cut == ""
    assert [line.left for line in contents.takes[0].lines if isinstance(line, HttpEnd)] == [True]


async def test_headers_between_neighbours_go_no_further(tmp_path: Path) -> None:
    async with ChatServer([Say("hi")]) as server, proxied(server.base_url, tmp_path / "a") as base:
        async with talking(base) as stream:
            body = json.dumps(BODY).encode()
            head = [
                "POST /chat/completions HTTP/1.1",
                "Host: proxy",
                "Connection: keep-alive, X-Mine",
                "X-Mine: only for you",
                "X-Theirs: for all",
                "Proxy-Authorization: Basic abc",
                "Accept-Encoding: gzip, br",
                f"Content-Length: {len(body)}",
            ]
            await stream.send("\r\n".join([*head, "", ""]).encode() + body)
            reply = await heard(stream, b"0\r\n\r\n")
        headers = server.requests[0].headers
    assert headers["x-theirs"] == "for all"
    assert not {"x-mine", "proxy-authorization"} & headers.keys()
    assert headers["accept-encoding"] == "identity"
    assert headers["host"].startswith("127.0.0.1")
    assert reply.count(b"transfer-encoding: chunked") == 1


async def test_a_connection_is_used_again_and_a_body_may_come_in_chunks(tmp_path: Path) -> None:
    async with (  # noqa: SIM117
        ChatServer([Say("one"), Say("two")]) as server,
        proxied(server.base_url, tmp_path / "a") as base,
    ):
        async with talking(base) as stream:
            for answer in (b"one", b"two"):
                body = json.dumps({**BODY, "stream": False}).encode()
                chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:]))
                head = b"POST /chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
                await stream.send(head + chunks + b"0\r\n\r\n")
                assert answer in await heard(stream, b"}]")
    assert len(server.requests) == 2


async def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with proxied("http://127.0.0.1:9/v1", tmp_path / "a") as base, httpx2.AsyncClient() as client:
        status, body = await read_all(client, base)
    assert status == 502
    assert b"cannot be asked: ConnectError" in body


async def test_a_reply_that_breaks_off_breaks_off(tmp_path: Path) -> None:
    async with ChatServer([Drop(3)]) as server, proxied(server.base_url, tmp_path / "a") as base:  # noqa: SIM117
        async with httpx2.AsyncClient() as client:
            with pytest.raises(httpx2.TransportError):
                await read_all(client, base)
    (end,) = [line for line in read(tmp_path / "a").takes[0].lines if isinstance(line, HttpEnd)]
    assert end.error


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"y" * 70_000,
        b"POST / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000,
    ],
)
async def test_what_is_no_request_is_refused(request_: bytes, tmp_path: Path) -> None:
    async with proxied("http://127.0.0.1:9/v1", tmp_path / "a") as base, talking(base) as stream:
        await stream.send(request_)
        assert (await heard(stream, b"}}")).startswith(b"HTTP/1.1 400 ")


async def test_trailers_go_no_further_and_who_waits_to_send_is_told_to_go_on() -> None:
    head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n"
    pieces = [head, b"3\r\nabc\r\n0\r\nx-checksum: 1\r\n", b"\r\nGET /next HTTP/1.1\r\n\r\n"]
    said = []

    class Pieces:
        async def receive(self) -> bytes:
            return pieces.pop(0)

        async def send(self, data: bytes) -> None:
            said.append((data, len(pieces)))

    wire = Wire(Pieces())  # type: ignore[arg-type]
    first, second = await wire.request(), await wire.request()
    assert first is not None
    assert second is not None
    assert (first.body, first.headers) == (b"abc", [("host", "x"), ("expect", "100-continue")])
    assert said == [(b"HTTP/1.1 100 Continue\r\n\r\n", 2)]  # before anything of the body had come
    assert second.target == "/next"


@given(st.binary(max_size=300))
def test_nothing_that_comes_in_breaks_the_reader(data: bytes) -> None:
    class Once:
        async def receive(self) -> bytes:
            nonlocal data
            if not data:
                raise anyio.EndOfStream
            found, data = data[:50], data[50:]
            return found

        async def send(self, data: bytes) -> None:
            pass

    async def read_one() -> None:
        with suppress(BadRequest, anyio.EndOfStream):
            await Wire(Once()).request()  # type: ignore[arg-type]

    anyio.run(read_one)


async def test_only_a_url_is_an_upstream(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "a", "http")
    for wrong in ("", "host/v1", "ftp://host", "http://", "http://host?x=1"):
        with pytest.raises(ConfigurationError, match="upstream must look like"):
            RecordingProxy(wrong, tape)
    tape.close()


async def test_what_connection_names_is_dropped_whatever_its_case() -> None:
    given_ = [("A", "1"), ("B", "2"), ("CONNECTION", "close, b"), ("TE", "trailers")]
    assert forwarded(given_) == [("A", "1")]
