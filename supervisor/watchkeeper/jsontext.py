"""Strict JSON out of hostile text: bounded in depth and digits, each key once, nothing guessed."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_DEPTH = 64
MAX_DIGITS = 400
"""Digits of one whole number."""
SHOWN = 40


class NotJSON(ValueError):
    """Raised for text that is not one strict JSON value; ``incomplete`` if it breaks off in the middle of one."""

    def __init__(self, message: str, *, incomplete: bool = False) -> None:
        super().__init__(message)
        self.incomplete = incomplete


def decode(text: str) -> Any:
    """The value of a text that is one JSON value and nothing else. Raises :class:`NotJSON`."""
    value, end = decode_first(text)
    if text[end:].strip():
        raise NotJSON(f"there is more after the JSON (char {end})")
    return value


def decode_first(text: str) -> tuple[Any, int]:
    """The JSON value with which the text begins, and where it ends. Raises :class:`NotJSON`, whatever the text is."""
    if too_deep(text):
        raise NotJSON(f"the JSON is nested more than {MAX_DEPTH} levels deep")
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = _decoder.raw_decode(text, start)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # lone surrogates hide in escapes
    except json.JSONDecodeError as error:
        if _breaks_off(text, error):
            message = f"the JSON is not complete: the text breaks off (char {error.pos})"
            raise NotJSON(message, incomplete=True) from None
        raise NotJSON(f"the JSON is not valid: {error.msg} (char {error.pos})") from None
    except UnicodeError:
        raise NotJSON("the text holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise NotJSON(f"the JSON is nested more than {MAX_DEPTH} levels deep") from None
    return value, end


def too_deep(text: str) -> bool:
    """Brackets of the first value, outside strings, go deeper than :data:`MAX_DEPTH`. Linear in that value: it runs
    before any recursive parser, also at many places of one text."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _BRACKETS.finditer(text):
        found = match.group()
        if found in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif found in "]}":
            depth -= 1
            if depth <= 0:  # the value ends here, or no parser comes this far
                return False
    return False


_SPACE = " \t\n\r"
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_CUT = re.compile(r"-|t|tr|tru|f|fa|fal|fals|n|nu|nul|\.|[eE][+-]?|u[0-9a-fA-F]{0,4}")
"""What is left of a word, a number or an escape that is cut in the middle."""


def _breaks_off(text: str, error: json.JSONDecodeError) -> bool:
    """The error is at the end of the text: more of it could have made it valid."""
    rest = text[error.pos :].rstrip(_SPACE)
    return not rest or error.msg.startswith("Unterminated") or _CUT.fullmatch(rest) is not None


def _no_constant(name: str) -> Any:
    raise NotJSON(f"{name} is not a JSON number")


def _no_infinity(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise NotJSON(f"the number {text[:SHOWN]} is out of range")
    return number


def _bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise NotJSON(f"the number {text[:20]}… has {len(text)} digits; at most {MAX_DIGITS} are read")
    return int(text)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotJSON(f"the key {key[:SHOWN]!a} stands there twice; send it once")
            seen.add(key)
    return found


_decoder = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_no_infinity, parse_int=_bounded_int
)
