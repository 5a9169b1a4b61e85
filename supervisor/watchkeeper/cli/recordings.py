"""Reads recordings: our JSON Lines and runs recorded elsewhere, plain or gzipped, files or folders of them.

What cannot be read is named with its file and line, and the rest is read. Files are read in batches of lines, so that
memory stays bounded whatever their size.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from ..messages import FORMAT, Event, RunStarted, Unknown, decode_event
from .foreign import BEGINNING, kind_of_file, kind_of_line
from .recorded import RecordedRun

MAX_LINE = 64 << 20
"""Bytes of one line; a run of some thousand long steps has less."""
BATCH = 256 << 10
"""Bytes of lines that are handed on together; a longer line comes alone."""
BUFFER = 1 << 20
SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
"""What is taken of a folder."""
FILE = (
    "A log of watchkeeper (run --events FILE), or runs recorded elsewhere: one JSON object a line with id and steps "
    "(each with tool, args and result, and where known error, text, agent and user_turn), plain or gzipped."
)
FILES = f"{FILE} Or folders: all files below them whose names end in {', '.join(SUFFIXES)}."
"""What is read, in words for people."""
EVENT = b'{"type":'
"""How a line of ours begins."""


class Problem(NamedTuple):
    """Something that could not be read, or not as it should be."""

    file: str
    line: int
    """From 1; 0: the file as a whole."""
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


class Read(NamedTuple):
    """One thing that a line held."""

    line: int
    what: Event | RecordedRun


class Batch(NamedTuple):
    """Lines of one file, with their numbers; a problem stands where lines could not be had."""

    file: str
    lines: list[tuple[int, bytes] | Problem]
    taken: int
    """Bytes of the file, as it lies on disk, that were read for this batch."""
    last: bool


class _Probe(msgspec.Struct):
    """As much of a line as tells what it is."""

    type: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    steps: msgspec.Raw = msgspec.Raw()


_HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""How half a character is written in JSON, and how in bytes."""
_probe = msgspec.json.Decoder(_Probe)
_run = msgspec.json.Decoder(RecordedRun)


def files_of(paths: Iterable[Path]) -> Iterator[Path | Problem]:
    """The files that are meant: those named, and of folders all recordings below them, in order of their names."""
    for path in paths:
        if os.path.isdir(path):
            yield from _below(path)
        else:
            yield path


def _below(folder: Path) -> Iterator[Path | Problem]:
    """The recordings below a folder, and which folders could not be looked into."""
    errors: list[OSError] = []
    found = sorted(
        file
        for place, _, names in os.walk(folder, onerror=errors.append)
        for name in names
        if name.endswith(SUFFIXES) and _is_file(file := Path(place, name))
    )
    for error in errors:
        yield Problem(str(error.filename), 0, f"the folder cannot be read: {error.strerror}")
    if not found and not errors:
        yield Problem(str(folder), 0, f"no recordings in this folder (names that end in {', '.join(SUFFIXES)})")
    yield from found


def _is_file(path: Path) -> bool:
    """Whether it is an ordinary file, as far as may be known: that it may not be read is said when it is opened."""
    try:
        return path.is_file()
    except PermissionError:
        return True


def batches(path: Path) -> Iterator[Batch]:
    """The lines of a file, a batch at a time; the last batch says so. Never raises for what is in the file."""
    name, taken = str(path), 0
    lines: list[tuple[int, bytes] | Problem] = []
    size = number = 0
    try:
        with path.open("rb", buffering=BUFFER) as raw:
            assert isinstance(raw, io.BufferedReader)
            file = _unpacked(raw)
            head = file.peek(BEGINNING)[:BEGINNING]
            if (foreign := kind_of_file(head)) is not None:
                lines.append(Problem(name, 1, foreign))
                yield Batch(name, lines, 0, True)
                return
            for number, line in _numbered(file):
                if line is None:
                    lines.append(Problem(name, number, f"the line is longer than {MAX_LINE >> 20} MB: passed over"))
                elif line.strip():
                    lines.append((number, line))
                    size += len(line)
                if size >= BATCH:
                    at = raw.tell() if raw.seekable() else 0
                    yield Batch(name, lines, at - taken, False)
                    taken, lines, size = at, [], 0
    except (EOFError, zlib.error) as error:
        said = f"the file is cut off or damaged here ({error}); what came before it was read"
        lines.append(Problem(name, number + 1, said))
    except gzip.BadGzipFile as error:
        lines.append(Problem(name, number + 1, f"the file is not gzip, or damaged here ({error})"))
    except (OSError, ValueError) as error:  # ValueError: a name with a zero character in it
        said = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        lines.append(Problem(name, number and number + 1, said))
    yield Batch(name, lines, 0, True)


def decoded(batch: Batch) -> Iterator[Read | Problem]:
    """What the lines of a batch hold."""
    for line in batch.lines:
        if isinstance(line, Problem):
            yield line
        else:
            yield from _read_line(batch.file, *line)


def read(path: Path) -> Iterator[Read | Problem]:
    """What a file holds, line by line, and what is wrong with it. Never raises for what is in the file."""
    for batch in batches(path):
        yield from decoded(batch)


def holds_log(path: Path) -> bool:
    """Whether a file begins as a log of ours does. False for what is no ordinary file, which can be read only once."""
    if not path.is_file():
        return False
    for batch in batches(path):
        for line in batch.lines:
            return not isinstance(line, Problem) and line[1].startswith(EVENT)
    return False


def _read_line(name: str, number: int, line: bytes) -> Iterator[Read | Problem]:
    try:
        what = _decoded_whole(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            yield Problem(name, number, f"the file ends in the middle of this line: {error}")
        else:
            yield Problem(name, number, kind_of_line(line) or str(error) or type(error).__name__)
        return
    if isinstance(what, RecordedRun):
        if (flaw := what.flaw()) is not None:
            yield Problem(name, number, flaw)
            return
    elif isinstance(what, RunStarted) and what.version != FORMAT:
        age = "a newer version" if what.version > FORMAT else "another version"
        yield Problem(
            name,
            number,
            f"written by {age} (format {what.version}; this one reads {FORMAT}): read as far as it is known",
        )
    elif isinstance(what, Unknown):
        yield Problem(name, number, f"an event of an unknown kind ({str(what.raw['type'])[:80]}): passed over")
    yield Read(number, what)


def _decoded_whole(line: bytes) -> Event | RecordedRun:
    """What the line holds; half a character in it, which no text can have, is read as U+FFFD."""
    try:
        return _decoded(line)
    except (msgspec.MsgspecError, ValueError):
        if not _HALF.search(line):
            raise
        halved = line.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
        text = json.dumps(json.loads(halved), ensure_ascii=False, separators=(",", ":"))
        return _decoded(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode())


def _decoded(line: bytes) -> Event | RecordedRun:
    if line.startswith(EVENT):
        return decode_event(line)
    if line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    probe = _probe.decode(line)
    if len(bytes(probe.steps)) and len(bytes(probe.id)):
        return _run.decode(line)
    if len(bytes(probe.type)):
        return decode_event(line)
    raise ValueError("neither an event of watchkeeper (type, n, run) nor a recorded run (id, steps)")


def _unpacked(raw: io.BufferedReader) -> io.BufferedReader:
    if raw.peek(2)[:2] != b"\x1f\x8b":
        return raw
    return io.BufferedReader(_Unpacking(raw), BUFFER)


class _Unpacking(io.RawIOBase):
    """Gives what could be unpacked before it says that the file is broken; a gzip file read in larger pieces would
    keep the last one to itself."""

    def __init__(self, raw: BinaryIO) -> None:
        self._file = gzip.GzipFile(fileobj=raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _numbered(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None for one that is too long."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) <= MAX_LINE:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        yield number, None
