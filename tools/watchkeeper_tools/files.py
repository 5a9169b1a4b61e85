"""File tools: read, list, find, search, write, edit and delete, confined to one directory."""

from __future__ import annotations

import os
import threading
from typing import Annotated, Any

from msgspec import Meta

from watchkeeper import Effect, Tool, ToolError, ToolOutput, reads, tool, writes

from .root import Parts, Root, Stamp, shown
from .search import Search

MAX_READ = 10_000_000
"""Bytes of a file that read_file looks at and edit_file works on."""
MAX_WRITE = 64 << 20
"""Bytes that write_file writes."""
MAX_LINES = 2_000
MAX_TEXT = 20_000
"""Characters of one answer of read_file."""
MAX_REMEMBERED = 4_096
"""Files whose state at the last read is remembered."""

Path = Annotated[str, Meta(max_length=4096, description="relative to the root directory, '/' between names")]
Line = Annotated[int, Meta(ge=1, description="number of the first line wanted, from 1")]
Lines = Annotated[int, Meta(ge=1, le=MAX_LINES, description="how many lines at most")]


class Files:
    """The tools that read and write single files, and what they remember of each file.

    A file that was read through this object and has changed since by someone else's hand is not overwritten, edited
    or deleted before it is read again. All methods are plain functions: they may run in threads side by side, as long
    as two that write one file do not (their effects see to that).
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._stamps: dict[Parts, Stamp] = {}
        self._lock = threading.Lock()

    def read_effect(self, path: str, **_: Any) -> Effect:
        """Reads that one file."""
        return reads(self._root.resource(path))

    def write_effect(self, path: str, **_: Any) -> Effect:
        """Writes that one file."""
        return writes(self._root.resource(path))

    def read_file(self, path: Path, offset: Line = 1, limit: Lines = MAX_LINES) -> ToolOutput:
        """Read a text file. Long files come in pieces: a note at the end says which offset goes on."""
        parts = self._root.parts(path)
        try:
            with self._root.reading(parts) as (file, stamp):
                data = file.read(MAX_READ)
        except FileNotFoundError:
            return self._root.missing(parts)
        self._remember(parts, stamp)
        if _is_binary(data):
            return ToolOutput(
                f"{shown(parts)} is a binary file of {stamp.size:,} bytes; its content is not shown",
                productive=False,
                error="binary_file",
            )
        return _page(data, max(stamp.size, len(data)), max(1, offset), min(max(1, limit), MAX_LINES))

    def write_file(self, path: Path, content: str) -> ToolOutput:
        """Create a file or replace all of it. Missing directories are made. To change a part, use edit_file."""
        parts = self._root.parts(path)
        data = _encoded(content, "content")
        if len(data) > MAX_WRITE:
            raise ToolError(f"the content is {len(data):,} bytes long; {MAX_WRITE:,} is the most")
        self._put(parts, data)
        return _written(parts, data)

    def edit_file(self, path: Path, old: str, new: str) -> ToolOutput:
        """Replace one piece of text in a file. `old` must match exactly, white space included, and only once."""
        parts = self._root.parts(path)
        find, put = _encoded(old, "old"), _encoded(new, "new")
        if not find:
            raise ToolError(
                "old is empty", hint="give the text to replace; write_file creates or replaces a whole file"
            )
        if find == put:
            raise ToolError("old and new are equal: nothing would change")
        try:
            with self._root.reading(parts) as (file, stamp):
                data = file.read(MAX_READ + 1)
        except FileNotFoundError:
            return self._root.missing(parts)
        self._refuse_changed(parts, stamp)
        if len(data) > MAX_READ:
            raise ToolError(f"{shown(parts)} is longer than {MAX_READ:,} bytes: too long to edit")
        _refuse_ambiguous(parts, data, find)
        at = data.index(find)
        self._put(parts, data.replace(find, put, 1), based_on=stamp)
        line = data.count(b"\n", 0, at) + 1
        return ToolOutput(f"edited {shown(parts)} at line {line}", productive=True, evidence={"line": line})

    def delete_file(self, path: Path) -> ToolOutput:
        """Delete one file. Directories and links are not deleted."""
        parts = self._root.parts(path)
        try:
            self._root.remove(parts, lambda stamp: self._refuse_changed(parts, stamp))
        except FileNotFoundError:
            return self._root.missing(parts)
        with self._lock:
            self._stamps.pop(parts, None)
        return ToolOutput(f"deleted {shown(parts)}", productive=True)

    def _put(self, parts: Parts, data: bytes, based_on: Stamp | None = None) -> None:
        def allow(stamp: Stamp | None) -> None:
            if based_on is not None and stamp != based_on:
                raise _changed(parts)
            self._refuse_changed(parts, stamp)

        try:
            stamp = self._root.replace(parts, data, allow)
        except FileNotFoundError:
            raise ToolError(f"{shown(parts)}: its directory was removed meanwhile") from None
        self._remember(parts, stamp)

    def _remember(self, parts: Parts, stamp: Stamp) -> None:
        with self._lock:
            self._stamps.pop(parts, None)
            self._stamps[parts] = stamp
            if len(self._stamps) > MAX_REMEMBERED:
                del self._stamps[next(iter(self._stamps))]

    def _refuse_changed(self, parts: Parts, stamp: Stamp | None) -> None:
        with self._lock:
            known = self._stamps.get(parts)
        if known is not None and stamp is not None and known != stamp:
            raise _changed(parts)


def tools(*, root: str | os.PathLike[str] = ".", **_: Any) -> list[Tool]:
    """The file tools, confined to the directory ``root``: nothing outside is read or written, no link is followed.

    Raises ``NotADirectoryError`` if it does not exist. All tools of one list share what they remember of files read.
    """
    tree = Root(root)
    files, search = Files(tree), Search(tree)
    bound = MAX_TEXT + 2_000
    return [
        tool(effect=files.read_effect, timeout=30, idempotent=True, max_output=bound)(files.read_file),
        tool(effect=search.effect, timeout=30, idempotent=True, max_output=bound)(search.list_dir),
        tool(effect=search.effect, timeout=30, idempotent=True, max_output=bound)(search.find_files),
        tool(effect=search.effect, timeout=40, idempotent=True, max_output=bound)(search.search_text),
        tool(effect=files.write_effect, timeout=60)(files.write_file),
        tool(effect=files.write_effect, timeout=60)(files.edit_file),
        tool(effect=files.write_effect, timeout=30, dangerous=True)(files.delete_file),
    ]


def _page(data: bytes, size: int, offset: int, limit: int) -> ToolOutput:
    """Lines ``offset`` … of a file, as many as fit, and a note of what is missing."""
    if not data:
        return ToolOutput("[the file is empty]", productive=False)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if offset > len(lines):
        return ToolOutput(f"[the file has only {len(lines):,} lines]", productive=False)
    taken: list[str] = []
    room, notes = MAX_TEXT, list[str]()
    for line in lines[offset - 1 : offset - 1 + limit]:
        text = line.decode("utf-8", "replace")
        if len(text) >= room:
            if not taken:
                taken.append(text[:room])
                notes.append(f"line {offset} is {len(text):,} characters long and cut")
            break
        taken.append(text)
        room -= len(text) + 1
    last = offset + len(taken) - 1
    if offset > 1 or last < len(lines):
        more = f"; go on with offset={last + 1}" if last < len(lines) else ""
        notes.append(f"lines {offset:,} to {last:,} of {len(lines):,}{more}")
    if size > len(data):
        notes.append(f"the file is {size:,} bytes long; only its first {len(data):,} can be read here")
    if any("\ufffd" in text for text in taken):
        notes.append("bytes that are not UTF-8 are shown as \ufffd")
    return ToolOutput("\n".join(taken) + "".join(f"\n[{note}]" for note in notes), productive=True)


def _refuse_ambiguous(parts: Parts, data: bytes, find: bytes) -> None:
    count = data.count(find)
    if count == 1 and data.find(find, data.index(find) + 1) < 0:
        return
    if count:
        raise ToolError(
            f"old is found {max(count, 2)} times in {shown(parts)}; it must be unique",
            hint="put more of the lines around it into old",
        )
    raise ToolError(f"old is not found in {shown(parts)}; nothing was changed", hint=_near_miss(data, find))


def _near_miss(data: bytes, find: bytes) -> str:
    if b"\r\n" in data and find.replace(b"\n", b"\r\n") in data:
        return "the file ends its lines with \\r\\n: write them so in old and new"
    wanted = b"".join(next(iter(find.strip().splitlines()), b"").split())
    for number, line in enumerate(data.split(b"\n"), 1):
        if wanted and b"".join(line.split()) == wanted:
            return f"line {number} of the file is like the first line of old but for white space; read_file shows it"
    return "copy old exactly from what read_file shows"


def _written(parts: Parts, data: bytes) -> ToolOutput:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    text = f"wrote {shown(parts)}: {len(data):,} bytes, {lines:,} lines"
    return ToolOutput(text, productive=True, evidence={"bytes": len(data)})


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{what} is not valid Unicode text") from None


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:8192]


def _changed(parts: Parts) -> ToolError:
    return ToolError(f"{shown(parts)} has changed since read; read it again", hint="then decide anew what to write")
