"""What is deleted of trees that have ended, in transactions of a bounded size.

The facts of a tree go, then the values that no other run uses, then the room they took. How it ended stays, for the
newest 10,000; a viewer gets a gap. A process that is killed meanwhile leaves facts that nobody sees and that the next
round deletes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .book import Book
    from .control import Control
    from .desk import WritingDesk

ROWS = 10_000
"""Trees without their facts of which it is still known how they ended."""
CHUNKS = 500
"""Batches of facts, or values, that are deleted in one transaction."""
PAGES = 1000
"""Pages of 4 KB that are given back to the file system in one transaction."""
TREES = 100
_SWEEPS = (
    """DELETE FROM chunk WHERE key IN (SELECT chunk.key FROM standing JOIN chunk ON chunk.run = standing.run
       WHERE standing.first > 1 LIMIT ?)""",
    """DELETE FROM blob_use WHERE (hash, run) IN (SELECT blob_use.hash, blob_use.run FROM standing
       JOIN blob_use ON blob_use.run = standing.run WHERE standing.first > 1 LIMIT ?)""",
)


async def prune(desk: WritingDesk[Book], control: WritingDesk[Control], line: float | None, most: int | None) -> int:
    """Of one worker's file the trees that ended at ``line`` or before, then the oldest while more than ``most`` bytes
    are in use; how many trees."""
    pruned = 0
    while line is not None:
        closed = await desk.ask(lambda book: close(book.connection, oldest(book.connection, line)))
        if not closed:
            break
        pruned += closed
    await _sweep(desk)
    while most is not None and await desk.ask(lambda book: size(book.connection)) > most:
        closed = await desk.ask(lambda book: close(book.connection, oldest(book.connection, None)))
        if not closed:
            break
        pruned += closed
        await _sweep(desk)
    while forgotten := await desk.ask(lambda book: forget(book.connection, ROWS)):
        await control.ask(lambda file, forgotten=forgotten: forget_submissions(file.connection, forgotten, ROWS))  # type: ignore[misc]  # a default in a lambda
    await control.ask(lambda file: forget_submissions(file.connection, (), ROWS))
    while await desk.ask(lambda book: shrink(book.connection)):
        pass
    return pruned


async def _sweep(desk: WritingDesk[Book]) -> None:
    while await desk.ask(lambda book: sweep(book.connection)):
        pass
    at: bytes | None = b""
    while at is not None:
        at = await desk.ask(lambda book, at=at: sweep_values(book.connection, at))  # type: ignore[misc]  # a default in a lambda


def oldest(connection: sqlite3.Connection, line: float | None) -> list[int]:
    """Ended trees that have their facts, the oldest first: those that ended at ``line`` or before, or None: one."""
    rows = connection.execute(
        "SELECT run.key FROM lease JOIN run ON run.key = lease.root JOIN standing ON standing.run = run.key"
        " WHERE lease.over = 1 AND standing.first = 1 AND standing.state = 'ended'"
        " AND coalesce(standing.ended <= ?, 1) ORDER BY standing.ended, run.key LIMIT ?",
        (line, TREES if line is not None else 1),
    )
    return [key for (key,) in rows]


def close(connection: sqlite3.Connection, roots: Sequence[int]) -> int:
    """From now on nobody sees the facts of these trees; how many they are."""
    for root in roots:
        connection.execute(
            "UPDATE standing SET first = 1 + (SELECT max(last) FROM chunk WHERE chunk.run = standing.run)"
            " WHERE run IN (SELECT key FROM run WHERE root = ?)",
            (root,),
        )
    return len(roots)


def sweep(connection: sqlite3.Connection) -> bool:
    """Delete some of what nobody sees; whether there may be more."""
    return any([connection.execute(statement, (CHUNKS,)).rowcount for statement in _SWEEPS])


def sweep_values(connection: sqlite3.Connection, after: bytes) -> bytes | None:
    """Delete the values without a run among the next ones behind ``after``; the last of those, None at the end."""
    rows = connection.execute("SELECT hash FROM blob WHERE hash > ? ORDER BY hash LIMIT ?", (after, CHUNKS)).fetchall()
    connection.executemany(
        "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE hash = ?1)", rows
    )
    return rows[-1][0] if rows else None


def forget(connection: sqlite3.Connection, rows: int) -> list[str]:
    """Forget the oldest trees without facts beyond so many, whole; the ids of their roots."""
    found = connection.execute(
        "SELECT run.key, run.id FROM lease JOIN run ON run.key = lease.root JOIN standing ON standing.run = run.key"
        " WHERE standing.first > 1 ORDER BY standing.ended DESC, run.key DESC LIMIT ? OFFSET ?",
        (TREES, rows),
    ).fetchall()
    for root, _ in found:
        connection.execute("DELETE FROM standing WHERE run IN (SELECT key FROM run WHERE root = ?)", (root,))
        connection.execute("DELETE FROM run WHERE root = ?", (root,))
        connection.execute("DELETE FROM lease WHERE root = ?", (root,))
    return [run for _, run in found]


def size(connection: sqlite3.Connection) -> int:
    """Bytes that are in use in the file."""
    pages, free, each = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * each)


def shrink(connection: sqlite3.Connection) -> bool:
    """Give some of the free room back to the file system; whether there is more."""
    connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
    return bool(connection.execute("PRAGMA freelist_count").fetchone()[0])


def forget_submissions(connection: sqlite3.Connection, runs: Sequence[str], rows: int) -> None:
    """In the control file: forget these, and of those that were cancelled in the queue the oldest beyond so many."""
    unclaimed = connection.execute(
        "SELECT id FROM submission WHERE placed = 0 AND worker IS NULL AND over = 1"
        " ORDER BY submitted DESC, id DESC LIMIT ? OFFSET ?",
        (TREES, rows),
    ).fetchall()
    for run in (*runs, *(run for (run,) in unclaimed)):
        connection.execute("DELETE FROM command WHERE root = ?", (run,))
        connection.execute("DELETE FROM submission WHERE id = ?", (run,))
