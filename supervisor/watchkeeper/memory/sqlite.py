"""The ready-made long-term store: SQLite with its full-text index (FTS5), in memory or in a file."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from ..errors import ConfigurationError
from ..private import make_private
from .store import Note

MOST = 10_000
"""Notes that are kept; of more the oldest go."""
WORDS = 32
"""Words of a query that are looked for."""
PATIENCE = 2.0
"""Seconds to wait for another process that writes to the file."""

_WORD = re.compile(r"\w{2,40}")


class SQLiteStore:
    """A :class:`~watchkeeper.Store` in a file, or in memory without a path. Safe to share by threads, runs and, if in a
    file, processes. Found is what has a word of the query in common, by relevance (BM25), English endings aside.

    Raises :class:`ConfigurationError` if the file cannot be opened or is no database of notes.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, most: int = MOST) -> None:
        if most < 1:
            raise ConfigurationError(f"a store of notes keeps at least 1, not {most}")
        self._most = most
        self._lock = threading.Lock()
        self._path = Path(path) if path is not None else None
        try:
            if self._path is not None:
                make_private(self._path)  # what is noted is for its owner alone
            self._connection = sqlite3.connect(
                self._path or ":memory:", timeout=PATIENCE, check_same_thread=False, isolation_level=None
            )
        except (sqlite3.Error, OSError) as error:
            raise ConfigurationError(self._cannot(error)) from error
        try:
            if self._path is not None:
                self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(
                "CREATE VIRTUAL TABLE IF NOT EXISTS notes USING fts5(text, about, tokenize='porter unicode61')"
            )
            self._connection.execute("SELECT text, about FROM notes LIMIT 0")
        except sqlite3.Error as error:
            self._connection.close()
            raise ConfigurationError(self._cannot(error)) from error

    def _cannot(self, error: Exception) -> str:
        if self._path is None:
            return f"notes cannot be kept in memory: {error}; this SQLite may lack FTS5"
        return (
            f"notes cannot be kept in {self._path}: {error}; name a file in a folder that may be written to, "
            "a new one or one that notes are kept in already"
        )

    def add(self, text: str, about: str = "") -> None:
        """Keep a note; an equal one becomes the newest. Raises ``sqlite3.Error`` if it cannot be written."""
        text, about = _whole(text), _whole(about)
        with self._lock, self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM notes WHERE text = ? AND about = ?", (text, about))
            made = self._connection.execute("INSERT INTO notes (text, about) VALUES (?, ?)", (text, about))
            self._connection.execute("DELETE FROM notes WHERE rowid <= ?", ((made.lastrowid or 0) - self._most,))

    def search(self, query: str, limit: int = 5) -> list[Note]:
        """The notes that fit best, at most ``limit``. Raises ``sqlite3.Error`` if the file cannot be read."""
        words = dict.fromkeys(word.casefold() for word in _WORD.findall(_whole(query)))
        wanted = " OR ".join(f'"{word}"' for word in list(words)[:WORDS])
        if not wanted:
            return []
        with self._lock:
            rows = self._connection.execute(
                "SELECT text, about FROM notes WHERE notes MATCH ? ORDER BY rank, rowid DESC LIMIT ?", (wanted, limit)
            ).fetchall()
        return [Note(text, about) for text, about in rows]

    def close(self) -> None:
        """Close the file. Closing twice changes nothing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _whole(text: str) -> str:
    """Without half characters, which SQLite does not take, and without zeros, at which it ends a text."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", " ")
