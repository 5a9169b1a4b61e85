"""Rows on standard output: a table at a terminal, plain columns anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .narrator import Style

Cell = tuple[str, "Style"]


LEAST = 16
"""Columns of a terminal that the last one of a table has at least."""
GAP = 2


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[Cell]], spare: Sequence[str] = ()) -> None:
    """At a terminal as much as fits: of ``spare``, which is ordered, the first are left out first. In a pipe
    nothing is left out or cut."""
    if sys.stdout.isatty():
        from .tables import print_fitted

        print_fitted(heads, rows, spare)
        return
    for line in plain(heads, [[text for text, _ in row] for row in rows]):
        print(line)


def kept(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, spare: Sequence[str]
) -> tuple[list[int], int]:
    """The columns that fit into a terminal of that width, and the room that the last of them has. Those in the middle
    with nothing in them are left out in any case."""
    widths = [max(len(text) for text in (head, *(row[place] for row in rows))) for place, head in enumerate(heads)]
    ends = (0, len(heads) - 1)
    places = [place for place in range(len(heads)) if place in ends or not rows or any(row[place] for row in rows)]
    for head in ("", *spare):
        places = [place for place in places if heads[place] != head]
        room = width - sum(widths[place] + GAP for place in places[:-1])
        if room >= min(LEAST, widths[places[-1]]):
            break
    return places, max(room, 1)


def plain(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns with two spaces between them; an empty cell is a hyphen, so that every line has as many words."""
    lines = [list(heads), *([text or "-" for text in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return [
        "  ".join([*(text.ljust(width) for text, width in zip(line[:-1], widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    ]
