"""The ready-made long-term store: finds by words, keeps no note twice, is bounded, and takes any text."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper import ConfigurationError, Note, SQLiteStore, Store


@pytest.fixture
def store() -> Iterator[SQLiteStore]:
    with SQLiteStore() as made:
        yield made


def texts(notes: list[Note]) -> list[str]:
    return [note.text for note in notes]


def test_it_is_a_store(store: SQLiteStore) -> None:
    assert isinstance(store, Store)


def test_what_fits_best_comes_first(store: SQLiteStore) -> None:
    store.add("The server listens on port 8080.", "network")
    store.add("The cat sleeps.", "animals")
    store.add("Ports below 1024 need root; port 8080 does not.", "network")
    assert texts(store.search("which port does the server use?", 5))[0] == "The server listens on port 8080."
    assert texts(store.search("animals", 5)) == ["The cat sleeps."]  # what it is about counts too
    assert texts(store.search("ports", 1)) == ["Ports below 1024 need root; port 8080 does not."]
    assert store.search("zebra", 5) == []


def test_an_equal_note_is_kept_once(store: SQLiteStore) -> None:
    for _ in range(3):
        store.add("same", "thing")
    store.add("same", "other thing")
    assert {note.about for note in store.search("same", 9)} == {"thing", "other thing"}
    assert len(store.search("same", 9)) == 2


def test_of_too_many_the_oldest_go() -> None:
    with SQLiteStore(most=10) as store:
        for n in range(25):
            store.add(f"note {n}", "")
        assert sorted(texts(store.search("note", 99))) == sorted(f"note {n}" for n in range(15, 25))


@pytest.mark.parametrize(
    "query", ["", '"', "a", "AND OR NOT", "text:*", "near(", "'; DROP TABLE notes; --", "\0\ud800"]
)
def test_a_query_is_words_and_never_a_language(store: SQLiteStore, query: str) -> None:
    store.add("something else entirely", "")
    assert store.search(query, 5) == []
    assert texts(store.search("something", 5)) == ["something else entirely"]


@settings(max_examples=60)
@given(st.text(max_size=200), st.text(max_size=50), st.text(max_size=100))
def test_any_text_is_taken(text: str, about: str, query: str) -> None:
    with SQLiteStore() as store:
        store.add(text, about)
        store.add(f"{text} marker", about)
        assert len(store.search(query, 5)) <= 2
        assert len(store.search("marker", 5)) >= 1


def test_it_outlives_the_process_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    code = "import sys; from watchkeeper import SQLiteStore; SQLiteStore(sys.argv[1]).add('kept for later', 'x')"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    with SQLiteStore(path) as store:
        assert texts(store.search("later", 5)) == ["kept for later"]


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with SQLiteStore(path) as store:
        store.add("x", "y")
        modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes


LOOKS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM notes").fetchone()[0])
connection.close()
"""


def test_a_second_store_in_a_process_takes_no_locks_from_the_first(tmp_path: Path) -> None:
    def looks() -> str:
        command = [sys.executable, "-c", LOOKS, str(tmp_path / "notes.db")]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    first, second = SQLiteStore(tmp_path / "notes.db"), SQLiteStore(tmp_path / "notes.db")
    assert second.search("anything", 1) == []
    assert looks() == "0"  # another process, which closes the file and is not the last one
    first.add("the door is blue", "house")
    assert looks() == "1"


def test_threads_and_connections_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with SQLiteStore(path) as one, SQLiteStore(path) as other:
        failures: list[Exception] = []

        def write(store: SQLiteStore, who: int) -> None:
            try:
                for n in range(20):
                    store.add(f"shared {who} {n}", "")
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(store, who)) for who, store in enumerate((one, other, one))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(one.search("shared", 100)) == 60


def test_a_file_that_cannot_be_one_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere.*name a file"):
        SQLiteStore(tmp_path / "nowhere" / "notes.db")
    text = tmp_path / "text.txt"
    text.write_text("no database at all, " * 100)
    with pytest.raises(ConfigurationError, match=r"text\.txt.*name a file"):
        SQLiteStore(text)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE notes (something INTEGER)")
    connection.close()
    with pytest.raises(ConfigurationError, match=r"other\.db.*name a file"):
        SQLiteStore(other)
    with pytest.raises(ConfigurationError, match="at least 1"):
        SQLiteStore(most=0)


def test_closed_it_says_so(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "notes.db")
    store.close()
    store.close()
    with pytest.raises(sqlite3.Error):
        store.search("anything", 5)


def test_sqlite_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"  # whoever measures the process may have it
        "import watchkeeper; watchkeeper.Agent, watchkeeper.Supervisor; print(*sys.modules.keys() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert "watchkeeper.supervisor" in loaded
    assert "sqlite3" not in loaded
