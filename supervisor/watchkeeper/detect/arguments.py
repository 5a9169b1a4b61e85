"""Arguments as detectors compare them: parts in an order of their own, in one spelling."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from functools import lru_cache
from typing import Any

import msgspec

from ..fingerprint import digest
from .volatile import masked

LONGEST = 2000
NAME = 100
"""Characters of a name that are looked at."""
DEEPEST = 8
FEW = 400
"""Characters of arguments up to which their parts are remembered for a while."""
MOST = 64
"""Values that are looked at."""

_WHY = re.compile(
    r"(?:\w+\.)*(?:reason|reasoning|thoughts?|thinking|explanation|justification|rationale|intent"
    r"|purpose|why): .*\s"
)
"""A value in words that says why a call is made: part of the talk, not of the call."""
_POINTER = re.compile(r"(?:\w+\.)*(start|end|)_?ref: [a-z]{0,2}\d+(?:[a-z]\d+)?", re.IGNORECASE)
"""Where something is in the last picture of a page: a new one in each picture, and beside it stands what it is."""
_POINTED_AT = re.compile(r"(?:\w+\.)*(?:start|end|)_?element: .*[a-z]{2}", re.IGNORECASE)
_SNAPSHOT = re.compile(r"((?:\w+\.)*(?:ref|uid): )(?:s\d+(?=e\d)|\d+_(?=\d+$))", re.IGNORECASE)
"""The number of the picture, before that of the thing in it."""
_decode = msgspec.json.Decoder().decode
_SPACES = re.compile(r"\s+")
_DETOURS = re.compile(r"(?<![\w.:/-])(?:\./)+|(?<=/)(?:\./)+|(?<=[\w.])/+(?=/[\w.])|(?<=[\w.])/+(?=$|[\s\"'])")
_BACK = re.compile(r"(?:(?<=/)|(?<![\w./-]))[\w-]+/\.\./")


def spelling(tool: str, arguments: str) -> str:
    """What calls have in common that differ in volatile parts only: a digest of the tool and its arguments, in one
    spelling and without those parts."""
    return f"{tool} {digest(chr(10).join(map(masked, parts_of(arguments))).encode('utf-8', 'replace'))}"


def parts_of(arguments: str) -> list[str]:
    """The arguments as ``name:value`` parts, not to be changed. What is no JSON is one part. Never raises."""
    return _parts_of_few(arguments) if len(arguments) <= FEW else _parts_of(arguments)


def _parts_of(arguments: str) -> list[str]:
    found: list[str] = []
    try:
        _flatten("", _decode(arguments), 0, found)
    except (msgspec.DecodeError, RecursionError, UnicodeError):  # half a character is no JSON
        return [spelled(arguments[:LONGEST])]
    if len(found) > 1:
        found = [part for part in found if not _WHY.match(part)] or found
    if "ref" in arguments or "Ref" in arguments or "uid" in arguments:
        found = _unpictured(found)
    found.sort()
    return found


def _unpictured(parts: list[str]) -> list[str]:
    """What a call points at in a page, whichever picture of the page it was taken from."""
    if any(map(_POINTED_AT.match, parts)):
        parts = [part for part in parts if not _POINTER.fullmatch(part)]
    return [_SNAPSHOT.sub(r"\1", part) for part in parts]


_parts_of_few = lru_cache(maxsize=64)(_parts_of)
"""The last calls are compared with each new one."""


def spelled(text: str) -> str:
    """A string in one spelling: composed characters, single spaces, no detours in paths (``./``, ``//``, ``a/../``)."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text[:LONGEST])[:LONGEST]
    text = text.strip()
    if "  " in text or not text.isprintable():
        text = _SPACES.sub(" ", text)
    if "./" in text or "//" in text or "/ " in text or text[-1:] == "/":
        text = _DETOURS.sub("", _BACK.sub("", text))
    return text


def _flatten(name: str, value: Any, depth: int, found: list[str]) -> None:
    if len(found) >= MOST:
        return
    if isinstance(value, dict) and depth < DEEPEST:
        for key, inner in value.items():
            key = f"{name}.{key[:NAME]}" if name else key[:NAME]
            if type(inner) is str and inner[:1] not in "{[" and len(found) < MOST:  # by far the most frequent
                found.append(f"{key}: {spelled(inner[:LONGEST])}")
            else:
                _flatten(key, inner, depth + 1, found)
    elif isinstance(value, list) and depth < DEEPEST:
        for inner in value:
            _flatten(name, inner, depth + 1, found)
    elif isinstance(value, str):
        if value[:1] in "{[" and depth < DEEPEST and len(value) <= LONGEST:
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                _flatten(name, _decode(value), depth + 1, found)
                return
        found.append(f"{name}: {spelled(value[:LONGEST])}")
    elif isinstance(value, float) and value.is_integer():
        found.append(f"{name}: {int(value)}")
    else:
        found.append(f"{name}: {value}")
