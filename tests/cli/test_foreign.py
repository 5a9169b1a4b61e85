"""Files and lines that are not ours: what they are taken for."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from watchkeeper.cli.foreign import BEGINNING, kind_of_file, kind_of_line


def packed() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "text")
    return file.getvalue()


def tape() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return file.getvalue()


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (packed(), "zip archive"),
        (tape(), "binary"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 50, "packed by zstd"),
        (b"SQLite format 3\x00" + b"\x10\x00" * 40, "SQLite"),
        (b"PAR1\x15\x04\x15", "Parquet"),
        ('{"id"}'.encode("utf-16"), "UTF-16"),
        (bytes(range(256)) * 2, "binary"),
    ],
)
def test_files_that_no_line_can_be_read_of(head: bytes, said: str) -> None:
    told = kind_of_file(head[:BEGINNING])
    assert told is not None
    assert said in told
    assert "JSON Lines" in told


@pytest.mark.parametrize(
    "head", [b"", b'{"id": "x"}\n', "é→😀\t\x1b[1m".encode(), b"\xff\xe9\xe8 latin", b"a,b\r\n1,2"]
)
def test_text_of_any_kind_is_looked_at_line_by_line(head: bytes) -> None:
    assert kind_of_file(head) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"<!DOCTYPE html>\n", "HTML"),
        (b"  <div>\n", "HTML"),
        (b'[{"id": "a"}]\n', "JSON array"),
        (b"{\n", "over several lines"),
        (b"id,source,stuck\n", "CSV"),
    ],
)
def test_lines(line: bytes, said: str) -> None:
    assert said in (kind_of_line(line) or "")


def test_a_broken_object_is_left_to_the_reader_of_json() -> None:
    assert kind_of_line(b'{"id": "x", "steps": [}\n') is None


def test_this_very_file_is_text() -> None:
    assert kind_of_file(Path(__file__).read_bytes()[:BEGINNING]) is None
