"""Tokens in the control file of a folder: written by the command line, read by the service beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

from ..engine import EngineError
from ..journal.control import FILE, connect_control
from ..journal.database import cannot
from .access import Right
from .tokens import Token, TokenStore


class TokenFile(TokenStore):
    """The tokens of ``folder/control.db``. Any process may have one; use it in one thread. Close it at the end.

    All methods raise :class:`.EngineError`, which names the file and the remedy.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._connection = connect_control(folder)

    def close(self) -> None:
        self._connection.close()

    def tokens(self) -> Sequence[Token]:
        """By name. Scopes that this version does not know count for nothing."""
        rows = self._execute("SELECT name, hash, scopes, created FROM token ORDER BY name")
        return [Token(name, bytes(hash).hex(), tuple(_scopes(scopes)), created) for name, hash, scopes, created in rows]

    def add_token(self, token: Token) -> None:
        try:
            self._connection.execute(
                "INSERT INTO token (hash, name, scopes, created) VALUES (?, ?, ?, ?)",
                (bytes.fromhex(token.hash), token.name, " ".join(token.scopes), token.created),
            )
        except sqlite3.IntegrityError as error:
            raise EngineError(f"there is a token {token.name} already; remove it, or give another name") from error
        except sqlite3.Error as error:
            raise cannot(self._path, error) from error

    def remove_token(self, name: str) -> bool:
        return bool(self._execute("DELETE FROM token WHERE name = ? RETURNING name", (name,)))

    def _execute(self, statement: str, values: tuple[str, ...] = ()) -> list[tuple[str, bytes, str, float]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise cannot(self._path, error) from error


def _scopes(text: str) -> list[Right]:
    return [cast("Right", word) for word in text.split() if word in get_args(Right)]
