"""JSON on standard output: an object a line, safe to show on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from .printable import safe_json


def print_objects(objects: Iterable[Any]) -> None:
    print_lines(map(encoded, objects))


def print_object(one: Any) -> None:
    print_objects((one,))


def print_lines(lines: Iterable[bytes]) -> None:
    at_terminal = sys.stdout.isatty()
    for line in lines:
        sys.stdout.write((safe_json(line) if at_terminal else line).decode("utf-8", "replace") + "\n")
    sys.stdout.flush()


def encoded(one: Any) -> bytes:
    try:
        return msgspec.json.encode(one)
    except UnicodeEncodeError:  # half a character, which JSON text cannot hold
        from ..messages import mended

        return msgspec.json.encode(mended(msgspec.to_builtins(one)))
