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
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH
    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False, width=width)
    console.print(table(heads, rows, widest=widest))


def table(heads: Sequence[str], rows: Iterable[Row], *, widest: int = 0) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, head in enumerate(heads):
        made.add_column(head, min_width=24 if number == widest else None)
    for row in rows:
        made.add_row(*(Text(text, style=STYLES[style]) for text, style in row))
    return made
