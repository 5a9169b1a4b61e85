"""One plain question to the service, for what is no engine's business: its workers and its health."""

from __future__ import annotations

import os
import socket
from typing import TypeVar

import msgspec

from .exits import FAILED, UNREACHABLE, CommandError
from .finding import TOKEN, URL

T = TypeVar("T")
SECONDS = 10.0
LARGEST = 16 << 20
"""Bytes of an answer; a service of ours gives less than a megabyte."""


def ask(path: str) -> tuple[int, bytes]:
    """Status and body. Asks the service that ``WATCHKEEPER_URL`` names, else this machine's own. Raises
    :class:`CommandError` if none answers."""
    import httpx2

    from ..service.places import Places

    url, path_of_socket = os.environ.get(URL, "").strip(), ""
    if not url or url.startswith("unix:"):
        path_of_socket = url.removeprefix("unix:") or str(Places.of().service.api_socket)
    token = os.environ.get(TOKEN, "")
    try:
        if path_of_socket:  # first by hand: the library forgets to close a socket that is refused
            with socket.socket(socket.AF_UNIX) as trying:
                trying.settimeout(SECONDS)
                trying.connect(path_of_socket)
        with (
            httpx2.Client(
                base_url="http://localhost" if path_of_socket else url,
                transport=httpx2.HTTPTransport(uds=path_of_socket or None),
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=SECONDS,
                trust_env=False,
                follow_redirects=False,
            ) as client,
            client.stream("GET", path) as response,
        ):
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > LARGEST:
                    raise CommandError(f"what answers at {url or path_of_socket} is no service of ours", UNREACHABLE)
            return response.status_code, body
    except (httpx2.TransportError, httpx2.InvalidURL, OSError) as error:
        raise CommandError(
            f"no service answers at {url or f'unix:{path_of_socket}'}: {error or type(error).__name__}; start one with "
            "watchkeeper serve",
            UNREACHABLE,
        ) from error


def asked(path: str, kind: type[T]) -> T:
    """The answer as ``kind``. Raises :class:`CommandError` where there is none, with what the service says."""
    status, body = ask(path)
    if status != 200:
        raise CommandError(told_by(status, body), FAILED)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CommandError(f"the service gives another answer than it should: {error}", UNREACHABLE) from error


def told_by(status: int, body: bytes) -> str:
    """What a refusal says of itself."""
    try:
        found = msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError:
        found = {}
    return str(found.get("detail") or f"the service answers {status}")[:1000]
