"""The lock of a worker's file: who holds it owns the file, for as long as the process lives."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from ..engine import EngineError

PATIENCE = 0.5
"""Seconds to try for: whoever only asks whether it is free holds it for a moment."""


class Lock:
    """Held from the beginning to :meth:`release`, or to the end of the process, however that ends.

    Raises :class:`EngineError` if another holds it, with the number of its process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EngineError(
                f"{path} cannot be used: {error.strerror}; check that this user may write there"
            ) from error
        until = time.monotonic() + PATIENCE
        while not _try(self._file):
            if time.monotonic() > until:
                holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
                os.close(self._file)
                raise EngineError(
                    f"{path} is held by another process{f' ({holder})' if holder.isdigit() else ''}: "
                    "a worker's name is for one process at a time; end that one, or take another name"
                )
            time.sleep(0.01)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def stands(self) -> bool:
        """The file is still where others look for it."""
        if self._file is None:
            return False
        try:
            there, ours = os.stat(self._path), os.fstat(self._file)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_held(path: Path) -> bool:
    """Whether a process holds this lock."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try(file)
    finally:
        os.close(file)


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
