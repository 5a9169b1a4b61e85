"""Requests that must be refused, each with its status, and that nothing has happened: over TCP, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from service.standing import HASH, HOST, ORIGIN, Standing, Stored, knock, standing
from watchkeeper.service.access import LARGEST_BODY
from watchkeeper.service.sessions import COOKIE

pytestmark = pytest.mark.anyio

JSON = "application/json"
SECRETS = Stored().secrets
"""Made of fixed bytes: the same in each test."""
GOOD = {
    ("POST", "/v1/runs"): b'{"agent":"clerk","task":"x"}',
    ("POST", "/v1/runs/one/cancel"): b'{"mode":"kill"}',
    ("POST", "/v1/runs/one/pause"): b"{}",
    ("POST", "/v1/runs/one/resume"): b"{}",
    ("POST", "/v1/runs/one/steer"): b'{"text":"hello"}',
    ("POST", "/v1/runs/one/budget"): b'{"amounts":{"turns":1}}',
    ("POST", "/v1/runs/one/hand-over"): b"{}",
    ("POST", "/v1/runs/cancel"): b'{"filter":{"agent":"clerk"}}',
    ("POST", "/v1/stop-all"): b"{}",
    ("POST", "/v1/approvals/a1"): b'{"run":"one","decision":"approve","arguments_hash":"%b"}' % HASH.encode(),
    ("POST", "/v1/tokens"): b'{"name":"new","scopes":["admin"]}',
}
"""What changes something, with bodies that would be taken from somebody who may."""
GOODBYES = (("DELETE", "/v1/tokens/run"), ("DELETE", "/v1/session"))
LOOKS = (
    "/v1/runs",
    "/v1/runs/one",
    "/v1/runs/one/tree",
    "/v1/runs/one/result",
    "/v1/runs/one/timeline",
    "/v1/runs/one/events",
    "/v1/runs/one/commands/c1",
    "/v1/approvals",
    "/v1/events",
    "/v1/policies",
    "/v1/budgets",
    "/v1/workers",
    "/v1/workers/main/stack",
    "/v1/tokens",
    "/v1/stats",
    "/v1/session",
    "/version",
    "/metrics",
    "/openapi.json",
)
ADDRESSES = (*(("GET", path) for path in LOOKS), *GOOD, *GOODBYES)


def needed(path: str) -> str:
    """The scope for what changes something, and for what not everybody with a token may look at."""
    if "tokens" in path or path.endswith("/stack"):
        return "admin"
    return "approve" if "approvals" in path else "run"


class Case(NamedTuple):
    why: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    status: int
    told: str
    """Part of the detail."""


def case(
    why: str,
    address: tuple[str, str],
    status: int,
    told: str,
    *headers: tuple[str, str],
    body: bytes | None = None,
    token: str | None = "admin",
    host: str | None = HOST,
    kind: str | None = JSON,
    length: str | None = None,
) -> Case:
    """A request that is good but for what is said of it."""
    method, target = address
    body = GOOD.get(address, b"") if body is None else body
    sent = list(headers)
    names = {name for name, _ in headers}
    if host is not None and "host" not in names:
        sent.append(("host", host))
    if token is not None and "authorization" not in names:
        sent.append(("authorization", f"Bearer {SECRETS[token]}"))
    if body:
        sent.append(("content-length", length or str(len(body))))
        if kind is not None and "content-type" not in names:
            sent.append(("content-type", kind))
    return Case(why, method, target, tuple(sent), body, status, told)


def without_a_credential() -> Iterator[Case]:
    for address in ADDRESSES:
        yield case("nothing", address, 401, "a token is needed", token=None)
    known = SECRETS["admin"]
    bad = {
        "Basic": f"Basic {known}",
        "no scheme": known,
        "another": "Bearer wk_" + "A" * 43,
        "cut": f"Bearer {known[:-1]}",
        "longer": f"Bearer {known}A",
        "upper case": f"Bearer {known.upper()}",
        "empty": "Bearer ",
        "hash": f"Bearer {Stored().kept[3].hash}",
        "sql": "Bearer ' OR 1=1 --",
        "two at once": f"Bearer {known}, Bearer {known}",
    }
    for why, value in bad.items():
        for address in (("GET", "/v1/runs"), ("POST", "/v1/stop-all"), ("POST", "/v1/approvals/a1")):
            yield case(f"token: {why}", address, 401, "not known", ("authorization", value))
    yield case(
        "two headers",
        ("GET", "/v1/runs"),
        400,
        "Authorization came 2 times",
        ("authorization", f"Bearer {known}"),
        ("authorization", "Bearer x"),
    )
    for address in ADDRESSES[:8]:
        yield case("in the query", (address[0], f"{address[1]}?token={known}"), 400, "Authorization", token=None)
    yield case("access_token", ("GET", "/v1/runs?limit=1&access_token=x"), 400, "address", token=None)
    yield case("in the path", ("GET", f"/v1/runs/{known}"), 400, "address")


def without_the_scope() -> Iterator[Case]:
    for address in (*GOOD, GOODBYES[0], ("GET", "/v1/tokens"), ("GET", "/v1/workers/main/stack")):
        needs = needed(address[1])
        for token in {"read", "run", "approve"} - {needs}:
            yield case(f"token {token}", address, 403, f"scope {needs}", token=token)


def under_another_name() -> Iterator[Case]:
    hosts = (
        "evil.example",
        "watch.example",
        "watch.example:80",
        "watch.example:8701",
        f"{HOST}.evil.example",
        f"evil.example#{HOST}",
        f"{HOST}@evil.example",
        "watch.example:8700:8700",
        "127.0.0.1:8700",
        "[::1]:8700",
        "localhost",
        "*",
    )
    for host in hosts:
        for address in (("GET", "/v1/runs"), ("POST", "/v1/stop-all"), ("GET", "/"), ("POST", "/v1/session")):
            body = b'{"token":"x"}' if address[1] == "/v1/session" else None
            yield case(f"host {host}", address, 421, "not known by that name", host=host, body=body)
    yield case("no host", ("POST", "/v1/stop-all"), 400, "Host is missing", host=None)
    yield case("empty host", ("POST", "/v1/stop-all"), 400, "Host is missing", host="")
    yield case("two hosts", ("POST", "/v1/stop-all"), 400, "came 2 times", ("host", HOST), ("host", "evil.example"))


def from_elsewhere() -> Iterator[Case]:
    origins = (
        "http://evil.example",
        "https://evil.example:8700",
        "null",
        "",
        "file://",
        f"http://{HOST}.evil.example",
        f"ftp://{HOST}",
        HOST,
        "http://watch.example",
        f"http://user@{HOST}",
    )
    for origin in origins:
        for address in (("POST", "/v1/stop-all"), ("POST", "/v1/runs"), ("GET", "/v1/approvals")):
            yield case(f"origin {origin!r}", address, 403, "another origin", ("origin", origin))
        yield case(
            f"login from {origin!r}",
            ("POST", "/v1/session"),
            403,
            "another origin",
            ("origin", origin),
            body=b'{"token":"%b"}' % SECRETS["admin"].encode(),
            token=None,
        )
    for site in ("cross-site", "same-site", "Cross-Site"):
        for address in (("POST", "/v1/stop-all"), ("GET", "/v1/runs"), ("GET", "/v1/events")):
            yield case(f"fetched {site}", address, 403, "another site", ("sec-fetch-site", site))
    yield case(
        "two origins",
        ("POST", "/v1/stop-all"),
        400,
        "came 2 times",
        ("origin", ORIGIN),
        ("origin", "http://evil.example"),
    )


def with_another_body() -> Iterator[Case]:
    kinds = (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/json-patch+json",
        "text/json",
        "",
    )
    for kind in kinds:
        for address in list(GOOD)[::2]:
            yield case(f"as {kind or 'nothing'}", address, 415, "application/json", kind=kind or None)
    bodies = {
        "not JSON": b"{",
        "a list": b"[1]",
        "a text": b'"x"',
        "a number": b"1",
        "not UTF-8": b'{"agent":"\xff"}',
        "deep": b"[" * 5_000 + b"]" * 5_000,
        "two values": b"{}{}",
        "an unknown field": b'{"agent":"a","task":"t","filter":{"agent":"a"},"text":"t","sudo":true}',
    }
    for why, body in bodies.items():
        for address in GOOD:
            yield case(f"body: {why}", address, 400, "", body=body)
    wrong = {
        "/v1/runs": (
            b'{"agent":"","task":"x"}',
            b'{"agent":"a"}',
            b'{"agent":1,"task":"x"}',
            b'{"agent":"a","task":"x","labels":{"":"x"}}',
            b'{"agent":"a","task":"x","mode":"sudo"}',
            b'{"agent":"a","task":"x","attended":"yes"}',
            b'{"agent":"a","task":"x","history":[{"role":"root","content":""}]}',
        ),
        "/v1/runs/one/cancel": (
            b'{"mode":"later"}',
            b'{"reason":1}',
            b'{"tree":false}',
            b'{"reason":"%b"}' % (b"x" * 501),
        ),
        "/v1/runs/one/pause": (b'{"seconds":0}', b'{"seconds":-1}', b'{"seconds":1e300}'),
        "/v1/runs/one/steer": (b"{}", b'{"text":""}', b'{"text":null}', b'{"text":"%b"}' % (b"x" * 100_001)),
        "/v1/runs/one/budget": (
            b'{"amounts":{}}',
            b'{"amounts":{"turns":0}}',
            b'{"amounts":{"turns":-5}}',
            b'{"amounts":{"turns":1e999}}',
            b'{"amounts":{"turns":NaN}}',
        ),
        "/v1/runs/cancel": (
            b"{}",
            b'{"filter":{}}',
            b'{"filter":{"states":["up"]}}',
            b'{"filter":{"agents":"a"}}',
            b'{"filter":{"runs":"one"}}',
            b'{"filter":{"runs":null}}',
            b'{"filter":{"runs":["%b"]}}' % (b"x" * 201),
            b'{"filter":{"runs":["one"]},"wait":61}',
            b'{"filter":{"runs":[%b"one"]}}' % (b'"",' * 20_000),
        ),
        "/v1/stop-all": (b'{"wait":61}', b'{"wait":-1}', b'{"dry_run":"no"}'),
        "/v1/approvals/a1": (
            b'{"run":"one","decision":"approve"}',
            b'{"run":"one","decision":"approve","arguments_hash":"abc"}',
            b'{"run":"one","decision":"maybe"}',
            b'{"run":"","decision":"deny"}',
            b'{"decision":"deny"}',
            b'{"run":"one","decision":"approve","arguments_hash":"%b","scope":"forever"}' % HASH.encode(),
        ),
        "/v1/tokens": (
            b"{}",
            b'{"name":""}',
            b'{"name":null}',
            b'{"name":"%b"}' % (b"x" * 65),
            b'{"name":"a b"}',
            b'{"name":"a/b"}',
            b'{"name":".."}',
            b'{"name":"a\\nb"}',
            b'{"name":"\\ud800"}',
            b'{"name":"<b>"}',
            b'{"name":"%b"}' % SECRETS["admin"].encode(),
            b'{"name":"%b"}' % SECRETS["admin"].upper().encode(),
            b'{"name":"new","scopes":[]}',
            b'{"name":"new","scopes":"admin"}',
            b'{"name":"new","scopes":["root"]}',
            b'{"name":"new","scopes":["read","read","read","read","read"]}',
            b'{"name":"new","token":"%b"}' % SECRETS["read"].encode(),
            b'{"name":"new","hash":"%b"}' % HASH.encode(),
        ),
    }
    for path, bodies_ in wrong.items():
        for body in bodies_:
            yield case(f"field: {body[:60].decode()}", ("POST", path), 400, "", body=body)
    yield case("a name twice", ("POST", "/v1/tokens"), 409, "there is a token read already", body=b'{"name":"read"}')
    for length in (str(LARGEST_BODY + 1), "9" * 40):
        yield case("too long", ("POST", "/v1/runs"), 413, "larger than", body=b"{}", length=length)
    for length in ("-1", "1e3", "x", "٣", "1, 2"):
        if length.isascii():
            yield case(f"length {length}", ("POST", "/v1/runs"), 400, "no number", body=b"{}", length=length)


def at_another_address() -> Iterator[Case]:
    for path in (
        "/v1/runs/..%2fone",
        "/v1/runs/%2e%2e/secret",
        "/v1/../v1/stop-all",
        "/v1/./runs",
        "/v1//runs",
        "//evil.example/v1/runs",
        "/static/../tokens.py",
        "/static/..%5ctokens.py",
        "/static/%2e%2e/tokens.py",
        "/v1/runs/one%00",
        "/v1/runs/one%0d%0aSet-Cookie:x",
        "/v1/runs/<script>",
        "/v1/runs/one\\",
        "v1/runs",
    ):
        yield case(f"path {path}", ("GET", path), 400, "segments")
    yield case("long", ("GET", "/v1/runs?agent=" + "x" * 5_000), 414, "longer")
    for path in ("/v1", "/v2/runs", "/admin", "/.env", "/v1/secrets", "/docs", "/schema", "/static/x.js"):
        yield case(f"nothing at {path}", ("GET", path), 404, "nothing")
    for method, path in (
        ("PUT", "/v1/runs"),
        ("DELETE", "/v1/runs/one"),
        ("PATCH", "/v1/runs/one"),
        ("GET", "/v1/stop-all"),
        ("POST", "/v1/approvals"),
        ("TRACE", "/v1/runs"),
        ("OPTIONS", "/v1/nothing"),
        ("DELETE", "/v1/approvals/a1"),
        ("DELETE", "/v1/tokens"),
        ("GET", "/v1/tokens/read"),
        ("PUT", "/v1/tokens/read"),
    ):
        yield case(f"{method} {path}", (method, path), 404 if "nothing" in path else 405, "")
    for path in ("/v1/runs/nobody", "/v1/runs/nobody/events", "/v1/runs/nobody/tree", "/v1/runs/one'--", "/v1/runs/*"):
        yield case(f"no run {path}", ("GET", path), 404, "no run")
    for name in ("nobody", "READ", "read'--", "*", "x" * 64, "%F0%9F%98%80"):
        yield case(f"no token {name}", ("DELETE", f"/v1/tokens/{name}"), 404, "no token")
    yield case("a long name", ("DELETE", f"/v1/tokens/{'x' * 65}"), 400, "")
    yield case("a secret as the name", ("DELETE", f"/v1/tokens/{SECRETS['run']}"), 400, "address")
    for action in ("cancel", "pause", "steer", "budget"):
        body = GOOD["POST", f"/v1/runs/one/{action}"]
        yield case(f"no run to {action}", ("POST", f"/v1/runs/nobody/{action}"), 404, "no run", body=body)


def with_other_parameters() -> Iterator[Case]:
    for query in (
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "state=up",
        "label=x",
        "label=:x",
        "before=nobody",
        "state=running&state=up",
    ):
        yield case(query, ("GET", f"/v1/runs?{query}"), 400, "")
    for query in ("after=-1", "after=x", "after=1.5", "after=99999999999999999999", "follow=maybe"):
        yield case(query, ("GET", f"/v1/runs/one/events?{query}"), 400, "")
    for last in ("x", "-1", "999", "1.0", "", "1\t2", "9" * 30, "0x1"):
        yield case(f"last id {last!r}", ("GET", "/v1/runs/one/events"), 400, "Last-Event-ID", ("last-event-id", last))
    for wait in ("61", "-1", "x", "inf", "nan"):
        yield case(f"wait {wait}", ("POST", f"/v1/runs/one/pause?wait={wait}"), 400, "", body=b"{}")
        yield case(f"wait {wait}", ("GET", f"/v1/runs/one/result?wait={wait}"), 400, "")
    yield case("a long key", ("POST", "/v1/runs/one/pause"), 400, "at most", ("idempotency-key", "x" * 401), body=b"{}")


def with_a_bad_login() -> Iterator[Case]:
    for body in (b'{"token":"x"}', b'{"token":""}', b'{"token":"wk_%b"}' % (b"A" * 43)):
        yield case("login", ("POST", "/v1/session"), 401, "not known", body=body, token=None)
    for body in (b"{}", b'{"token":1}', b'{"token":"%b"}' % (b"x" * 300), b'{"token":"x","name":"admin"}'):
        yield case("login", ("POST", "/v1/session"), 400, "", body=body, token=None)
    for value in ("", "x", SECRETS["admin"], "../../x", "x" * 1_000):
        yield case(f"cookie {value[:5]}", ("GET", "/v1/runs"), 401, "", ("cookie", f"{COOKIE}={value}"), token=None)
    yield case("two cookies", ("GET", "/v1/runs"), 401, "", ("cookie", f"{COOKIE}=a; {COOKIE}=b"), token=None)


CASES = [
    *without_a_credential(),
    *without_the_scope(),
    *under_another_name(),
    *from_elsewhere(),
    *with_another_body(),
    *at_another_address(),
    *with_other_parameters(),
    *with_a_bad_login(),
]


def test_there_are_many() -> None:
    different = {(case.method, case.target, case.headers, case.body) for case in CASES}
    assert len(different) >= 250
    assert len(different) == len(CASES)


@pytest.mark.parametrize("group", range(16))
async def test_they_are_refused_and_nothing_happens(group: int) -> None:
    async with standing() as stands:
        before = stands.seen()
        for one in CASES[group::16]:
            await _refused(stands, one)
            assert stands.seen() == before, f"{one.why}: {one.method} {one.target} has changed something"


async def _refused(stands: Standing, one: Case) -> None:
    reply = await knock(stands.tcp, one.method, one.target, one.headers, one.body)
    told = f"{one.why}: {one.method} {one.target[:100]}: {reply.status} {reply.body[:300]!r}"
    assert reply.status == one.status, told
    assert reply.header("content-type") == "application/problem+json", told
    problem = reply.json
    assert {"type", "title", "status", "detail"} <= problem.keys(), told
    assert problem["status"] == one.status
    assert one.told in problem["detail"], told
    assert reply.header("set-cookie") is None, told
    assert reply.header("content-security-policy"), told
    assert reply.header("cache-control") == "no-store", told
    assert all(secret not in reply.body.decode() for secret in SECRETS.values()), told
    if one.status == 401 and "session" not in one.target:
        assert (reply.header("www-authenticate") or "").startswith("Bearer"), told


async def test_what_is_refused_would_be_taken_from_who_may() -> None:
    """Else the refusals above would say nothing."""
    for (method, path), body in GOOD.items():
        async with standing() as stands:
            before = stands.seen()
            target = f"{path}?wait=0" if "approvals" in path else path
            reply = await stands.ask(method, target, body, token=needed(path))
            assert reply.status in (200, 201, 202), (path, reply.body)
            assert stands.seen() != before, path
    async with standing() as stands:
        before = stands.seen()
        assert (await stands.ask(*GOODBYES[0])).status == 204
        assert stands.seen() != before
        for path in LOOKS:
            if path in ("/v1/events", "/v1/runs/one/events"):
                continue
            token = "admin" if needed(path) == "admin" else "read"
            reply = await stands.ask("GET", path, token=token)
            assert reply.status in (200, 404), (path, reply.status)


async def test_a_body_that_says_nothing_of_its_length_is_cut_off() -> None:
    async with standing() as stands:
        before = stands.seen()
        headers = [
            ("host", HOST),
            ("authorization", f"Bearer {SECRETS['admin']}"),
            ("content-type", JSON),
            ("transfer-encoding", "chunked"),
        ]
        pieces = [b'{"agent":"a","task":"'] + [b"x" * 1_048_576] * 9 + [b'"}']
        reply = await knock(stands.tcp, "POST", "/v1/runs", headers, pieces)
        assert reply.status == 413
        assert stands.seen() == before


async def test_a_web_socket_is_turned_away() -> None:
    async with standing() as stands:
        sent: list[dict[str, object]] = []

        async def receive() -> dict[str, object]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        await stands.tcp({"type": "websocket", "path": "/v1/events", "headers": []}, receive, send)
        assert [message["type"] for message in sent] == ["websocket.close"]
