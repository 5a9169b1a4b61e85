"""Older facts of a log, packed: those of a kind that every turn has are bytes until somebody reads the past. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from .messages import (
    CallAdmitted,
    CallProposed,
    CallStarted,
    Event,
    EvidenceFound,
    Held,
    ModelFirstChunk,
    ModelRequested,
    ModelStreamed,
    Settled,
    TurnStarted,
)

PACK = 32
"""Facts that are packed together."""
KINDS: tuple[type[Event], ...] = (
    TurnStarted, Held, ModelRequested, ModelFirstChunk, ModelStreamed, Settled, CallProposed, CallAdmitted, CallStarted,
    EvidenceFound,
)  # fmt: skip
"""What is packed: facts of plain fields alone. Replies and results stay as they are, for the conversation holds their
texts too, and of other kinds there are few."""

_CODES: dict[type[Event], int] = {kind: code for code, kind in enumerate(KINDS)}
_FIELDS = tuple(kind.__struct_fields__ for kind in KINDS)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_fields_of = msgspec.structs.astuple


class Pack(NamedTuple):
    """The bytes of so many facts, and those of them that are kept as they are."""

    data: bytes
    whole: tuple[Event, ...]


class Shelf:
    """Packs of the facts of one run, oldest first, without gaps. What is read is equal to what was put in."""

    __slots__ = ("_packs", "_run", "first")

    def __init__(self, run: str) -> None:
        self._run = run
        self._packs: deque[Pack] = deque()
        self.first = 1
        """Number of the oldest fact, if there is any."""

    def __len__(self) -> int:
        return len(self._packs) * PACK

    def put(self, facts: Sequence[Event]) -> None:
        """Add the next :data:`PACK` facts."""
        if not self._packs:
            self.first = facts[0].n
        self._packs.append(_packed(facts))

    def drop(self) -> None:
        """Forget the oldest :data:`PACK` facts."""
        self._packs.popleft()
        self.first += PACK

    def part(self, start: int, count: int) -> list[Event]:
        """So many facts from this place on, or as many as there are."""
        end = min(start + count, len(self))
        if start >= end:
            return []
        begin = start // PACK
        found: list[Event] = []
        for place, pack in enumerate(islice(self._packs, begin, (end - 1) // PACK + 1), begin):
            found += self._unpacked(pack, self.first + place * PACK)
        return found[start - begin * PACK : end - begin * PACK]

    def _unpacked(self, pack: Pack, first: int) -> Iterator[Event]:
        whole = iter(pack.whole)
        for n, row in enumerate(_decode(pack.data), first):
            if row is None:
                yield next(whole)
            else:
                values = (tuple(value) if type(value) is list else value for value in row[1:])
                code: int = row[0]
                fields: dict[str, Any] = dict(zip(_FIELDS[code], (n, self._run, *values), strict=True))
                yield KINDS[code](**fields)


def _packed(facts: Sequence[Event]) -> Pack:
    whole: list[Event] = []
    rows: list[tuple[Any, ...] | None] = []
    for fact in facts:
        code = _CODES.get(type(fact))
        if code is None:
            whole.append(fact)
            rows.append(None)
        else:
            rows.append((code, *_fields_of(fact)[2:]))  # without its number and the run
    try:
        return Pack(_encode(rows), tuple(whole))
    except UnicodeEncodeError:  # half a character, which only memory can hold
        return Pack(_encode([None] * len(facts)), tuple(facts))
