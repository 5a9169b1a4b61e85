"""The ready-made checks of arguments, against what a hostile model would write."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper_tools.checks import MAX_SQL, inside, non_empty, read_only_sql


@pytest.mark.parametrize("value", ["a", " a ", "\u200ba", "0", [0], {"a": 1}, 0, False, 1.5, ("",)])
def test_there_is_something(value: Any) -> None:
    assert non_empty(value) is None


@pytest.mark.parametrize(
    "value", ["", " ", "\n\t\r", "\u00a0\u2003", "\u200b\u200d\ufeff", "\x00\x1b", [], {}, (), None]
)
def test_there_is_nothing(value: Any) -> None:
    assert non_empty(value) == "it must not be empty"


READING = [
    "SELECT 1",
    "select * from t where name = 'O''Brien; DROP TABLE t' -- and so on",
    "SELECT replace(a, 'x', 'y'), last_update, created FROM t;",
    "  WITH x AS (SELECT 1 AS n) SELECT n FROM x ORDER BY n DESC LIMIT 10 OFFSET 5 ; ",
    "(SELECT 1) UNION ALL (SELECT 2)",
    "/* a comment */ SELECT /* another: DELETE */ 1 -- DROP",
    'SELECT "update", `delete`, [drop] FROM "insert"',
    "EXPLAIN QUERY PLAN SELECT 1",
    "SHOW TABLES",
    "VALUES (1), (2)",
    "SELECT a FROM t WHERE b = $1 AND c = :name AND d = ? AND e = @x",
    "SELECT data->>'a', x::text, -1.5e3, 2 - -3 FROM t WHERE a <> b AND c != 'ü'",
    "SELECT sleep, benchmark FROM nights",
    "SELECT 1\r\nFROM t\r\n-- x\r\n",
]


@pytest.mark.parametrize("query", READING)
def test_what_reads_may(query: str) -> None:
    assert read_only_sql(query) is None


WRITING = [
    *(
        "DELETE FROM t",
        "drop table t",
        "Insert INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "TRUNCATE t",
        "CREATE TABLE t(a)",
    ),
    *(
        "PRAGMA writable_schema = 1",
        "ATTACH 'x.db' AS x",
        "VACUUM",
        "COPY t TO '/tmp/x'",
        "CALL p()",
        "EXEC p",
        "DO $$x$$",
    ),
    *(
        "SET ROLE admin",
        "BEGIN",
        "COMMIT",
        "REPLACE INTO t VALUES (1)",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "USE mysql",
    ),
    *(
        "SELECT 1; DROP TABLE t",
        "SELECT 1;DELETE FROM t",
        "SELECT 1;;",
        ";",
        "SELECT 1; -- x\nDROP TABLE t",
        "; SELECT 1",
    ),
    *("SELECT * INTO u FROM t", "SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT 'x' INTO DUMPFILE '/var/www/x.php'"),
    "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "EXPLAIN ANALYZE DELETE FROM t",
    "EXPLAIN ANALYZE EXECUTE p",
    "SELECT * FROM t FOR UPDATE",
    *("SELECT/**/1;DROP/**/TABLE/**/t", "SeLeCt 1; dRoP tAbLe t", "SELECT 1\n;\nDROP TABLE t"),
    *("/*! DROP TABLE t */", "SELECT 1 /*!50000 ; DROP TABLE t */", "SELECT 1 /*M! ; DROP TABLE t */"),
    # One dialect's text, another's statement.
    *("SELECT '\\'; DROP TABLE t; -- '", 'SELECT "\\"; DROP TABLE t; -- "', "SELECT E'\\''; DROP TABLE t --'"),
    *("SELECT 1 # ' \n; DROP TABLE t -- '", "SELECT $$ ' $$; DROP TABLE t -- '", "SELECT $a$'$a$; DROP TABLE t -- '"),
    *(
        "SELECT 5--'\n'; DROP TABLE t -- '",
        "SELECT /* /* */ ' */ '; DROP TABLE t -- '",
        "SELECT [x'] ; DROP TABLE y --']",
    ),
    *(
        "SELECT 1 -- x \r ' \n ; DROP TABLE t -- '",
        "SELECT q'[ ' ; DROP TABLE t -- ]'",
        "SELECT 1 -- '\r; DROP TABLE t",
    ),
    *("SELECT 'never ends", 'SELECT "never ends', "SELECT /* never ends", "SELECT `x", "SELECT [x", "SELECT \\ 1"),
    *(
        "SELECT load_extension('x.so')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_sleep(1e9)",
        "SELECT sleep (99)",
    ),
    *("SELECT lo_import('/etc/passwd')", "SELECT dblink('x', 'y')", "SELECT query_to_xml('delete from t', 1, 1, '')"),
    *("SELECT writefile('x', 'y')", "SELECT setval('s', 1)", "SELECT * FROM OPENROWSET('x')", "SELECT pg_sleep\n\t(9)"),
    *(
        "",
        " ",
        "-- nothing",
        "/* nothing */",
        "1",
        "'select'",
        "\x00SELECT 1",
        "SELECT 1\x00",
        "ſELECT 1",
        "ＳＥＬＥＣＴ 1",
    ),
    *(None, 1, ["SELECT 1"], "SELECT 1 " + "x" * MAX_SQL),
]


@pytest.mark.parametrize("query", WRITING, ids=lambda query: repr(query)[:60])
def test_what_does_more_may_not(query: Any) -> None:
    assert read_only_sql(query)


PIECES = st.sampled_from(
    [
        *(
            "SELECT 1",
            "DROP TABLE t",
            "DELETE FROM t",
            "INSERT INTO t VALUES (2)",
            "UPDATE t SET a = 3",
            ";",
            "'",
            '"',
            "`",
        ),
        *("[", "]", "--", "-- ", "\n", "/*", "*/", "\\", " ", "x", ",", "(", ")", "WITH q AS", "''", "AS"),
    ]
)


@given(st.lists(PIECES, max_size=9))
def test_nothing_that_passes_changes_a_database(pieces: list[str]) -> None:
    query = "SELECT 1 " + "".join(pieces)
    if read_only_sql(query) is not None:
        return
    base = sqlite3.connect(":memory:")
    base.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
    before = list(base.iterdump())
    with contextlib.suppress(sqlite3.Error):
        base.executescript(query)
    after = list(base.iterdump())
    base.close()
    assert after == before


def test_no_statement_takes_long() -> None:
    for part in ("/*", "'", "[", "--", "(", "SELECT ", "/* */", "a.", "- "):
        began = time.perf_counter()
        read_only_sql("SELECT 1 " + part * (90_000 // len(part)))
        assert time.perf_counter() - began < 3


@pytest.fixture
def root(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (tmp_path / "top-secret").mkdir()
    (top / "out").symlink_to(tmp_path / "top-secret")
    (top / "in").symlink_to(top / "sub")
    (top / "loop").symlink_to(top / "loop")
    return top


@pytest.mark.parametrize(
    "path", [".", "sub", "sub/new.txt", "sub/../sub/x", "in/x", "a..b", "..a", "sub//x", "{top}", "{top}/x"]
)
def test_paths_inside(path: str, root: Path) -> None:
    assert inside(root)(path.format(top=root)) is None


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../top-secret",
        "sub/../../x",
        "out",
        "out/x",
        "/etc/passwd",
        "{top}-secret",
        "{top}/../x",
        "in/../../x",
        "/",
    ],
)
def test_paths_outside(path: str, root: Path) -> None:
    assert "outside of the root directory" in (inside(root)(path.format(top=root)) or "")


@pytest.mark.parametrize("path", ["", "a\0b", None, 7, ["sub"], b"sub", "x" * 5000])
def test_what_is_no_path(path: Any, root: Path) -> None:
    assert inside(root)(path) == "it must be a path"


def test_the_root_of_all(tmp_path: Path) -> None:
    assert inside("/")("etc/passwd") is None
