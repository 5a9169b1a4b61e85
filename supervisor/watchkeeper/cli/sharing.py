"""Shares the reading of files among processes where that is worth their start."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from .crew import Crew, cores
from .recordings import Batch, batches, holds_log

Given = TypeVar("Given")

WORTH_IT = 3 << 20
"""Bytes (a gzipped one counts as :data:`PACKED`) from which on processes are started: about half a second of work."""
PACKED = 6
READ_ONCE = 1 << 62
"""What is no ordinary file may be of any size."""


def shared(work: Callable[[Batch | Path], Given], files: list[Path], jobs: int | None = None) -> Generator[Given]:
    """What ``work`` makes of the batches of all files, in their order; of a log it may get the file as a whole.

    ``jobs``: processes to use; None: as many as there are cores, unless the files are small.
    """
    number = jobs if jobs is not None else cores() if _size(files) >= WORTH_IT else 1
    if number <= 1 or not files or (len(files) == 1 and holds_log(files[0])):
        yield from map(work, _units(files, whole_logs=False))
        return
    crew: Crew[Batch | Path, Given] = Crew(work, number, _where)
    try:
        yield from crew.map(_units(files, whole_logs=True))
    finally:
        crew.close()


def _units(files: Iterable[Path], *, whole_logs: bool) -> Iterator[Batch | Path]:
    for file in files:
        if whole_logs and holds_log(file):
            yield file
        else:
            yield from batches(file)


def _where(unit: Batch | Path) -> str:
    if isinstance(unit, Path):
        return str(unit)
    lines = [line for line in unit.lines if isinstance(line[0], int)]
    return f"{unit.file}:{lines[0][0]}" if lines else unit.file


def _size(files: Iterable[Path]) -> int:
    size = 0
    for file in files:
        try:
            if not file.is_file():
                return READ_ONCE if file.exists() else size
            size += file.stat().st_size * (PACKED if file.suffix == ".gz" else 1)
        except OSError:
            continue
    return size
