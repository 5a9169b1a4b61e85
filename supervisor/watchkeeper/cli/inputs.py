"""The files that a command is given to read, each once."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

from .complaints import Complaints
from .exits import complain
from .printable import count, one_line
from .recordings import Problem, files_of


def inputs(paths: Iterable[Path], complaints: Complaints) -> list[Path]:
    """The files that are meant; what is wrong with the others is told, and which of them are meant twice: a run must
    not count as two."""
    found: dict[object, Path] = {}
    again: list[Path] = []
    for path in files_of(paths):
        if isinstance(path, Problem):
            complaints.tell(path)
        elif (which := _identity(path)) in found:
            again.append(path)
        else:
            found[which] = path
    if again:
        others = f", and {count(len(again) - 1, 'other')} too" if len(again) > 1 else ""
        complain(one_line(f"{again[0]} is given more than once{others}: read once", 400))
    return list(found.values())


def _identity(path: Path) -> object:
    """What is equal for two names of one file; what is no ordinary file is another one each time."""
    try:
        about = path.stat()
    except (OSError, ValueError):
        return object()
    return (about.st_dev, about.st_ino) if stat.S_ISREG(about.st_mode) else object()
