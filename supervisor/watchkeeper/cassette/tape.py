"""The file of a cassette: JSON Lines that are appended whole, and read with what is wrong told by its line."""

from __future__ import annotations

import os
import stat
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from ..errors import CassetteError, ConfigurationError
from .entries import FORMAT, Line, Take

MAX_LINE = 64 << 20
"""Bytes of one line that are read."""
Adding = Literal["once", "add"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Tape:
    """A cassette that is being recorded.

    ``once`` refuses a file that exists already, ``add`` goes on with it (what a crash has cut off at its end is taken
    away first). Each write is one system call of whole lines, so that what is in the file can be read after a crash.
    A recording of nothing leaves nothing behind: closing takes its head away, and the file if that is all it has.
    May be used from any thread.

    Raises :class:`CassetteError` for a file that cannot be written, or that is there and may not be.
    """

    def __init__(
        self, path: str | os.PathLike[str], holds: Literal["http", "run"], *, adding: Adding = "once", by: str = ""
    ) -> None:
        if adding not in ("once", "add"):
            raise ConfigurationError(f"a cassette is recorded 'once' or by 'add', not {adding!r}")
        self.path = Path(path)
        self._lock = threading.Lock()
        self._file = _opened(self.path, adding)
        self._began = os.fstat(self._file).st_size
        self._head = 0
        """Where the head of this recording ends."""
        self._closer = weakref.finalize(self, os.close, self._file)
        self.failed: OSError | None = None
        """Why nothing is written any more, if so: what is recorded must not break over its recording."""
        self.write(Take(holds=holds, by=by or _version()))
        self._head = os.fstat(self._file).st_size

    def write(self, *lines: Line) -> None:
        """Append lines. A disk that is full or gone is noted in ``failed`` and ends the recording, not the run."""
        data = b"".join(_encode(line) + b"\n" for line in lines)
        with self._lock:
            if self._file < 0 or self.failed is not None:
                return
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError as error:
                self.failed = error

    def close(self) -> None:
        """Nothing more is written. Closing twice changes nothing."""
        with self._lock:
            if self._file >= 0:
                with suppress(OSError):
                    self._take_back()
            self._closer()
            self._file = -1

    def _take_back(self) -> None:
        """Where nothing stands behind the head of this recording: that goes, with the file if it is all it holds."""
        found = os.fstat(self._file)
        if found.st_size != self._head or not stat.S_ISREG(found.st_mode):
            return
        os.ftruncate(self._file, self._began)
        if not self._began and os.path.samestat(found, os.stat(self.path)):
            self.path.unlink()


class Recorded(msgspec.Struct, frozen=True):
    """One recording of a file: its head and its lines."""

    take: Take
    lines: tuple[Line, ...]


class Contents(msgspec.Struct, frozen=True):
    """What a file holds. ``cut``: what was left out at its end, for a person to read; empty if nothing was."""

    path: str
    takes: tuple[Recorded, ...]
    cut: str = ""

    def of(self, holds: str) -> tuple[Recorded, ...]:
        """The recordings of that kind. Raises :class:`CassetteError` where there is none."""
        found = tuple(take for take in self.takes if take.take.holds == holds)
        if not found:
            wanted = {"http": "traffic with a server", "run": "a whole run"}[holds]
            raise CassetteError(f"{self.path} holds no {wanted}: it was recorded in another way; name another file")
        return found


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a cassette. A last line that a crash has cut is left out and told in ``cut``.

    Raises :class:`CassetteError`, with the line, for whatever else is not a cassette of this version.
    """
    try:
        with Path(path).open("rb") as file:
            return parse(str(path), iter(lambda: file.readline(MAX_LINE + 1), b""))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CassetteError(f"the cassette {path} cannot be read: {why}; record it first, or name another") from error


def parse(path: str, lines: Iterable[bytes]) -> Contents:
    """The same for lines that are there already."""
    takes: list[tuple[Take, list[Line]]] = []
    cut = ""
    for number, raw in enumerate(lines, 1):
        if cut:
            raise CassetteError(f"{path}, line {number - 1}: not a line of a cassette, and not the last one")
        if len(raw) > MAX_LINE:
            raise CassetteError(f"{path}, line {number}: longer than {MAX_LINE >> 20} MB")
        try:
            line: Line = _decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            if not raw.endswith(b"\n") and takes:
                cut = f"line {number} was cut off and is left out ({len(raw)} bytes)"
                continue
            raise CassetteError(f"{path}, line {number}: not a line of a cassette: {error}") from error
        if isinstance(line, Take):
            if line.version != FORMAT:
                raise CassetteError(
                    f"{path}, line {number}: format {line.version}; this version reads {FORMAT}: record it anew"
                )
            takes.append((line, []))
        elif not takes:
            raise CassetteError(f"{path}, line {number}: a cassette begins with a line of the type cassette")
        else:
            takes[-1][1].append(line)
    if not takes:
        raise CassetteError(f"{path} is empty: record the cassette anew")
    return Contents(path, tuple(Recorded(take, tuple(found)) for take, found in takes), cut)


def _opened(path: Path, adding: Adding) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        file = os.open(path, flags | (os.O_EXCL if adding == "once" else 0), 0o600)
    except FileExistsError as error:
        raise CassetteError(
            f"the cassette {path} is there already: add to it, remove it, or name another file"
        ) from error
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CassetteError(f"the cassette {path} cannot be written: {why}; name another file") from error
    try:
        if os.fstat(file).st_size:
            _mend(path, file)
    except BaseException:
        os.close(file)
        raise
    return file


def _mend(path: Path, file: int) -> None:
    """Take away what a crash has cut off at the end. A file that is no cassette is not touched."""
    cut = read(path).cut
    data = path.read_bytes()
    if cut:
        os.ftruncate(file, data.rfind(b"\n") + 1)
    elif not data.endswith(b"\n"):
        os.write(file, b"\n")


def _version() -> str:
    from .. import __version__

    return f"watchkeeper {__version__}"
