"""The first page of the help, as cyclopts prints it, without what takes long to load: cyclopts and rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from .commands import COMMANDS, EPILOGUE, GROUPS, HELP, OTHERS, RECORDS, RUNS, SERVICE

FLAGS = (("--help (-h)", "Display this message and exit."), ("--version", "Display application version."))
UNUSUAL = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE")
"""Variables that say how to print: rich knows what they mean."""
PLAIN_TERMINALS = ("dumb", "unknown")
LEAST = 60
"""Columns from which on all names have room beside what is said of them."""
GAP = "  "
BOLD, NAMED = 1, 36
"""How a terminal is told to write something bold, and a name in its own colour."""


def can_print() -> bool:
    """It is printed into a file, a pipe or a terminal as most are."""
    return (
        sys.platform != "win32"
        and (sys.stdout.encoding or "").lower().startswith("utf")
        and os.environ.get("TERM", "").lower() not in PLAIN_TERMINALS
        and not any(name in os.environ for name in UNUSUAL)
        and _width() >= LEAST
    )


def print_page() -> None:
    for line in lines(_width(), coloured=sys.stdout.isatty()):
        print(line)


def lines(width: int, *, coloured: bool = False) -> Iterator[str]:
    """The page, in so many columns."""

    def styled(text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if coloured else text

    yield styled("Usage: ", BOLD) + styled("watchkeeper COMMAND", BOLD)
    yield from ("", HELP, "")
    for title, entries in _panels():
        yield f"╭─ {title} ".ljust(width - 1, "─") + "╮"
        longest = max(len(name) for name, _ in entries)
        room = width - longest - len(GAP) - len("│  │")
        for name, purpose in entries:
            shown = styled(name.ljust(longest), NAMED) + styled(GAP, NAMED)
            for part in _wrapped(purpose, room):
                yield f"│ {shown}{part.ljust(room)} │"
                shown = styled(" " * longest + GAP, NAMED)
        yield "╰".ljust(width - 1, "─") + "╯"
    yield ""
    yield from _wrapped(EPILOGUE, width)


def _panels() -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    """The title of each, its names and what is said of them."""
    yield "Commands", FLAGS
    commands = sorted(
        [
            *((name, of, purpose) for name, _, of, purpose, _ in COMMANDS),
            *((name, of, purpose) for name, of, purpose, _ in GROUPS),
        ]
    )
    for title in (RUNS, SERVICE, RECORDS, OTHERS):
        yield title, [(name, purpose) for name, of, purpose in commands if of == title]


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Its lines; one that ends before the last word keeps the space behind it, if there is room."""
    line = ""
    for word in text.split(" "):
        if len(line) + len(word) > width:
            yield line[:width]
            line = ""
        line += f"{word} "
    yield line[:-1]


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns) or 80
    for stream in (0, 1, 2):
        try:
            return os.get_terminal_size(stream).columns or 80
        except (OSError, ValueError):
            continue
    return 80
