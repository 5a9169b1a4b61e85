"""A question to the person at the terminal. Without a terminal none is asked."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import anyio.to_thread

from .exits import CommandError

SHOWN = 20
"""Lines of what it is about that are shown."""


def at_terminal() -> bool:
    """Somebody can be asked: standard input and error are a terminal."""
    try:
        return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())
    except ValueError:  # one of them is closed
        return False


async def may(question: str, about: Sequence[str] = (), *, remedy: str) -> bool:
    """Whether the answer is yes. Raises :class:`CommandError`, with the remedy, where nobody can be asked."""
    if not at_terminal():
        raise CommandError(f"{question} there is no terminal to ask at: give {remedy}")
    more = len(about) - SHOWN
    lines = [*about[:SHOWN], *([f"… and {more} more"] if more > 0 else ())]
    return await anyio.to_thread.run_sync(_asked, question, lines, abandon_on_cancel=True)


def _asked(question: str, lines: Sequence[str]) -> bool:
    sys.stderr.write("".join(f"{one}\n" for one in lines) + f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
