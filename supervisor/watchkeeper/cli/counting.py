"""How far work on many things has come, on standard error if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from .progress import EVERY, PATIENCE

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress as Bar


class Counted:
    """A bar that goes away at the end. Nothing is loaded and drawn unless it takes a while."""

    def __init__(self, total: int | None, what: str) -> None:
        self._total = total
        self._what = what
        self._on = bool(sys.stderr and sys.stderr.isatty())
        self._begun = self._drawn = time.monotonic()
        self._done = 0
        self._bar: Bar | None = None

    def __enter__(self) -> Counted:
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
            bar.update(bar.task_ids[0], completed=self._done)
            bar.refresh()

    def _made(self) -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            console=Console(file=sys.stderr),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task(self._what, total=self._total)
        bar.start()
        return bar
