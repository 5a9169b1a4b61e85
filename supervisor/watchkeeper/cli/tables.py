"""Tables on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .view import STYLES

if TYPE_CHECKING:
    from rich.table import Table

    from .narrator import Style

WIDTH = 132
"""Columns where the output is no terminal and has no width of its own."""

Row = Sequence[tuple[str, "Style"]]


def print_table(heads: Sequence[str], rows: Iterable[Row], *, widest: int = 0) -> None:
    """Print a table onto standard output, as wide as its terminal; the column number ``widest`` needs most room."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None if sys.stdout.isatty() else WIDTH
    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False, width=width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, min_width=24 if number == widest else None)
    for row in rows:
        table.add_row(*(Text(text, style=STYLES[style]) for text, style in row))
    console.print(table)


def print_fitted(heads: Sequence[str], rows: Sequence[Row], spare: Sequence[str] = ()) -> None:
    """Print a table, a line for each row, in what room the terminal has."""
    from rich.console import Console

    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
    console.print(fitted(heads, rows, console.width, spare))


def fitted(heads: Sequence[str], rows: Sequence[Row], width: int, spare: Sequence[str] = ()) -> Table:
    """A table in so many columns: see :func:`.columns.kept`."""
    from rich.table import Table
    from rich.text import Text

    from .columns import GAP, kept

    places, room = kept(heads, [[text for text, _ in row] for row in rows], width, spare)
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for place in places:
        made.add_column(heads[place], no_wrap=True)
    for row in rows:
        cells = [Text(row[place][0], style=STYLES[row[place][1]], no_wrap=True) for place in places]
        cells[-1].truncate(room, overflow="ellipsis")
        made.add_row(*cells)
    return made
