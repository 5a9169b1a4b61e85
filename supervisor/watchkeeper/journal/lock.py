"""The lock of a worker's file: who holds it owns the file, for as long as the process lives."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import anyio

from ..engine import EngineError
from .database import cannot

TRIES = 25
PAUSE = 0.02
"""Seconds between two tries: whoever only asks whether it is free holds it for a moment."""
MOMENT = 0.1
"""Seconds for which it is taken to stand as it was seen to stand. What is written is held to it at that very time."""


class Lock:
    """Once taken it is held to :meth:`release`, or to the end of the process, however that ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._looked = float("-inf")
        self._stood = False

    async def take(self) -> None:
        """Raises :class:`EngineError` if another process holds it, with its number, or if the file cannot be made."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise cannot(self._path, error) from error
        try:
            for left in reversed(range(TRIES)):
                if _try(file):
                    break
                if not left:
                    raise self._held(os.pread(file, 32, 0).decode("ascii", "replace").strip())
                await anyio.sleep(PAUSE)
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(file)
            raise cannot(self._path, error) from error
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def _held(self, holder: str) -> EngineError:
        return EngineError(
            f"{self._path} is held by another process{f' ({holder})' if holder.isdigit() else ''}: "
            "a worker's name is for one process at a time; end that one, or take another name"
        )

    def stands(self) -> bool:
        """The file is still where others look for it."""
        self._looked, self._stood = time.monotonic(), self._is_there()
        return self._stood

    def stood(self) -> bool:
        """The same, a moment ago. For the event loop's thread: a call of the system lets all other threads go first,
        and with a thousand runs that ask the loop did little else than wait for its turn."""
        if self._file is None:
            return False
        if time.monotonic() - self._looked > MOMENT:
            self.stands()
        return self._stood

    def _is_there(self) -> bool:
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
