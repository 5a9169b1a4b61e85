"""A figure with what it takes to be believed, and the page of them."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Figure(NamedTuple):
    """One row: what was tried how often, what came of it at worst, and with which seeds."""

    part: str
    what: str
    n: int
    result: str
    seeds: str
    holds: bool
    """The bar is met."""
    notes: tuple[str, ...] = ()
    """What is said below the table: survivors, faults by kind."""

    def line(self) -> str:
        return f"{'ok  ' if self.holds else 'FAIL'} {self.what}: {self.result} (n = {self.n:,}, seeds {self.seeds})"


def page(figures: list[Figure], mode: str) -> str:
    """RELIABILITY.md: nothing is on it without a number of tries."""
    assert all(figure.n > 0 for figure in figures), "a figure without n is not published"
    rows = [
        f"| {figure.what} | {figure.n:,} | {figure.result} | {figure.seeds} | {'yes' if figure.holds else '**no**'} |"
        for figure in figures
    ]
    notes = []
    for figure in figures:
        if figure.notes:
            notes += [f"## {figure.what}", "", *(f"- {note}" for note in figure.notes), ""]
    return (
        "\n".join(
            [
                "# Reliability",
                "",
                "Written by `sh scripts/reliability`; do not edit it. What each figure means, and how to get it again:",
                "[docs/reliability.md](docs/reliability.md).",
                "",
                *(f"- {line}" for line in about(mode)),
                "",
                "| what | n | worst case | seeds | bar met |",
                "| --- | --- | --- | --- | --- |",
                *rows,
                "",
                *notes,
            ]
        ).rstrip()
        + "\n"
    )


def about(mode: str) -> list[str]:
    """When, of what, and on what kind of machine."""
    names = ("anyio", "trio", "msgspec", "openai", "httpx2", "hypothesis")
    return [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, mode {mode}, watchkeeper {version('watchkeeper')}",
        f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in names)}",
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {sys.byteorder}-endian",
    ]
