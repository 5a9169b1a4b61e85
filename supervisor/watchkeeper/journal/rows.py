"""Rows that are written many to a statement.

SQLite lets go of the interpreter's lock for each row that a statement of one row writes, and the thread that writes has
to wait until the event loop gives it back: up to five milliseconds each time while the loop is busy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain

MOST = 128
"""Rows of one statement."""


class Rows:
    """``statement`` is what stands before the row and ``behind`` what stands after it; ``row`` is one, ``(?, ?)``."""

    def __init__(self, statement: str, row: str, behind: str = "") -> None:
        self._parts = statement, row, behind

    def write(self, connection: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> None:
        """In order. Sizes are halved towards the end, so that few statements are prepared in all."""
        done, size = 0, MOST
        while done < len(rows):
            while size > len(rows) - done:
                size //= 2
            connection.execute(_of(*self._parts, size), tuple(chain.from_iterable(rows[done : done + size])))
            done += size


@cache
def _of(statement: str, row: str, behind: str, size: int) -> str:
    return f"{statement} VALUES {', '.join([row] * size)} {behind}"
