"""How far long work has come, on standard error if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn

PATIENCE = 0.7
"""Seconds of work that are not worth a bar."""
EVERY = 0.1
"""Seconds between two drawings."""


class Drawn:
    """A bar that is drawn by the work itself, so that there is no thread (a process with threads is not to be forked),
    and that goes away at the end. Nothing is loaded and drawn unless it takes a while."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._on = bool(sys.stderr and sys.stderr.isatty())
        self._begun = self._drawn = time.monotonic()
        self._done = 0
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.stop()

    def advance(self, by: int = 1) -> None:
        self._done += by
        now = time.monotonic()
        if not self._on or now - self._begun < PATIENCE or now - self._drawn < EVERY:
            return
        self._drawn = now
        with contextlib.suppress(OSError):
            bar = self._bar = self._bar or self._made()
            bar.update(bar.task_ids[0], completed=self._done, besides=self._besides())
            bar.refresh()

    def _made(self) -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            *self._columns(),
            console=Console(file=sys.stderr),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task(self._what, total=self._total(), besides="")
        bar.start()
        return bar

    def _columns(self) -> Iterable[ProgressColumn]:
        """What stands behind the bar."""
        raise NotImplementedError

    def _total(self) -> float | None:
        """How much there is to do, if that is known."""
        raise NotImplementedError

    def _besides(self) -> str:
        return ""


class Counted(Drawn):
    """Work on so many things."""

    def __init__(self, total: int | None, what: str) -> None:
        super().__init__(what)
        self._number = total

    def _columns(self) -> Iterable[ProgressColumn]:
        from rich.progress import MofNCompleteColumn

        return (MofNCompleteColumn(),)

    def _total(self) -> float | None:
        return self._number


class Progress(Drawn):
    """The reading of files, in bytes, and how many runs are judged."""

    def __init__(self, files: Iterable[Path]) -> None:
        super().__init__("judging")
        self._files = list(files)
        self._mixed = self._on and sys.stdout.isatty()
        self._runs = 0

    def run(self) -> None:
        """One more run is judged."""
        self._runs += 1

    def clear(self) -> None:
        """Make room for a line on standard output, if that is the same terminal."""
        if self._bar is not None and self._mixed:
            sys.stdout.flush()
            with contextlib.suppress(OSError):
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()

    def _columns(self) -> Iterable[ProgressColumn]:
        from rich.progress import TaskProgressColumn, TextColumn, TimeRemainingColumn

        return (TaskProgressColumn(), TextColumn("{task.fields[besides]}"), TimeRemainingColumn())

    def _total(self) -> float | None:
        total = 0
        for file in self._files:
            with contextlib.suppress(OSError):
                total += file.stat().st_size
        return total or None

    def _besides(self) -> str:
        return f"{self._runs:,} runs"
