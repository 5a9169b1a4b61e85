"""The gate before the application: asks ``access`` about each request, and gives each response its security headers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from .access import Door, Head, Refusal, admit
from .desk import Desk

MEDIA_TYPE = b"application/problem+json"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing is loaded from elsewhere, and no text becomes HTML or script: without a policy for trusted types the browser
itself refuses it."""
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
UNCACHED = (b"cache-control", b"no-store")
"""What is told of runs is kept by nobody; files of the page say themselves how long they may be kept."""


class Gate:
    """One listening address of an application, which finds in the scope who asks and what it works with.

    Lifespan events pass; a web socket is turned away.
    """

    def __init__(self, app: Any, door: Door, desk: Desk) -> None:
        self._app = app
        self._door = door
        self._desk = desk

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message.get("headers", ())}
                added = [*HEADERS, *(() if UNCACHED[0] in names else (UNCACHED,))]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        found = admit(
            head_of(scope), self._door, token=self._desk.keyring.principal, session=self._desk.sessions.principal
        )
        if isinstance(found, Refusal):
            await _refuse(found, guarded)
            return
        await self._app({**scope, "principal": found, "desk": self._desk}, receive, guarded)


def head_of(scope: Any) -> Head:
    """The head of a request as ASGI tells it."""
    values: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def all_of(name: str) -> tuple[str, ...]:
        return tuple(values.get(name, ()))

    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    return Head(
        method=scope["method"],
        path=raw.decode("latin-1"),
        query=scope.get("query_string", b"").decode("latin-1"),
        scheme=scope.get("scheme", "http"),
        host=all_of("host"),
        origin=all_of("origin"),
        authorization=all_of("authorization"),
        cookie=all_of("cookie"),
        fetch_site=all_of("sec-fetch-site"),
        content_type=all_of("content-type"),
        content_length=all_of("content-length"),
        chunked="transfer-encoding" in values,
    )


async def _refuse(refusal: Refusal, send: Any) -> None:
    """Answer without a look at the body; the connection is closed, so that nothing of it is taken for a request."""
    body = msgspec.json.encode(
        {
            "type": "about:blank",
            "title": HTTPStatus(refusal.status).phrase,
            "status": refusal.status,
            "detail": refusal.detail,
        }
    )
    headers = [
        (b"content-type", MEDIA_TYPE),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="watchkeeper"'))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
