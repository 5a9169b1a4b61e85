"""``watchkeeper token new | ls | rm``: what lets a program use the service over TCP."""

from __future__ import annotations

import secrets
import sys
import time
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ..engine import EngineError
from .columns import print_rows
from .exits import CONFIGURATION, USAGE, CommandError, complain
from .objects import print_object, print_objects

if TYPE_CHECKING:
    from ..service.tokenfile import TokenFile

Scope = Literal["read", "run", "approve", "admin"]


def new(
    name: str,
    /,
    *,
    scope: Annotated[
        tuple[Scope, ...], Parameter(help="What it may do: read, run, approve, admin; given several times, or read.")
    ] = ("read",),
    json: Annotated[bool, Parameter(help="Print one JSON object.")] = False,
) -> int:
    """Make a token and print its secret, this once: only a digest of it is kept.

    Parameters
    ----------
    name:
        Whose it is; by it a token is listed and taken back.
    """
    from ..service.tokens import BYTES, mint

    try:
        secret, token = mint(name, scope, secrets.token_bytes(BYTES), time.time())
        with _store() as store:
            store.add_token(token)
    except (ValueError, EngineError) as error:
        raise CommandError(str(error), USAGE) from error
    if json:
        print_object({"name": token.name, "scopes": token.scopes, "created": token.created, "token": secret})
        return 0
    print(secret)
    if sys.stdout.isatty():
        complain(f"{name} may {', '.join(token.scopes)}; this is shown once (send it as Authorization: Bearer …)")
    return 0


def ls(*, json: Annotated[bool, Parameter(help="Print a JSON object a line.")] = False) -> int:
    """The tokens there are, without their secrets."""
    try:
        with _store() as store:
            tokens = store.tokens()
    except EngineError as error:
        raise CommandError(str(error)) from error
    if json:
        print_objects({"name": one.name, "scopes": one.scopes, "created": one.created} for one in tokens)
    else:
        made = (time.strftime("%Y-%m-%d %H:%M", time.localtime(one.created)) for one in tokens)
        print_rows(
            ("NAME", "SCOPES", "CREATED"),
            [
                ((one.name, "head"), (",".join(one.scopes), "plain"), (when, "dim"))
                for one, when in zip(tokens, made, strict=True)
            ],
        )
    return 0


def rm(name: str, /) -> int:
    """Take a token back; it is of no use a second later.

    Parameters
    ----------
    name:
        Whose it is.
    """
    try:
        with _store() as store:
            removed = store.remove_token(name)
    except EngineError as error:
        raise CommandError(str(error)) from error
    if not removed:
        raise CommandError(f"there is no token {name!r} (watchkeeper token ls)")
    return 0


def _store() -> AbstractContextManager[TokenFile]:
    from ..service.places import Places
    from ..service.tokenfile import TokenFile

    folder = Places.of().service
    try:
        folder.make()
    except OSError as error:
        raise CommandError(f"{folder.path}: {error.strerror or error}", CONFIGURATION) from error
    return closing(TokenFile(folder.path))
