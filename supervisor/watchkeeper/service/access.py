"""Who is let in to the HTTP interface, and with which scopes. Pure: it looks at the head of a request and decides.

On the Unix socket the folder is the door: whoever can open it has all scopes. On TCP nobody has any without a token. A
browser shows that it is of our own page by its host, its origin and a cookie that no other site can send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, get_args

import msgspec

Right = Literal["read", "run", "approve", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
IMPLIED: dict[Right, frozenset[Right]] = {
    "read": frozenset({"read"}),
    "run": frozenset({"read", "run"}),
    "approve": frozenset({"read", "approve"}),
    "admin": frozenset(RIGHTS),
}
"""What a scope allows: who may do something may look at it, and ``admin`` may do everything."""

COOKIE = "watchkeeper_session"
OPEN = frozenset({("GET", "/"), ("GET", "/livez"), ("GET", "/readyz"), ("POST", "/v1/session")})
"""What is answered without a credential: the page and its files, which hold nothing of any run, whether the process
lives, and the exchange of a token for a cookie."""
STATIC = "/static/"
PROBES = frozenset({"/livez", "/readyz"})
"""Asked by machines that know the address only: under any name of the host."""
LONGEST_TARGET = 4096
"""Bytes of path and query."""
LARGEST_BODY = 8 * 1024 * 1024
"""Bytes of a request's body: a run may be given an earlier conversation."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_SECRET = re.compile(r"wk_[A-Za-z0-9_-]{20,}|(?:^|&)(?:access_)?token=", re.IGNORECASE)
_PATH = re.compile(r"(?:/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%-]*)+")
_ESCAPED = re.compile(r"%(?:2f|5c|2e|00|0a|0d)", re.IGNORECASE)


class Principal(msgspec.Struct, frozen=True):
    """Who asks: the name of a token, or empty on the Unix socket, and what they may do."""

    name: str
    scopes: frozenset[Right]
    how: Literal["socket", "token", "cookie", "nobody"]

    def may(self, right: Right) -> bool:
        return right in self.scopes


def principal(name: str, scopes: Iterable[Right], how: Literal["socket", "token", "cookie", "nobody"]) -> Principal:
    """With everything that the scopes imply."""
    return Principal(name, frozenset().union(*(IMPLIED[scope] for scope in scopes)), how)


SOCKET = principal("", ("admin",), "socket")
NOBODY = Principal("", frozenset(), "nobody")


class Refusal(msgspec.Struct, frozen=True):
    status: int
    detail: str


class Head(msgspec.Struct, frozen=True):
    """What a request says of itself before its body. Headers that may come once are tuples of all that came."""

    method: str
    path: str
    """As it was sent, still escaped."""
    query: str = ""
    scheme: str = "http"
    host: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    authorization: tuple[str, ...] = ()
    cookie: tuple[str, ...] = ()
    fetch_site: tuple[str, ...] = ()
    content_type: tuple[str, ...] = ()
    content_length: tuple[str, ...] = ()
    chunked: bool = False

    @property
    def has_body(self) -> bool:
        return self.chunked or self.content_length not in ((), ("0",))


class Door(msgspec.Struct, frozen=True):
    """One listening address: ``local`` for the Unix socket; ``hosts`` are the names by which it may be called."""

    local: bool = False
    hosts: frozenset[str] = frozenset()
    """``name`` for the default port of the scheme, else ``name:port``; lower case."""


Known = Callable[[str], Principal | None]
"""Whose token, or whose session, that is."""


def admit(head: Head, door: Door, *, token: Known, session: Known) -> Principal | Refusal:
    """Who this is, or why they are not let in. What the principal may do is the affair of the single route."""
    return (
        _malformed(head)
        or _misdirected(head, door)
        or _foreign(head, door)
        or _body_refused(head)
        or _known(head, door, token, session)
    )


def _malformed(head: Head) -> Refusal | None:
    if len(head.path) + len(head.query) > LONGEST_TARGET:
        return Refusal(414, f"path and query are longer than {LONGEST_TARGET} bytes")
    plain = _PATH.fullmatch(head.path) and not _ESCAPED.search(head.path)
    if not plain or any(part in (".", "..") for part in head.path.split("/")):
        return Refusal(400, "the path has empty or dot segments, or characters that no path of this service has")
    if _SECRET.search(head.query) or _SECRET.search(head.path):
        return Refusal(
            400,
            "a token does not belong into an address, where logs keep it: send it as Authorization: Bearer, "
            "and replace this one",
        )
    for name, values in (
        ("Host", head.host),
        ("Origin", head.origin),
        ("Authorization", head.authorization),
        ("Content-Type", head.content_type),
        ("Content-Length", head.content_length),
    ):
        if len(values) > 1:
            return Refusal(400, f"the header {name} came {len(values)} times")
    return None


def _misdirected(head: Head, door: Door) -> Refusal | None:
    if not head.host or not head.host[0]:
        return Refusal(400, "the header Host is missing")
    if door.local or head.path in PROBES or _bare(head.host[0], head.scheme) in door.hosts:
        return None
    return Refusal(421, "this service is not known by that name; more names are given by the setting service.hosts")


def _foreign(head: Head, door: Door) -> Refusal | None:
    if head.origin:
        scheme, _, host = head.origin[0].partition("://")
        ours = scheme in ("http", "https") and (
            _bare(host, scheme) == _bare(head.host[0], head.scheme) if door.local else _bare(host, scheme) in door.hosts
        )
        if not ours:
            return Refusal(403, "the request comes from a page of another origin")
    navigates = head.method == "GET" and head.path == "/"
    if any(site.strip().lower() in ("cross-site", "same-site") for site in head.fetch_site) and not navigates:
        return Refusal(403, "the request comes from a page of another site")
    return None


def _body_refused(head: Head) -> Refusal | None:
    length = head.content_length[0] if head.content_length else "0"
    if not (length.isascii() and length.isdigit()):
        return Refusal(400, "the header Content-Length is no number")
    if len(length) > 12 or int(length) > LARGEST_BODY:
        return Refusal(413, f"the body is larger than {LARGEST_BODY} bytes")
    if head.method in SAFE or not head.has_body:
        return None
    kind = head.content_type[0].partition(";")[0].strip().lower() if head.content_type else ""
    if kind != "application/json":
        return Refusal(415, "a body is JSON: send it with Content-Type: application/json")
    return None


def _known(head: Head, door: Door, token: Known, session: Known) -> Principal | Refusal:
    if (head.method, head.path) in OPEN or (head.method == "GET" and head.path.startswith(STATIC)):
        return SOCKET if door.local and not head.authorization else NOBODY
    if head.authorization:
        scheme, _, secret = head.authorization[0].partition(" ")
        found = token(secret.strip()) if scheme.lower() == "bearer" else None
        return found or Refusal(401, "the token is not known, or has been taken back")
    if door.local:
        return SOCKET
    cookie = _cookie(head.cookie)
    if not cookie:
        return Refusal(401, "a token is needed: send it as Authorization: Bearer, or open the page and give it there")
    found = session(cookie)
    if found is None:
        return Refusal(401, "the session is over: give the token once more")
    if head.method not in SAFE and not head.origin:
        return Refusal(403, "a request with a cookie says by its header Origin which page it comes from")
    return found


def _cookie(headers: tuple[str, ...]) -> str:
    """The one value of our cookie; empty if there is none, or more than one."""
    found = [
        value
        for header in headers
        for part in header.split(";")
        for name, _, value in (part.strip().partition("="),)
        if name == COOKIE
    ]
    return found[0] if len(found) == 1 else ""


def _bare(host: str, scheme: str) -> str:
    """A host in lower case, without the port that goes without saying."""
    return host.strip().lower().removesuffix(":443" if scheme == "https" else ":80")
