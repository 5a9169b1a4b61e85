"""Matching lines of text, in this process or in a child of its own.

A regular expression can take for ever, holds the interpreter while it does and cannot be interrupted: one written by
a model is only ever matched in a child process, which can be killed. The child runs this file as a script, so that
nothing but the standard library is imported here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable

MAX_SHOWN = 300
"""Characters shown of a line that matches, around the match."""

File = tuple[str, bytes]
Hit = tuple[str, int, str]
"""Path, number of the line from 1, text."""


def find(pattern: re.Pattern[str], files: Iterable[File], limit: int) -> list[Hit]:
    """The first ``limit`` lines that the pattern is found in."""
    hits: list[Hit] = []
    for path, data in files:
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            match = pattern.search(line)
            if match is None:
                continue
            start = max(0, match.start() - MAX_SHOWN // 3)
            hits.append((path, number, line[start : start + MAX_SHOWN].rstrip("\r")))
            if len(hits) == limit:
                return hits
    return hits


def pack(pattern: str, ignore_case: bool, files: list[File], limit: int) -> bytes:
    """A request to the child: one line of JSON, then the files' bytes one after the other."""
    sizes = [(path, len(data)) for path, data in files]
    head = json.dumps({"pattern": pattern, "ignore_case": ignore_case, "limit": limit, "files": sizes})
    return head.encode() + b"\n" + b"".join(data for _, data in files)


def main() -> None:
    """The child: answers with a list of hits or with ``{"error": …}``, as JSON."""
    request = json.loads(sys.stdin.buffer.readline())
    files = ((path, sys.stdin.buffer.read(size)) for path, size in request["files"])
    try:
        pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        answer: object = {"error": str(error) or type(error).__name__}
    else:
        answer = find(pattern, files, request["limit"])
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
