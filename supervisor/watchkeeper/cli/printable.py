"""Text of models and tools, made safe to show: no character of it may steer a terminal."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
"""Controls (ESC and its 8-bit forms among them), marks that reorder what is read, and halves of characters."""
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols that show nothing."""
MAX_PARSED = 20_000
"""Characters of a call's arguments that are looked into in order to show them."""


def printable(text: str) -> str:
    """Several lines of text; line ends stay, tabs become spaces, what is unsafe becomes a picture of itself."""
    return _UNSAFE.sub(_picture, text.replace("\r\n", "\n").replace("\t", "    "))


def one_line(text: str, limit: int) -> str:
    """Text in one line of at most ``limit`` characters."""
    bounded = text[: limit * 4]
    flat = " ".join(printable(bounded).split())
    return flat if len(flat) <= limit and len(text) == len(bounded) else f"{flat[: limit - 1]}…"


def identifier(text: str) -> str:
    """A name in one line and whole: it may be given back to a command."""
    return printable(text).replace("\n", "\u240a")


def first_line(text: str, limit: int) -> str:
    """The first line that is not blank, and a hint of how many follow."""
    bounded = text.strip()[: limit * 40]
    line, _, rest = bounded.partition("\n")
    more = rest.count("\n") + 1 if rest else 0
    return one_line(line, limit) + (f" (+{more} lines)" if more > 1 else " (+1 line)" if more else "")


def arguments(raw: str, limit: int) -> str:
    """The arguments of a call as ``name=value``; raw where they are not a JSON object."""
    if len(raw) <= MAX_PARSED:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return one_line(" ".join(f"{name}={_value(item)}" for name, item in value.items()), limit)
    return one_line(raw, limit)


def duration(seconds: float) -> str:
    """A time as a person reads it: ``3.2 ms``, ``0.45 s``, ``1 min 5 s``."""
    if seconds < 0.1:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def count(number: int, noun: str) -> str:
    """``1 call``, ``1,234 calls``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def safe_json(line: bytes) -> bytes:
    """A line of JSON that may be shown on a terminal: the same value, with what JSON lets through as escapes."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", line.decode()).encode()


def exact(text: str) -> str:
    """JSON text as a person must see it who decides on it: the same value, in which nothing is invisible, changes the
    order of what is read or steers the terminal. All such characters, also combining ones, are written as escapes."""
    return "".join(character if _is_plain(character) else _escape(character) for character in text)


def _is_plain(character: str) -> bool:
    if character == " " or "!" <= character <= "~":
        return True
    return character not in _BLANK and unicodedata.category(character)[0] in "LNPS"


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
