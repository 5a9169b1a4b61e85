"""Reads recordings: our JSON Lines and runs recorded elsewhere, plain or gzipped, files or folders of them.

What cannot be read is named with its file and line, and the rest is read.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from ..messages import FORMAT, Event, RunStarted, decode_event
from .recorded import RecordedRun

MAX_LINE = 64 << 20
"""Bytes of one line; a run of some thousand long steps has less."""
SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
"""What is taken of a folder."""


class Problem(NamedTuple):
    """Something that could not be read, or not as it should be."""

    file: str
    line: int
    """From 1; 0: the file as a whole."""
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


class Note(Problem):
    """Something to know that is no error."""


class Read(NamedTuple):
    """One thing that a line held."""

    line: int
    what: Event | RecordedRun


class _Probe(msgspec.Struct):
    """As much of a line as tells what it is."""

    type: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    steps: msgspec.Raw = msgspec.Raw()


_probe = msgspec.json.Decoder(_Probe)
_run = msgspec.json.Decoder(RecordedRun)


def files_of(paths: Iterable[Path]) -> Iterator[Path | Problem]:
    """The files that are meant: those named, and of folders all recordings below them, in order of their names."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file())
        if not found:
            yield Problem(str(path), 0, f"no recordings in this folder (names that end in {', '.join(SUFFIXES)})")
        yield from found


def read(path: Path) -> Iterator[Read | Problem]:
    """What a file holds, line by line, and what is wrong with it. Never raises for what is in the file."""
    name = str(path)
    number = 0
    try:
        with _opened(path) as file:
            for number, line in _lines(file):
                if line is None:
                    yield Problem(name, number, f"the line is longer than {MAX_LINE >> 20} MB; it is passed over")
                elif line.strip():
                    yield from _read_line(name, number, line)
    except (EOFError, zlib.error) as error:
        yield Problem(name, number + 1, f"the file is cut off or damaged here ({error}); what came before it was read")
    except gzip.BadGzipFile as error:
        yield Problem(name, number + 1, f"the file is not gzip, or damaged here ({error})")
    except OSError as error:
        yield Problem(name, number and number + 1, f"{os.strerror(error.errno) if error.errno else error}")


def _read_line(name: str, number: int, line: bytes) -> Iterator[Read | Problem]:
    try:
        what = _decoded(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            yield Problem(name, number, f"the file ends in the middle of this line: {error}")
        else:
            yield Problem(name, number, str(error) or type(error).__name__)
        return
    if isinstance(what, RunStarted) and what.version > FORMAT:
        text = f"written by a newer version (format {what.version}; this one reads {FORMAT}): what is new is left out"
        yield Note(name, number, text)
    yield Read(number, what)


def _decoded(line: bytes) -> Event | RecordedRun:
    if line.lstrip().startswith(b'{"type":'):
        return decode_event(line)
    probe = _probe.decode(line)
    if len(bytes(probe.steps)) and len(bytes(probe.id)):
        return _run.decode(line)
    if len(bytes(probe.type)):
        return decode_event(line)
    raise ValueError("neither an event of watchkeeper (type, n, run) nor a recorded run (id, steps)")


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    magic = file.read(2)
    file.seek(0)
    if magic == b"\x1f\x8b":
        file.close()
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return file


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
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
