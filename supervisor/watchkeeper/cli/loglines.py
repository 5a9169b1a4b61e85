"""The log lines that ``watchkeeper run`` writes beside its view."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from ..observe.lines import Format, Lines, logger_to
from ..observe.writer import Writer
from ..observers import Observer
from .exits import CommandError, complain


def lines_into(path: Path | None, format: Format, stack: contextlib.ExitStack) -> Sequence[Observer]:
    """An observer that adds lines to a file, which ``stack`` closes; none without a file. Raises
    :class:`CommandError` where it cannot be written; where that fails later on, it is said at the end."""
    if path is None:
        return ()
    try:
        file = stack.enter_context(path.open("a", encoding="utf-8", errors="replace"))
    except OSError as error:
        raise CommandError(f"--log-file {path}: {error.strerror or error}; name a file that can be written") from error
    writer = Writer(file)
    stack.callback(_close, writer, path)
    return (Lines(logger_to(writer, format)).observe,)


def _close(writer: Writer, path: Path) -> None:
    writer.close()
    if writer.failed is not None or writer.left_out:
        complain(f"--log-file {path}: not all lines could be written: {writer.failed or 'there were too many'}")
