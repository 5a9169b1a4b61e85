"""What a file or line that is not ours seems to be, in words that name the remedy. Pure."""

from __future__ import annotations

BEGINNING = 512
"""Bytes of a file that are looked at."""
_MAGIC = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd"),
    (b"\xfd7zXZ\x00", "packed by xz"),
    (b"BZh", "packed by bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
)
_TEXT = bytes(set(range(256)) - (set(range(32)) - set(b"\t\n\r\f\x1b")) - {0x7F})
"""Bytes that text may have; of others it has few."""
_WANTED = "JSON Lines in UTF-8 are read, plain or gzipped"


def kind_of_file(head: bytes) -> str | None:
    """Why a file that begins so cannot be read at all; None if its lines should be looked at."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return f"the file is {kind}, which is not read ({_WANTED})"
    if len(head.translate(None, _TEXT)) * 20 > len(head):
        return f"the file is binary, which is not read ({_WANTED})"
    return None


def kind_of_line(line: bytes) -> str | None:
    """What a line that could not be read seems to be; None where the reader's own words say it best."""
    start = line[:200].lstrip(b"\xef\xbb\xbf \t").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<")):
        return "this is HTML or XML, not JSON"
    if start.startswith(b"["):
        return "a JSON array, but one object a line is wanted (jq -c '.[]' FILE makes it so)"
    if start.rstrip() in (b"{", b"}", b"},", b"]"):
        return "JSON over several lines, but one object a line is wanted (jq -c . FILE makes it so)"
    if not start.startswith((b"{", b'"')) and b"," in start and b"\x00" not in line[:200]:
        return "this is no JSON; it looks like a table (CSV)"
    return None
