"""Where in a TOML file something stands, for messages about it."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]")
_KEY = re.compile(r"\s*([\w\"'.-]+)\s*=")


def line_of(text: str, path: str) -> int | None:
    """The line, from 1, of what a path such as ``rules[1].decision`` or ``rates.look`` names, or of the table
    that it is in; None where neither is found. Inside of inline tables only the line on which they begin is known."""
    path = _plain(path)
    table, best, length = "", None, 0
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _plain(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = f"{table}[{counts[table]}]"
            here = table
        elif key := _KEY.match(line):
            here = f"{table}.{_plain(key[1])}" if table else _plain(key[1])
        else:
            continue
        if len(here) > length and (path == here or path.startswith((f"{here}.", f"{here}["))):
            best, length = number, len(here)
    return best


def _plain(name: str) -> str:
    return re.sub(r"[\"'\s]", "", name)
