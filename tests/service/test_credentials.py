"""Tokens over HTTP: made, listed and taken back, with a secret that is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.standing import HOST, ORIGIN, Reply, Standing, knock, standing
from watchkeeper.service import credentials
from watchkeeper.service.access import Door
from watchkeeper.service.app import Service
from watchkeeper.service.sessions import COOKIE
from watchkeeper.service.tokenfile import TokenFile

pytestmark = pytest.mark.anyio


async def knocked(stands: Standing, secret: str) -> int:
    headers = [("host", HOST), ("authorization", f"Bearer {secret}")]
    return (await knock(stands.tcp, "GET", "/v1/runs", headers)).status


async def test_a_token_is_made_shown_once_used_and_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    async with standing() as stands:
        made = await stands.ask("POST", "/v1/tokens", {"name": "dashboard", "scopes": ["run", "run", "approve"]})
        assert made.status == 201
        assert made.header("cache-control") == "no-store"
        secret = made.json["token"]
        assert (made.json["name"], made.json["scopes"]) == ("dashboard", ["run", "approve"])
        assert await knocked(stands, secret) == 200, "at once"

        listed = await stands.ask("GET", "/v1/tokens")
        assert [one["name"] for one in listed.json["tokens"]] == ["admin", "approve", "dashboard", "read", "run"]
        assert all(one.keys() == {"name", "scopes", "created"} for one in listed.json["tokens"])
        hashes = [token.hash for token in stands.store.kept]
        assert all(told not in listed.body.decode() for told in [secret, *stands.store.secrets.values(), *hashes])

        login = await knock(
            stands.tcp,
            "POST",
            "/v1/session",
            [("host", HOST), ("origin", ORIGIN), ("content-type", "application/json")],
            b'{"token":"%b"}' % secret.encode(),
        )
        cookie = (login.header("set-cookie") or "").partition(";")[0]
        assert cookie.startswith(COOKIE)
        looked = [("host", HOST), ("cookie", cookie)]
        assert (await knock(stands.tcp, "GET", "/v1/runs", looked)).status == 200

        gone = await stands.ask("DELETE", "/v1/tokens/dashboard")
        assert (gone.status, gone.body) == (204, b"")
        assert await knocked(stands, secret) == 401, "at once"
        assert (await knock(stands.tcp, "GET", "/v1/runs", looked)).status == 401
        assert (await stands.ask("DELETE", "/v1/tokens/dashboard")).status == 404
    said = capsys.readouterr()
    assert "token_made" in said.err
    assert "token_taken_back" in said.err
    assert secret not in said.out + said.err


async def test_a_name_is_one_tokens_and_there_is_an_end_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async with standing() as stands:
        assert (await stands.ask("POST", "/v1/tokens", {"name": "new"})).json["scopes"] == ["read"]
        twice = await stands.ask("POST", "/v1/tokens", {"name": "new", "scopes": ["admin"]})
        assert (twice.status, twice.json["type"]) == (409, "urn:watchkeeper:name-taken")
        assert "token" not in twice.json
        monkeypatch.setattr(credentials, "MOST", len(stands.store.kept))
        many = await stands.ask("POST", "/v1/tokens", {"name": "more"})
        assert (many.status, many.json["type"]) == (409, "urn:watchkeeper:too-many-tokens")


async def test_they_are_kept_in_the_control_file(tmp_path: Path) -> None:
    store = TokenFile(tmp_path)
    async with standing() as stands, Service(stands.engine, tokens=store) as service:
        local = service.door(Door(local=True))

        async def ask(method: str, target: str, body: bytes = b"") -> Reply:
            kind = [("content-type", "application/json")] if body else []
            return await knock(local, method, target, [("host", "localhost"), *kind], body)

        made = await ask("POST", "/v1/tokens", b'{"name":"ops","scopes":["admin"]}')
        assert made.status == 201
        (kept,) = store.tokens()
        assert (kept.name, kept.scopes) == ("ops", ("admin",))
        assert (await ask("POST", "/v1/tokens", b'{"name":"ops"}')).status == 409
        assert (await ask("DELETE", "/v1/tokens/ops")).status == 204
        assert store.tokens() == []
    store.close()
    secret = made.json["token"].encode()
    assert all(secret not in path.read_bytes() for path in tmp_path.glob("**/*") if path.is_file())


async def test_a_service_without_a_store_says_so() -> None:
    async with standing() as stands, Service(stands.engine) as service:
        local = service.door(Door(local=True))
        reply = await knock(local, "GET", "/v1/tokens", [("host", "localhost")])
        assert (reply.status, reply.json["type"]) == (404, "urn:watchkeeper:no-tokens")
