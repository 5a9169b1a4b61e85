"""Tokens in the control file of a folder (:class:`.tokens.TokenStore`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec

from ..engine import EngineError
from ..journal.control import FILE, connect_control
from ..journal.database import cannot
from .access import Right
from .tokens import Token


class TokenFile:
    """Opens the file for each question, which takes about a millisecond: tokens are asked for once a second at most."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tokens(self) -> list[Token]:
        """By name. Raises :class:`EngineError` if the file cannot be read."""
        with self._connected() as connection:
            rows = connection.execute("SELECT name, hash, scopes, created FROM token ORDER BY name").fetchall()
        return [Token(name, hash.hex(), _scopes(scopes), created) for name, hash, scopes, created in rows]

    def add_token(self, token: Token) -> None:
        """Raises :class:`EngineError` if there is one of that name."""
        row = (bytes.fromhex(token.hash), token.name, msgspec.json.encode(token.scopes).decode(), token.created)
        with self._connected() as connection:
            try:
                connection.execute("INSERT INTO token (hash, name, scopes, created) VALUES (?, ?, ?, ?)", row)
            except sqlite3.IntegrityError as error:
                raise EngineError(
                    f"there is a token named {token.name} already; remove it first (watchkeeper token rm), or choose "
                    "another name"
                ) from error

    def remove_token(self, name: str) -> bool:
        with self._connected() as connection:
            return connection.execute("DELETE FROM token WHERE name = ?", (name,)).rowcount > 0

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        path = self._folder / FILE
        with closing(connect_control(self._folder)) as connection:
            try:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    yield connection
            except sqlite3.Error as error:
                raise cannot(path, error) from error


def _scopes(given: Any) -> tuple[Right, ...]:
    found: list[Right] = msgspec.json.decode(given, type=list[Right])
    return tuple(scope for scope in get_args(Right) if scope in found)
