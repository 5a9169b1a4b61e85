"""How far the reading of files has come, on standard error if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PATIENCE = 0.7
"""Seconds of work that are not worth a bar."""
EVERY = 0.1
"""Seconds between two drawings."""


class Progress:
    """A bar that is drawn by the work itself, so that there is no thread (a process with threads is not to be forked),
    and that goes away at the end. Nothing is loaded and drawn unless it takes a while."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = list(files)
        self._on = bool(sys.stderr and sys.stderr.isatty())
        self._mixed = self._on and sys.stdout.isatty()
        self._begun = self._drawn = time.monotonic()
        self._bar: Bar | None = None
        self._taken = 0
        self._runs = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.stop()

    def run(self) -> None:
        """One more run is judged."""
        self._runs += 1

    def advance(self, taken: int) -> None:
        """So many bytes more are read."""
        self._taken += taken
        now = time.monotonic()
        if not self._on or now - self._begun < PATIENCE or now - self._drawn < EVERY:
            return
        self._drawn = now
        with contextlib.suppress(OSError):
            bar = self._bar = self._bar or self._made()
            bar.update(bar.task_ids[0], completed=self._taken, runs=f"{self._runs:,} runs")
            bar.refresh()

    def clear(self) -> None:
        """Make room for a line on standard output, if that is the same terminal."""
        if self._bar is not None and self._mixed:
            sys.stdout.flush()
            with contextlib.suppress(OSError):
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()

    def _made(self) -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[runs]}"),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task("judging", total=self._total() or None, runs="")
        bar.start()
        return bar

    def _total(self) -> int:
        total = 0
        for file in self._files:
            with contextlib.suppress(OSError):
                total += file.stat().st_size
        return total
