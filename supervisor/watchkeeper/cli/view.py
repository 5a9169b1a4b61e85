"""Shows a run while it goes on: in place on a terminal, line by line anywhere else."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING

import anyio
import anyio.to_thread

from .board import Board
from .narrator import Line, Narrator

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from ..run import Run

EVERY = 0.12
"""Seconds between two pictures of what changes in place."""
STYLES = {"plain": "", "dim": "dim", "good": "green", "warn": "yellow", "bad": "red", "head": "bold"}


class View:
    """Where lines go; this one shows nothing. ``print`` and ``picture`` may block: they are called in threads."""

    in_place = False
    """While it is ``live`` there is a part that changes in place: the ``picture``."""

    def live(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def print(self, lines: Iterable[Line]) -> None:
        pass

    def picture(self, lines: Sequence[str]) -> None:
        pass

    def aside(self) -> AbstractContextManager[object]:
        """While somebody else writes to the same terminal the picture is gone."""
        return contextlib.nullcontext()


class Plain(View):
    """Lines without colour, for pipes, files and terminals that can do nothing else."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def print(self, lines: Iterable[Line]) -> None:
        self._stream.write("".join(f"{one.text}\n" for one in lines))
        self._stream.flush()


class Terminal(View):
    """Lines in colour, and below them a picture that changes in place."""

    in_place = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        from rich.live import Live

        with Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False) as self._live:
            yield
        self._live = None

    def print(self, lines: Iterable[Line]) -> None:
        from rich.console import Group
        from rich.text import Text

        texts = [
            Text.assemble(
                *((text, STYLES[style]) for text, style in one.parts), no_wrap=not one.wrap, overflow="ellipsis"
            )
            for one in lines
        ]
        self._console.print(Group(*texts))

    def picture(self, lines: Sequence[str]) -> None:
        from rich.text import Text

        if self._live is not None:
            text = Text("\n".join(lines), style="cyan", no_wrap=True, overflow="ellipsis")
            self._live.update(text, refresh=True)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        live = self._live
        if live is not None:
            live.update("", refresh=True)
            live.stop()
        try:
            yield
        finally:
            if live is not None and self._live is live:
                live.start()


class Careful(View):
    """A view that outlives its stream: where writing fails it says so once, and shows nothing any more. While somebody
    else has the terminal (``aside``), what is to be shown waits."""

    def __init__(self, view: View, on_error: Callable[[OSError], None]) -> None:
        self._view = view
        self._on_error = on_error
        self._terminal = threading.Lock()

    @property
    def in_place(self) -> bool:  # type: ignore[override]
        return self._view.in_place

    def live(self) -> AbstractContextManager[object]:
        return self._view.live()

    def print(self, lines: Iterable[Line]) -> None:
        try:
            with self._terminal:
                self._view.print(lines)
        except OSError as error:
            self._give_up(error)

    def picture(self, lines: Sequence[str]) -> None:
        try:
            with self._terminal:
                self._view.picture(lines)
        except OSError as error:
            self._give_up(error)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        with self._terminal, self._view.aside():
            yield

    def _give_up(self, error: OSError) -> None:
        self._view = View()
        self._on_error(error)


def view_on(stream: IO[str]) -> View:
    """The view that fits where ``stream`` leads."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return Plain(stream)
    from rich.console import Console

    return Terminal(Console(file=stream, markup=False, emoji=False, highlight=False))


async def show(run: Run, view: View) -> None:
    """Follow a run to its end. It never holds the run up: if the terminal is slow, it skips facts and says so."""
    narrator, board = Narrator(), Board()
    reader = run.log.reader("view")
    with contextlib.closing(reader), view.live():
        async with anyio.create_task_group() as tasks:
            if view.in_place:
                tasks.start_soon(_keep_current, run, view, board)
            while batch := await reader.take():
                lines: list[Line] = []
                for event in batch:
                    board.observe(event)
                    lines.extend(narrator.tell(event))
                if lines:
                    await anyio.to_thread.run_sync(view.print, lines)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(view.picture, ())


async def _keep_current(run: Run, view: View, board: Board) -> None:
    while True:
        await anyio.to_thread.run_sync(view.picture, board.lines(run.seams.clock() - run.began))
        await anyio.sleep(EVERY)
