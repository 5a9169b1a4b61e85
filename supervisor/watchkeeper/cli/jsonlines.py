"""All facts of a run as JSON Lines, into a file or onto standard output."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from ..log import Gap
from ..messages import encode_event
from ..run import Run
from .exits import CommandError
from .printable import safe_json


class JsonLines:
    """Writes every fact of a run, from the first to its end record, each batch flushed when it is written.

    It *must* see everything: the run's log keeps for it what it has not taken yet, and no new call starts while it is
    more than a thousand facts behind. Where writing fails, it says so once to ``on_error`` and holds nothing back any
    more.
    """

    def __init__(
        self, run: Run, name: str, file: BinaryIO, on_error: Callable[[OSError], None], *, safe: bool = False
    ) -> None:
        self._reader = run.log.reader(name, must=True)
        self._file = file
        self._on_error = on_error
        self._safe = safe

    async def follow(self) -> None:
        """Until the log's end."""
        reader = self._reader
        try:
            while batch := await reader.take():
                lines = [encode_event(event) for event in batch if not isinstance(event, Gap)]
                await anyio.to_thread.run_sync(self._write, lines)
                reader.done()
        except OSError as error:
            self._on_error(error)
        finally:
            reader.close()

    def _write(self, lines: list[bytes]) -> None:
        if self._safe:
            lines = [safe_json(line) for line in lines]
        self._file.write(b"".join(line + b"\n" for line in lines))
        self._file.flush()


def open_events(path: Path, stack: contextlib.ExitStack) -> BinaryIO:
    """A new file that ``stack`` closes, or a :class:`CommandError` that says why there can be none."""
    try:
        file = path.open("wb")
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(f"--events {path}: {why}; name a file that can be written") from error
    stack.callback(_close, file)
    return file


def _close(file: BinaryIO) -> None:
    with contextlib.suppress(OSError):  # all was flushed; what could not be written has been told
        file.close()
