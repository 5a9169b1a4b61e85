"""Older facts of a log, packed: those of a kind that every turn has are bytes until somebody reads the past. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from .messages import (
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    EvidenceFound,
    Held,
    ModelFirstChunk,
    ModelReplied,
    ModelRequested,
    ModelStreamed,
    Result,
    Settled,
    TurnStarted,
)

PACK = 16
"""Facts that are packed together."""
KINDS: dict[type[Event], tuple[str, ...]] = {
    TurnStarted: (),
    Held: (),
    ModelRequested: (),
    ModelFirstChunk: (),
    ModelStreamed: (),
    Settled: (),
    ModelReplied: ("text", "calls", "usage"),
    CallProposed: (),
    CallAdmitted: (),
    CallStarted: (),
    CallEnded: ("result",),
    EvidenceFound: (),
}
"""What is packed, and the fields that stay as they are: texts that the conversation holds too, and what is not plain;
of a result all but the text is packed, if that can be had from the conversation. Facts of other kinds are few, and stay
as they are."""

_FIRST = 2
"""Fields that are not packed: the number and the run, which are known."""


class _Form(NamedTuple):
    """How facts of a kind are packed."""

    code: int
    kind: type[Event]
    fields: tuple[str, ...]
    whole: tuple[int, ...]
    """Places of the fields that stay as they are."""
    defaults: tuple[tuple[str, object], ...]
    """Those of which there is more than one object: only the very default is left out of a line of JSON."""


def _form(code: int, kind: type[Event], whole: tuple[str, ...]) -> _Form:
    fields = kind.__struct_fields__
    defaults = zip(fields[-len(kind.__struct_defaults__) :], kind.__struct_defaults__, strict=True)
    return _Form(
        code,
        kind,
        fields,
        tuple(fields.index(name) - _FIRST + 1 for name in whole),
        tuple((name, value) for name, value in defaults if type(value) is float or (type(value) is str and value)),
    )


_FORMS = tuple(_form(code, kind, whole) for code, (kind, whole) in enumerate(KINDS.items()))
_TEXT = Result.__struct_fields__.index("content")
_FORM_OF = {form.kind: form for form in _FORMS}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_values_of = msgspec.structs.astuple


class Pack(NamedTuple):
    """The bytes of so many facts, and what of them is kept as it is, in order."""

    data: bytes
    whole: tuple[Any, ...]


class Texts(Protocol):
    """Who holds the texts of results, for good: the conversation."""

    def place_of(self, result: Result) -> int | None:
        """Where the very text of a result stands; None: it does not."""

    def text_at(self, place: int) -> str: ...


class Shelf:
    """Packs of the facts of one run, oldest first, without gaps. What is read is equal to what was put in."""

    __slots__ = ("_packs", "_run", "first", "texts")

    def __init__(self, run: str, texts: Texts | None = None) -> None:
        self._run = run
        self.texts = texts
        self._packs: list[Pack] = []
        self.first = 1
        """Number of the oldest fact, if there is any."""

    def __len__(self) -> int:
        return len(self._packs) * PACK

    def put(self, facts: Sequence[Event]) -> None:
        """Add the next :data:`PACK` facts."""
        if not self._packs:
            self.first = facts[0].n
        self._packs.append(self._packed(facts))

    def drop(self) -> None:
        """Forget the oldest :data:`PACK` facts."""
        del self._packs[0]
        self.first += PACK

    def part(self, start: int, count: int) -> list[Event]:
        """So many facts from this place on, or as many as there are."""
        end = min(start + count, len(self))
        if start >= end:
            return []
        begin = start // PACK
        found: list[Event] = []
        for place, pack in enumerate(self._packs[begin : (end - 1) // PACK + 1], begin):
            found += self._unpacked(pack, self.first + place * PACK)
        return found[start - begin * PACK : end - begin * PACK]

    def _packed(self, facts: Sequence[Event]) -> Pack:
        whole: list[Any] = []
        rows: list[list[Any] | None] = []
        for fact in facts:
            form = _FORM_OF.get(type(fact))
            if form is None:
                whole.append(fact)
                rows.append(None)
                continue
            row = [form.code, *_values_of(fact)[_FIRST:]]
            for place in form.whole:
                value, row[place] = row[place], None
                at = self.texts.place_of(value) if type(value) is Result and self.texts is not None else None
                if at is None:
                    whole.append(value)
                else:
                    row[place] = [at, *_values_of(value)]
                    row[place][_TEXT + 1] = None
            rows.append(row)
        try:
            return Pack(_encode(rows), tuple(whole))
        except UnicodeEncodeError:  # half a character, which only memory can hold
            return Pack(_encode([None] * len(facts)), tuple(facts))

    def _unpacked(self, pack: Pack, first: int) -> Iterator[Event]:
        whole = iter(pack.whole)
        for n, row in enumerate(_decode(pack.data), first):
            if row is None:
                yield next(whole)
                continue
            form = _FORMS[row[0]]
            values = [tuple(value) if type(value) is list else value for value in row]
            for place in form.whole:
                values[place] = self._result(values[place]) if values[place] is not None else next(whole)
            fields = dict(zip(form.fields, (n, self._run, *values[1:]), strict=True))
            for name, default in form.defaults:
                if fields[name] == default:
                    del fields[name]
            yield form.kind(**fields)

    def _result(self, row: tuple[Any, ...]) -> Result:
        assert self.texts is not None
        at, *values = row
        values[_TEXT] = self.texts.text_at(at)
        return Result(*values)
