"""Tokens over HTTP, by the rules of ``watchkeeper token``: list them, make one, take one back. For scope ``admin``."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import anyio.to_thread
import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import JSONBody, PathParameter

from ..reports import report
from .access import RIGHTS, Right
from .desk import Desk, TheDesk, author
from .problems import Problem
from .tokens import BYTES, LONGEST_NAME, NAME, NameTaken, TokenStore, mint

MOST = 1_000
"""Tokens that this interface makes: each request with a token is compared with all there are."""

Name = Annotated[str, PathParameter(description="The token's name.", max_length=LONGEST_NAME)]


class TokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    """Whose it is; by it the token is listed and taken back."""
    scopes: Annotated[tuple[Right, ...], msgspec.Meta(min_length=1, max_length=len(RIGHTS))] = ("read",)


class ListedToken(msgspec.Struct, frozen=True):
    """A token as it is listed: neither its secret nor the hash of it."""

    name: str
    scopes: tuple[Right, ...]
    created: float
    """UTC, seconds since the epoch."""


class Tokens(msgspec.Struct, frozen=True):
    tokens: tuple[ListedToken, ...]


class MadeToken(ListedToken, frozen=True):
    token: str
    """The secret, this once: only a digest of it is kept."""


@get("/v1/tokens", opt={"right": "admin"}, tags=["tokens"])
async def listed(desk: TheDesk) -> Tokens:
    """The tokens there are, by name, without their secrets."""
    found = sorted(_store(desk).tokens(), key=lambda token: token.name)
    return Tokens(tuple(ListedToken(token.name, token.scopes, token.created) for token in found))


@post("/v1/tokens", opt={"right": "admin"}, tags=["tokens"], status_code=201)
async def make(request: Request[Any, Any, Any], desk: TheDesk, data: JSONBody[TokenBody]) -> MadeToken:
    """Make a token. The answer has its secret, which is never told again."""
    store = _store(desk)
    if len(store.tokens()) >= MOST:
        raise Problem(409, f"there are {MOST} tokens already; take some back", "too-many-tokens")
    try:
        secret, token = mint(data.name, data.scopes, secrets.token_bytes(BYTES), desk.clock())
        # Another process may be writing to the file: a thread waits for it.
        await anyio.to_thread.run_sync(store.add_token, token)
    except ValueError as error:
        raise Problem(400, str(error), "invalid") from error
    except NameTaken as error:
        raise Problem(409, str(error), "name-taken") from error
    finally:
        desk.keyring.forget()
    report("token_made", level="info", token=token.name, scopes=token.scopes, by=author(request))
    return MadeToken(token.name, token.scopes, token.created, secret)


@delete("/v1/tokens/{name:str}", opt={"right": "admin"}, tags=["tokens"], status_code=204)
async def take_back(request: Request[Any, Any, Any], desk: TheDesk, name: Name) -> Response[None]:
    """Take a token back: it is refused from now on, and so are the sessions that rest on it."""
    store = _store(desk)
    try:
        removed = NAME.fullmatch(name) is not None and await anyio.to_thread.run_sync(store.remove_token, name)
    finally:
        desk.keyring.forget()
    if not removed:
        raise Problem(404, f"there is no token {name!r}", "unknown-token")
    report("token_taken_back", level="info", token=name, by=author(request))
    return Response(None, status_code=204)


def _store(desk: Desk) -> TokenStore:
    if desk.keyring.store is None:
        raise Problem(404, "this service keeps no tokens: it was made without a store for them", "no-tokens")
    return desk.keyring.store


ROUTES = (listed, make, take_back)
