"""HTTP tools: GET and POST to allowed hosts."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Meta

from watchkeeper import Effect, Tool, ToolError, ToolOutput, Transient, reads, tool, writes

from .answer import MAX_BODY, MAX_TEXT, Answer
from .hosts import DEFAULT_PORTS, Hosts

if TYPE_CHECKING:
    import httpx2

SECONDS = 30.0
"""For one call, redirects and all."""
MAX_HOPS = 5
MAX_SENT = 1_000_000

Url = Annotated[str, Meta(min_length=1, max_length=4096, description="http:// or https:// URL of an allowed host")]
Body = Annotated[str, Meta(max_length=MAX_SENT, description="the text to send")]
ContentType = Literal["application/json", "text/plain", "application/x-www-form-urlencoded"]


class Http:
    """GET and POST, each call with a connection of its own: no cookies, no proxies, nothing kept between calls.

    A name is looked up once, its addresses are checked and the connection goes to one of those addresses, while the
    certificate is checked against the name: a name that changes its address in between gains nothing.
    Both methods raise ``TimeoutError`` after :data:`SECONDS`; a cancel closes the connection at once.
    """

    def __init__(self, hosts: Hosts, transport: Callable[[], httpx2.AsyncBaseTransport] | None = None) -> None:
        self._hosts = hosts
        self._transport = transport
        self._tls: ssl.SSLContext | None = None

    async def http_get(self, url: Url) -> ToolOutput:
        """Fetch a URL and get its text. Redirects are followed as long as they lead to allowed hosts."""
        with anyio.fail_after(SECONDS):
            target = first = self._checked(url)
            for _ in range(MAX_HOPS + 1):
                answer = await self._ask("GET", target)
                if not answer.redirects:
                    break
                target = self._checked(_joined(answer))
            else:
                raise ToolError(f"more than {MAX_HOPS} redirects, the last one to {target}")
        if answer.status in (429, 503):
            raise Transient(f"HTTP {answer.status} from {target.host}", retry_after=answer.retry_after())
        return answer.told([f"redirected to {target}"] if target != first else [])

    async def http_post(self, url: Url, body: Body, content_type: ContentType = "application/json") -> ToolOutput:
        """Send text to a URL and get the answer's text. Redirects are not followed; it says where they lead."""
        data = _encoded(body)
        with anyio.fail_after(SECONDS):
            answer = await self._ask("POST", self._checked(url), data, {"content-type": content_type})
        if answer.redirects:
            where = answer.headers["location"][:1000]
            return ToolOutput(f"redirected to {where}; not followed", productive=False, error=f"http_{answer.status}")
        return answer.told()

    def _checked(self, text: str | httpx2.URL) -> httpx2.URL:
        """A URL that may be asked; fragments are dropped."""
        import httpx2

        try:
            url = httpx2.URL(text).copy_with(fragment=None)
        except (httpx2.InvalidURL, ValueError, TypeError) as error:
            raise ToolError(f"that is not a URL: {error}", hint="such as https://example.com/page") from error
        if url.scheme not in DEFAULT_PORTS or not url.host:
            raise ToolError("only http:// and https:// URLs with a host can be asked")
        if url.userinfo:
            raise ToolError("a URL with a user name or password in it is refused")
        self._hosts.require(url.scheme, *_place(url))
        return url

    async def _ask(
        self, method: str, url: httpx2.URL, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """One request, no redirects; to the first of the host's addresses that can be connected to."""
        import httpx2

        host, port = _place(url)
        *others, last = await self._hosts.addresses(host, port)
        for address in (*others, last):
            try:
                return await self._ask_at(address, method, url, body, headers or {})
            except httpx2.ConnectError as error:
                if address == last:
                    raise _failure(method, host, error) from error
            except httpx2.TimeoutException as error:
                raise TimeoutError(f"{host} did not answer in time") from error
            except httpx2.TransportError as error:
                raise _failure(method, host, error) from error
        raise AssertionError("unreachable")

    async def _ask_at(self, address: str, method: str, url: httpx2.URL, body: bytes, headers: dict[str, str]) -> Answer:
        import httpx2

        async with httpx2.AsyncClient(
            transport=self._transport() if self._transport else None,
            verify=await self._tls_context(),
            trust_env=False,
            timeout=SECONDS,
        ) as client:
            request = client.build_request(
                method,
                url.copy_with(host=address),
                content=body if method == "POST" else None,
                headers={
                    "host": url.netloc.decode("ascii"),
                    "user-agent": "watchkeeper",
                    "accept-encoding": "identity",
                    **headers,
                },
                extensions={} if url.scheme == "http" else {"sni_hostname": url.raw_host.decode("ascii")},
            )
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                data, whole = await _read(response)
            finally:
                await response.aclose()
        return Answer(response.status_code, url, response.headers, data, whole)

    async def _tls_context(self) -> ssl.SSLContext:
        import httpx2

        if self._tls is None:
            self._tls = await anyio.to_thread.run_sync(httpx2.create_ssl_context)
        return self._tls


def tools(
    *, root: str | os.PathLike[str] = ".", hosts: Iterable[str] = (), allow_private: bool = False, **_: Any
) -> list[Tool]:
    """The tools ``http_get`` and ``http_post``, for the allowed ``hosts`` only (see :class:`Hosts` for what to write).

    Addresses that are not public are refused unless ``allow_private``. Raises ``ValueError`` for a bad entry.
    """
    http = Http(Hosts(hosts, allow_private=allow_private))
    return [
        tool(effect=_get_effect, timeout=SECONDS + 5, idempotent=True, max_output=MAX_TEXT + 2_000)(http.http_get),
        tool(effect=_post_effect, timeout=SECONDS + 5, dangerous=True, max_output=MAX_TEXT + 2_000)(http.http_post),
    ]


def _get_effect(url: str, **_: Any) -> Effect:
    return reads(f"http:{urlsplit(url).hostname}")


def _post_effect(url: str, **_: Any) -> Effect:
    return writes(f"http:{urlsplit(url).hostname}")


def _place(url: httpx2.URL) -> tuple[str, int]:
    host = url.raw_host.decode("ascii").lower().rstrip(".")
    return host, DEFAULT_PORTS[url.scheme] if url.port is None else url.port


def _joined(answer: Answer) -> httpx2.URL:
    import httpx2

    try:
        return answer.url.join(answer.headers["location"])
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError("the server redirects to something that is not a URL") from error


async def _read(response: httpx2.Response) -> tuple[bytes, bool]:
    """The body as far as it is read, and whether that is all of it."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ToolError("the server sent a compressed answer, which was not asked for")  # it could be of any size
    data = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > MAX_BODY:
                return bytes(data[:MAX_BODY]), False
    return bytes(data), True


def _failure(method: str, host: str, error: Exception) -> Exception:
    """What a broken connection is to the caller: worth another try only if that cannot do a thing twice."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ToolError(f"the certificate of {host} cannot be trusted: {cause.verify_message}")
        cause = cause.__cause__ or cause.__context__
    if method == "GET":
        return Transient(f"no answer from {host}: {type(error).__name__}")
    return ToolError(
        f"no answer from {host}: {type(error).__name__}",
        hint="it is not known whether the request arrived; check before sending it again",
    )


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolError("the body is not valid Unicode text") from None
    if len(data) > 4 * MAX_SENT:
        raise ToolError(f"the body is {len(data):,} bytes long; too long to send")
    return data
