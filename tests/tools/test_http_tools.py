from __future__ import annotations

import gzip
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream

from watchkeeper import ToolError, ToolOutput, Transient
from watchkeeper_tools import answer, http
from watchkeeper_tools.hosts import Hosts

pytestmark = pytest.mark.anyio

Call = Callable[..., Coroutine[None, None, ToolOutput]]


class Server:
    """A web server on loopback that answers each path with fixed bytes and remembers what it was asked."""

    def __init__(self, port: int, answers: dict[str, bytes]) -> None:
        self.port = port
        self.answers = answers
        self.asked: list[str] = []
        self.hanging = anyio.Event()
        self.closed = anyio.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def tools(self, **options: Any) -> tuple[Call, Call]:
        hosts = [f"127.0.0.1:{self.port}"]
        get, post = http.tools(**{"hosts": hosts, "allow_private": True, **options})
        return get.function, post.function

    async def serve(self, stream: SocketStream) -> None:
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request:
                request += await stream.receive()
            head, _, body = request.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
            while len(body) < length:
                body += await stream.receive()
            self.asked.append((head + b"\r\n\r\n" + body).decode())
            path = head.split()[1].decode()
            if path == "/hang":
                self.hanging.set()
                with anyio.CancelScope(shield=True), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
                self.closed.set()
                return
            await stream.send(self.answers[path])


@asynccontextmanager
async def serving(answers: dict[str, bytes] | None = None) -> AsyncIterator[Server]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        server = Server(listener.extra(SocketAttribute.local_port), answers or {})
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, server.serve)
            yield server
            group.cancel_scope.cancel()


def page(body: bytes = b"hello", status: str = "200 OK", kind: str = "text/plain", **headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    if kind:
        head.append(f"Content-Type: {kind}")
    head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*head, "", ""]).encode() + body


async def asked(response: bytes) -> ToolOutput:
    async with serving({"/": response}) as server:
        get, _ = server.tools()
        return await get(url=server.url("/"))


async def refused(response: bytes) -> str:
    async with serving({"/": response}) as server:
        get, _ = server.tools()
        with pytest.raises(ToolError) as raised:
            await get(url=server.url("/"))
    return str(raised.value)


def test_the_tools() -> None:
    get, post = http.tools(root=".")
    assert (get.name, post.name) == ("http_get", "http_post")
    assert get.effect_of({"url": "https://u@Example.com:1/x"}).reads == ("http:example.com",)
    assert post.effect_of({"url": "https://example.com/x", "body": ""}).writes == ("http:example.com",)
    assert post.dangerous
    assert not post.idempotent


async def test_get() -> None:
    async with serving({"/x?q=1": page()}) as server:
        get, _ = server.tools()
        assert await get(url=server.url("/x?q=1#part")) == ToolOutput(
            "hello", productive=True, evidence={"status": 200, "bytes": 5}
        )
    head = server.asked[0].lower()
    assert f"host: 127.0.0.1:{server.port}\r\n" in head
    assert "accept-encoding: identity" in head
    assert "cookie" not in head


async def test_post() -> None:
    async with serving({"/": page(b"made", "201 Created")}) as server:
        _, post = server.tools()
        assert (await post(url=server.url("/"), body='{"ä": 1}')).content == "made"
    head, _, body = server.asked[0].partition("\r\n\r\n")
    assert head.startswith("POST / HTTP/1.1")
    assert "content-type: application/json" in head.lower()
    assert body == '{"ä": 1}'


@pytest.mark.parametrize(
    ("response", "content", "productive"),
    [
        (page(b""), "[an empty answer]", False),
        (page(b"\xe9", kind="text/html; charset=ISO-8859-1"), "é", True),
        (page("é".encode(), kind="application/json"), "é", True),
        (page(b"\xff", kind="text/plain; charset=punycode"), "\ufffd", True),
        (page(b"a", kind="text/plain; charset=iso-8859-99"), "a", True),
        (page(b"plain", kind=""), "plain", True),
        (page(b"\0\1", kind=""), "[binary, 2 bytes: not text, not shown]", True),
        (page(b"\x89PNG", kind="image/png"), "[image/png, 4 bytes: not text, not shown]", True),
    ],
)
async def test_what_is_shown(response: bytes, content: str, productive: bool) -> None:
    given = await asked(response)
    assert (given.content, given.productive) == (content, productive)


async def test_long_answers_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    given = await asked(page(b"x" * 30_000))
    assert given.content == "x" * answer.MAX_TEXT + "\n[cut: the answer has 30,000 bytes]"
    monkeypatch.setattr(http, "MAX_BODY", 1000)
    assert (await asked(page(b"x" * 500_000))).content.startswith("x" * 1000 + "\n[cut: the answer has more than")


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"x" * 3_000_000
    assert "cut: the answer has more than 1,000,000 bytes" in (await asked(endless)).content


async def test_compressed_answers_are_refused() -> None:
    assert "compressed" in await refused(page(gzip.compress(b"0" * 10_000_000), content_encoding="gzip"))


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error", "401 Unauthorized"])
async def test_a_refusal_is_a_result(status: str) -> None:
    given = await asked(page(b"reason " * 1000, status))
    assert (given.error, given.productive) == (f"http_{status[:3]}", False)
    assert given.content.startswith(f"HTTP {status}\nreason ")
    assert len(given.content) < 2_100


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_come_again_later(status: str) -> None:
    async with serving({"/": page(b"", status, retry_after="7")}) as server:
        get, post = server.tools()
        with pytest.raises(Transient, match=status[:3]) as raised:
            await get(url=server.url("/"))
        assert raised.value.retry_after == 7
        given = await post(url=server.url("/"), body="")
        assert given.error == f"http_{status[:3]}"
        assert "wait 7 seconds" in given.content


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("60", 60),
        ("1.5", 1.5),
        ("864000", 864_000),
        ("-1", None),
        ("abc", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 99 Jan 1970 00:00:00 GMT", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert answer.seconds_of(header, now=100) == seconds


# Redirects


async def test_redirects_are_followed() -> None:
    answers = {"/a": page(b"", "302 Found", location="b"), "/b": page(b"", "308 Permanent Redirect", location="/c?x")}
    async with serving({**answers, "/c?x": page()}) as server:
        get, _ = server.tools()
        assert (await get(url=server.url("/a"))).content == f"hello\n[redirected to {server.url('/c?x')}]"


async def test_redirects_have_an_end() -> None:
    async with serving({"/": page(b"", "302 Found", location="/")}) as server:
        get, _ = server.tools()
        with pytest.raises(ToolError, match="more than 5 redirects"):
            await get(url=server.url("/"))
        assert len(server.asked) == http.MAX_HOPS + 1


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/",
        "http://169.254.169.254/latest",
        "//evil.example/",
        "file:///etc/passwd",
        "http://u:p@x/",
        "http://[",
    ],
)
async def test_redirects_to_where_one_may_not_go(location: str) -> None:
    assert await refused(page(b"", "302 Found", location=location))


async def test_post_does_not_follow_redirects() -> None:
    async with serving({"/": page(b"", "307 Temporary Redirect", location="/other")}) as server:
        _, post = server.tools()
        given = await post(url=server.url("/"), body="x")
        assert (given.error, given.content) == ("http_307", "redirected to /other; not followed")
        assert len(server.asked) == 1


# What may be asked


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://",
        "http:///x",
        "http://user:secret@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}@evil.example/",
        "http://evil.example#@127.0.0.1:{port}/",
        "http://evil.example\\@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}.evil.example/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1/",
        "http://[::1",
        "http://a\nb/",
        "http://\ud800/",
        "http://127.0.0.1:{port}/\r\nX-Evil: 1",
    ],
)
async def test_urls_that_are_not_asked(url: str) -> None:
    async with serving() as server:
        for call in server.tools():
            with pytest.raises(ToolError):
                await call(url=url.format(port=server.port), **({"body": ""} if "post" in call.__name__ else {}))
        assert not server.asked


async def test_private_addresses_need_their_own_leave() -> None:
    async with serving({"/": page()}) as server:
        get, _ = server.tools(allow_private=False)
        with pytest.raises(ToolError, match="not a public address"):
            await get(url=server.url("/"))
        assert not server.asked


async def test_no_host_is_allowed_by_default() -> None:
    async with serving({"/": page()}) as server:
        get, _ = server.tools(hosts=())
        with pytest.raises(ToolError, match="list of allowed hosts is empty"):
            await get(url=server.url("/"))


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert (await asked(page())).content == "hello"


class Wire:
    """Stands for the network: notes where connections go."""

    def __init__(self, refusing: tuple[str, ...] = (), error: type[Exception] = httpx2.ConnectError) -> None:
        self.requests: list[httpx2.Request] = []
        self.refusing = refusing
        self.error = error

    def transport(self) -> httpx2.AsyncBaseTransport:
        return httpx2.MockTransport(self.answer)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if request.url.host in self.refusing:
            raise self.error("refused")
        return httpx2.Response(200, stream=httpx2.ByteStream(b"hello"))


def wired(wire: Wire, *lookups: list[str]) -> http.Http:
    waiting = iter(lookups)

    async def resolve(host: str, port: int) -> list[str]:
        return next(waiting)

    return http.Http(Hosts(["name.example"], resolve=resolve), wire.transport)


async def test_a_name_is_looked_up_once_and_connected_to_where_it_was_checked() -> None:
    wire = Wire()
    web = wired(wire, ["8.8.8.8"], ["127.0.0.1"])  # the second look-up is the attack
    assert (await web.http_get("https://Name.example/x")).content == "hello"
    (request,) = wire.requests
    assert request.url == "https://8.8.8.8/x"
    assert request.headers["host"] == "name.example"
    assert request.extensions["sni_hostname"] == "name.example"
    with pytest.raises(ToolError, match="not a public address"):
        await web.http_get("https://name.example/x")
    assert len(wire.requests) == 1


async def test_the_next_address_is_tried_if_one_refuses() -> None:
    wire = Wire(refusing=("8.8.8.8",))
    assert (await wired(wire, ["8.8.8.8", "2606:4700::1111"]).http_get("http://name.example/")).content == "hello"
    assert [request.url.host for request in wire.requests] == ["8.8.8.8", "2606:4700::1111"]


async def test_no_connection() -> None:
    wire = Wire(refusing=("8.8.8.8",))
    with pytest.raises(Transient, match="no answer from name"):
        await wired(wire, ["8.8.8.8"]).http_get("http://name.example/")
    with pytest.raises(ToolError, match="no answer from name") as raised:
        await wired(wire, ["8.8.8.8"]).http_post("http://name.example/", "x")
    assert "not known" in (raised.value.hint or "")


async def test_a_broken_post_is_not_sent_to_the_next_address() -> None:
    wire = Wire(refusing=("8.8.8.8",), error=httpx2.ReadError)
    with pytest.raises(ToolError):
        await wired(wire, ["8.8.8.8", "8.8.4.4"]).http_post("http://name.example/", "x")
    assert len(wire.requests) == 1


def test_a_bad_certificate_is_no_passing_failure() -> None:
    error = httpx2.ConnectError("x")
    error.__cause__ = ssl.SSLCertVerificationError("bad")
    error.__cause__.verify_message = "self-signed certificate"
    assert isinstance(http._failure("GET", "name.example", error), ToolError)


# Time


async def test_the_whole_call_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.2)
    async with serving() as server:
        for call in server.tools():
            with pytest.raises(TimeoutError):
                await call(url=server.url("/hang"), **({"body": ""} if "post" in call.__name__ else {}))


async def test_a_cancel_closes_the_connection() -> None:
    async with serving() as server:
        get, _ = server.tools()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: get(url=server.url("/hang")))
            await server.hanging.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await server.closed.wait()
