"""Facts as bytes and back, with large values kept apart. Pure.

A batch of facts is one text of JSON Lines. A string of more than 64 KB in a line is taken out and known by its hash;
what stands in its place is a byte that JSON cannot hold, and the hash. Equal values, as a result and its copy in the
history of the outcome, are kept once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

from ..messages import Event, decode_event, encode_events

LARGE = 64 * 1024
"""Bytes of a string, as JSON, from which it is kept apart."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_REFERENCE = re.compile(rb"\x01([0-9a-f]{64})")


def packed(events: Sequence[Event]) -> tuple[bytes, dict[bytes, bytes]]:
    """The lines, and by their hash the values that were taken out."""
    whole = encode_events(events)
    apart: dict[bytes, bytes] = {}
    if len(whole) <= LARGE:
        return whole, apart
    lines = []
    for line in whole.split(b"\n"):
        if len(line) > LARGE:
            line = _STRING.sub(lambda found: _taken(found[0], apart), line)
        lines.append(line)
    return b"\n".join(lines), apart


def unpacked(lines: bytes, value: Callable[[bytes], bytes]) -> list[Event]:
    """The facts; ``value`` gives what was taken out, by its hash."""
    found = []
    for line in lines.split(b"\n"):
        if b"\x01" in line:
            line = _REFERENCE.sub(lambda found: value(bytes.fromhex(found[1].decode())), line)
        found.append(decode_event(line))
    return found


def _taken(text: bytes, apart: dict[bytes, bytes]) -> bytes:
    if len(text) <= LARGE:
        return text
    digest = hashlib.sha256(text)
    apart[digest.digest()] = text
    return b"\x01" + digest.hexdigest().encode()
