"""Rows on standard output: a table at a terminal, plain columns anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .narrator import Style

Cell = tuple[str, "Style"]


def print_rows(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """The last column takes what room there is; in a pipe nothing is cut."""
    if sys.stdout.isatty():
        from .tables import print_table

        print_table(heads, rows, widest=len(heads) - 1)
        return
    for line in plain(heads, [[text for text, _ in row] for row in rows]):
        print(line)


def plain(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns with two spaces between them; an empty cell is a hyphen, so that every line has as many words."""
    lines = [list(heads), *([text or "-" for text in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return [
        "  ".join([*(text.ljust(width) for text, width in zip(line[:-1], widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    ]
