"""Tokens in the control file of a folder: written by the command line and by the service, which lies beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast, get_args

from ..journal.control import connect_control
from ..journal.database import cannot
from ..journal.schema import CONTROL_FILE
from .access import Right
from .tokens import NameTaken, Token, TokenStore


class TokenFile(TokenStore):
    """The tokens of ``folder/control.db``. Any process may have one. Ask for ``tokens`` in one thread; whichever thread
    writes has a connection of its own. Close it at the end.

    All methods raise :class:`.EngineError`, which names the file and the remedy.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = connect_control(folder)

    def close(self) -> None:
        self._connection.close()

    def tokens(self) -> Sequence[Token]:
        """By name. Scopes that this version does not know count for nothing."""
        with self._telling():
            rows = self._connection.execute("SELECT name, hash, scopes, created FROM token ORDER BY name").fetchall()
        return [Token(name, bytes(hash).hex(), tuple(_scopes(scopes)), created) for name, hash, scopes, created in rows]

    def add_token(self, token: Token) -> None:
        values = (bytes.fromhex(token.hash), token.name, " ".join(token.scopes), token.created)
        with self._telling(), closing(connect_control(self._folder)) as connection:
            try:
                connection.execute("INSERT INTO token (hash, name, scopes, created) VALUES (?, ?, ?, ?)", values)
            except sqlite3.IntegrityError as error:
                told = f"there is a token {token.name} already; remove it, or give another name"
                raise NameTaken(told) from error

    def remove_token(self, name: str) -> bool:
        with self._telling(), closing(connect_control(self._folder)) as connection:
            return connection.execute("DELETE FROM token WHERE name = ?", (name,)).rowcount > 0

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise cannot(self._folder / CONTROL_FILE, error) from error


def _scopes(text: str) -> list[Right]:
    return [cast("Right", word) for word in text.split() if word in get_args(Right)]
