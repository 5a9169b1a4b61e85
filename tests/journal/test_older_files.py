"""What is in the files: rows that are written many at a time, and files of an earlier version."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from watchkeeper.journal.database import connect
from watchkeeper.journal.rows import MOST, Rows
from watchkeeper.journal.schema import WORKER


@pytest.mark.parametrize("count", [0, 1, 2, 127, MOST, MOST + 1, 3 * MOST - 1])
def test_many_rows_are_written_in_order_and_each_once(count: int) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE made (key INTEGER PRIMARY KEY, a, b)")
    rows = [(f"a{number}", number) for number in range(count)]
    Rows("INSERT INTO made (a, b)", "(?, ?)").write(connection, rows)
    assert connection.execute("SELECT a, b FROM made ORDER BY key").fetchall() == rows
    connection.close()


def test_of_rows_of_one_key_in_one_statement_each_is_counted() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE made (name PRIMARY KEY, amount)")
    adding = Rows(
        "INSERT INTO made (name, amount)", "(?, ?)", "ON CONFLICT DO UPDATE SET amount = amount + excluded.amount"
    )
    adding.write(connection, [("a", 1), ("b", 2), ("a", 4)])
    assert dict(connection.execute("SELECT name, amount FROM made").fetchall()) == {"a": 5, "b": 2}
    connection.close()


def test_entries_of_the_second_version_are_found_in_their_chunks(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    connection = sqlite3.connect(path)
    for statement in (statement for version in WORKER.versions[:2] for statement in version):
        connection.execute(statement)
    chunks = [(1, 1, 3), (1, 4, 4), (2, 1, 2)]
    connection.executemany("INSERT INTO chunk (run, first, last, body) VALUES (?, ?, ?, x'')", chunks)
    entries = [(1, "user:0", 1), (1, "model:1", 3), (2, 'approval:"1"', 2)]
    connection.executemany("INSERT INTO entry (run, name, n) VALUES (?, ?, ?)", entries)
    connection.execute(f"PRAGMA application_id={WORKER.mark}")
    connection.execute("PRAGMA user_version=2")
    connection.commit()
    connection.close()
    connection = connect(path, WORKER)
    found = connection.execute("SELECT run, first, entries FROM chunk ORDER BY run, first").fetchall()
    connection.close()
    assert [(run, first, kept and json.loads(kept)) for run, first, kept in found] == [
        (1, 1, {"user:0": 1, "model:1": 3}),
        (1, 4, None),
        (2, 1, {'approval:"1"': 2}),
    ]
