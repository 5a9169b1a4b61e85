"""Tokens, sessions and who is let in: what is pure of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.standing import HOST, ORIGIN, Stored, knock, standing
from watchkeeper.errors import ConfigurationError
from watchkeeper.service.access import (
    COOKIE,
    IMPLIED,
    NOBODY,
    RIGHTS,
    SOCKET,
    Door,
    Head,
    Principal,
    Refusal,
    admit,
    principal,
)
from watchkeeper.service.listening import Bind, door_of
from watchkeeper.service.sessions import LASTS, MOST, Sessions, cookie
from watchkeeper.service.tokens import BYTES, KNOWN_FOR, Keyring, Token, hashed, matching, mint

TCP = Door(hosts=frozenset({HOST}))
ADMIN = principal("me", ("admin",), "token")
WORDS = st.text(max_size=30)


def nobody(secret: str) -> None:
    return None


def test_scopes_imply_what_they_must_and_no_more() -> None:
    assert {scope: set(IMPLIED[scope]) for scope in RIGHTS} == {
        "read": {"read"},
        "run": {"read", "run"},
        "approve": {"read", "approve"},
        "admin": {"read", "run", "approve", "admin"},
    }


@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT"]),
    path=st.one_of(st.just("/v1/runs"), WORDS.map(lambda text: f"/{text}")),
    query=WORDS,
    host=st.lists(st.one_of(st.just(HOST), WORDS), max_size=2).map(tuple),
    origin=st.lists(st.one_of(st.just(ORIGIN), WORDS), max_size=2).map(tuple),
    authorization=st.lists(WORDS, max_size=2).map(tuple),
    cookie=st.lists(st.one_of(WORDS, WORDS.map(lambda text: f"{COOKIE}={text}")), max_size=2).map(tuple),
    site=st.lists(WORDS, max_size=1).map(tuple),
    length=st.lists(WORDS, max_size=2).map(tuple),
)
def test_nobody_gets_in_over_tcp_without_a_credential_that_is_known(
    method: str,
    path: str,
    query: str,
    host: tuple[str, ...],
    origin: tuple[str, ...],
    authorization: tuple[str, ...],
    cookie: tuple[str, ...],
    site: tuple[str, ...],
    length: tuple[str, ...],
) -> None:
    head = Head(method, path, query, "http", host, origin, authorization, cookie, site, (), length)
    found = admit(head, TCP, token=nobody, session=nobody)
    assert isinstance(found, Refusal) or found == NOBODY
    known = admit(head, TCP, token=lambda secret: ADMIN, session=nobody)
    if isinstance(known, Principal) and known != NOBODY:
        assert host == (HOST,)
        assert origin in ((), (ORIGIN,))
        assert len(authorization) == 1


def test_the_socket_is_the_door() -> None:
    head = Head("POST", "/v1/stop-all", host=("localhost",))
    assert admit(head, Door(local=True), token=nobody, session=nobody) == SOCKET
    with_token = msgspec.structs.replace(head, authorization=("Bearer x",))
    assert isinstance(admit(with_token, Door(local=True), token=nobody, session=nobody), Refusal)
    assert admit(with_token, Door(local=True), token=lambda secret: ADMIN, session=nobody) == ADMIN
    page = msgspec.structs.replace(head, origin=("http://evil.example",))
    assert isinstance(admit(page, Door(local=True), token=nobody, session=nobody), Refusal)


def test_a_cookie_counts_where_the_request_is_of_our_own_page() -> None:
    mine = principal("me", ("run",), "cookie")

    def session(value: str) -> Principal | None:
        return mine if value == "good" else None

    head = Head("POST", "/v1/stop-all", host=(HOST,), cookie=(f"theme=dark; {COOKIE}=good",))
    without = admit(head, TCP, token=nobody, session=session)
    assert isinstance(without, Refusal)
    assert without.status == 403
    assert admit(msgspec.structs.replace(head, origin=(ORIGIN,)), TCP, token=nobody, session=session) == mine
    looks = msgspec.structs.replace(head, method="GET", path="/v1/runs")
    assert admit(looks, TCP, token=nobody, session=session) == mine
    bad = msgspec.structs.replace(looks, authorization=("Bearer x",))
    assert isinstance(admit(bad, TCP, token=nobody, session=session), Refusal), "no cookie makes it good"


@given(st.binary(min_size=BYTES, max_size=BYTES), st.binary(min_size=BYTES, max_size=BYTES))
def test_a_secret_is_known_by_its_hash_alone(first: bytes, second: bytes) -> None:
    secret, token = mint("one", ["run"], first, 1.0)
    other, another = mint("two", ["read", "read"], second, 2.0)
    assert secret not in repr(token)
    assert token.hash == hashed(secret)
    assert another.scopes == ("read",)
    assert matching(secret, [another, token]) in ((token,) if first != second else (token, another))
    assert matching(token.hash, [token]) is None
    assert (matching(other, [token]) is None) == (first != second)


@pytest.mark.parametrize(
    ("name", "scopes", "random"),
    [("", ["run"], b"x" * 32), ("a b", ["run"], b"x" * 32), ("a", [], b"x" * 32), ("a", ["run"], b"short")],
)
def test_a_token_that_cannot_be_is_not_made(name: str, scopes: list[str], random: bytes) -> None:
    with pytest.raises(ValueError, match=r"token|secret"):
        mint(name, scopes, random, 0.0)  # type: ignore[arg-type]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_token_that_is_taken_back_is_known_for_a_second_at_most() -> None:
    clock, store = Clock(), Stored()
    keyring = Keyring(store, clock)
    secret = store.secrets["run"]
    found = keyring.principal(secret)
    assert found is not None
    assert (found.name, found.may("run"), found.may("approve")) == ("run", True, False)
    store.remove_token("run")
    clock.now = KNOWN_FOR
    assert keyring.principal(secret) is None
    assert Keyring(None).principal(secret) is None


def test_a_session_ends_with_its_time_its_token_or_by_itself() -> None:
    clock, store = Clock(), Stored()
    sessions = Sessions(Keyring(store, clock), clock)
    assert sessions.begin("wk_" + "A" * 43) is None

    def begun(name: str) -> str:
        found = sessions.begin(store.secrets[name])
        assert found is not None
        return found[0]

    one, two, three = begun("run"), begun("read"), begun("admin")
    who = sessions.principal(one)
    assert who is not None
    assert (who.name, who.how) == ("run", "cookie")
    sessions.end(one)
    sessions.end(one)
    assert sessions.principal(one) is None
    store.remove_token("read")
    clock.now = KNOWN_FOR
    assert sessions.principal(two) is None
    assert sessions.principal(three) is not None
    clock.now = LASTS
    assert sessions.principal(three) is None
    oldest = begun("run")
    for _ in range(MOST):
        begun("run")
    assert sessions.principal(oldest) is None
    assert all(one not in key for key in sessions._open), "what is kept of a cookie is its hash"


def test_a_cookie_is_for_our_own_pages_and_no_script() -> None:
    assert cookie("v", secure=True) == f"{COOKIE}=v; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"
    assert "Secure" not in cookie("v", secure=False)
    assert "Max-Age=0" in cookie("", secure=True)


@pytest.mark.anyio
async def test_a_browser_logs_in_works_and_logs_out() -> None:
    async with standing() as stands:
        body = msgspec.json.encode({"token": stands.store.secrets["run"]})
        sent = [("host", HOST), ("origin", ORIGIN), ("content-type", "application/json")]
        for scheme in ("https", "http"):
            reply = await knock(
                stands.tcp,
                "POST",
                "/v1/session",
                [*sent[:1], ("origin", f"{scheme}://{HOST}"), *sent[2:], ("content-length", str(len(body)))],
                body,
                scheme=scheme,
            )
            assert (reply.status, reply.json) == (200, {"name": "run", "scopes": ["read", "run"]})
            header = reply.header("set-cookie") or ""
            assert ("Secure" in header) == (scheme == "https")
        kept = header.partition(";")[0]
        with_cookie = [*sent[:2], ("cookie", kept)]
        runs = await knock(stands.tcp, "GET", "/v1/runs", with_cookie)
        assert runs.status == 200
        assert (await knock(stands.tcp, "GET", "/v1/session", with_cookie)).json["name"] == "run"
        paused = await knock(stands.tcp, "POST", "/v1/runs/one/pause", with_cookie)
        assert paused.status == 202
        denied = await knock(stands.tcp, "GET", "/v1/workers/x/stack", with_cookie)
        assert denied.status == 403
        out = await knock(stands.tcp, "DELETE", "/v1/session", with_cookie)
        assert out.status == 204
        assert (await knock(stands.tcp, "GET", "/v1/runs", with_cookie)).status == 401


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("unix:/run/w/api.sock", Bind(path="/run/w/api.sock")),
        ("127.0.0.1:8700", Bind(host="127.0.0.1", port=8700)),
        ("[::1]:0", Bind(host="::1", port=0)),
        ("host.example:80", Bind(host="host.example", port=80)),
    ],
)
def test_addresses_are_read_and_written(text: str, bind: Bind) -> None:
    assert Bind.parse(text) == bind
    assert str(bind) == text


@pytest.mark.parametrize("text", ["", "unix:", "unix:/" + "x" * 107, "8700", "host:", ":80", "host:x", "host:70000"])
def test_addresses_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"unix|address"):
        Bind.parse(text)


def test_a_socket_without_a_path_is_the_default_one() -> None:
    assert Bind.parse("unix:", Path("/state/api.sock")) == Bind(path="/state/api.sock")
    assert Bind.parse("unix:here/api.sock") == Bind(path=str(Path("here/api.sock").absolute()))


def test_a_door_is_known_by_its_own_names() -> None:
    assert door_of(Bind(path="/x")).local
    assert door_of(Bind(host="127.0.0.1", port=8)).hosts == {"127.0.0.1:8", "localhost:8", "[::1]:8"}
    outside = door_of(Bind(host="10.0.0.7", port=8), ["Watch.Example"])
    assert outside.hosts == {"10.0.0.7:8", "watch.example"}
    assert not outside.local
    assert Token("a", "b", ("read",), 0.0).scopes == ("read",)
