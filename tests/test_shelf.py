"""Older facts, packed: what is read of them is what was put in, to the type of each value."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import msgspec
import pytest

from watchkeeper.history import MARK, History
from watchkeeper.messages import (
    Call,
    CallEnded,
    Event,
    Held,
    ModelReplied,
    Result,
    Resumed,
    Usage,
    UserMessage,
    encode_event,
)
from watchkeeper.shelf import KINDS, PACK, Shelf

PLAIN = (
    msgspec.inspect.StrType,
    msgspec.inspect.IntType,
    msgspec.inspect.FloatType,
    msgspec.inspect.BoolType,
    msgspec.inspect.NoneType,
    msgspec.inspect.LiteralType,
)


def is_plain(found: msgspec.inspect.Type) -> bool:
    match found:
        case msgspec.inspect.UnionType(types=types):
            return all(map(is_plain, types))
        case msgspec.inspect.VarTupleType(item_type=inner):
            return isinstance(inner, PLAIN)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return is_plain(key) and is_plain(value)
    return isinstance(found, PLAIN)


CALL = Call("c1", "look", "{}", 1)
WHOLE: dict[str, list[Any]] = {
    "text": ["", "said"],
    "calls": [(), (CALL, CALL)],
    "usage": [None, Usage(1, 2)],
    "result": [Result("c1", "look", "finished", "found it"), Result("c2", "look", "failed", "gone", error="gone")],
}
"""Of the fields that stay as they are."""


def values_of(found: msgspec.inspect.Type) -> list[Any]:
    """Of each type that a field may have, values that could be taken for another one's."""
    match found:
        case msgspec.inspect.UnionType(types=types):
            return [value for one in types for value in values_of(one)]
        case msgspec.inspect.VarTupleType(item_type=inner):
            return [(), (values_of(inner)[-1],) * 2]
        case msgspec.inspect.DictType(value_type=inner):
            return [{}, {str(place): value for place, value in enumerate(values_of(inner))}]
        case msgspec.inspect.LiteralType(values=values):
            return list(values)
        case msgspec.inspect.NoneType():
            return [None]
        case msgspec.inspect.BoolType():
            return [False, True]
        case msgspec.inspect.IntType():
            return [0, 2**40]
        case msgspec.inspect.FloatType():
            return [1, 0.1, 1e300]
    return ["", "Zürich 🚲\x00"]


def fields_of(kind: type[Event]) -> dict[str, msgspec.inspect.Type]:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.name: field.type for field in info.fields}


def facts(kind: type[Event], start: int = 1) -> list[Event]:
    """As many as are packed, with all values of each field among them."""
    choices = {
        name: WHOLE[name] if name in KINDS[kind] else values_of(found) for name, found in fields_of(kind).items()
    }
    made = []
    for n in range(start, start + PACK):
        values = {name: among[n % len(among)] for name, among in choices.items()}
        made.append(kind(**values | {"n": n, "run": "r1"}))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_every_fact_comes_back(kind: type[Event]) -> None:
    shelf = Shelf("r1")
    put = facts(kind)
    shelf.put(put)
    found = shelf.part(0, PACK)
    assert found == put
    assert [*map(repr, found)] == [*map(repr, put)]  # 1 is not 1.0
    assert [*map(encode_event, found)] == [*map(encode_event, put)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_packed_has_plain_fields_alone(kind: type[Event]) -> None:
    assert all(is_plain(found) for name, found in fields_of(kind).items() if name not in KINDS[kind])


def test_the_texts_of_the_conversation_stay_as_they_are() -> None:
    shelf = Shelf("r1")
    put = [*facts(CallEnded)[: PACK // 2], *facts(ModelReplied, PACK // 2 + 1)[: PACK // 2]]
    shelf.put(put)
    for fact, before in zip(shelf.part(0, PACK), put, strict=True):
        if isinstance(fact, CallEnded) and isinstance(before, CallEnded):
            assert fact.result is before.result
        else:
            assert isinstance(fact, ModelReplied)
            assert isinstance(before, ModelReplied)
            assert fact.text is before.text
            assert fact.calls is before.calls


def test_others_stay_as_they_are_in_their_places() -> None:
    shelf = Shelf("r1")
    put: list[Event] = facts(Held)
    put[3] = UserMessage(4, "r1", 0.5, 0.5, text="Go on.")
    put[-1] = Resumed(PACK, "r1", 0.5, 0.5)
    shelf.put(put)
    found = shelf.part(0, PACK)
    assert found == put
    assert found[3] is put[3]
    assert found[-1] is put[-1]


def test_half_a_character_is_kept() -> None:
    shelf = Shelf("r1")
    put = facts(Held)
    put[5] = Held(6, "r1", 0.5, 0.5, amounts={}, held="\ud800")
    shelf.put(put)
    assert shelf.part(0, PACK) == put


def test_parts_lie_across_packs_and_the_oldest_goes() -> None:
    shelf = Shelf("r1")
    assert shelf.part(0, 5) == []
    put = [fact for place in range(3) for fact in facts(Held, 41 + place * PACK)]
    for place in range(3):
        shelf.put(put[place * PACK : (place + 1) * PACK])
    assert (len(shelf), shelf.first) == (3 * PACK, 41)
    for start in range(0, 3 * PACK + 1, 5):
        for count in (0, 1, PACK - 1, PACK, PACK + 1, 3 * PACK):
            assert shelf.part(start, count) == put[start : start + count]
    shelf.drop()
    assert (len(shelf), shelf.first) == (2 * PACK, 41 + PACK)
    assert shelf.part(3, 2) == put[PACK + 3 : PACK + 5]


OUTPUTS = ("found it", "", f"{MARK} says so, and {MARK} again", "Zürich 🚲", "[look]\n[look]\n", "x" * 3000)


@pytest.mark.parametrize("label", [None, lambda tool: f"[{tool}]"])
def test_the_text_of_a_result_is_had_from_the_conversation(label: Callable[[str], str] | None) -> None:
    """Whatever a tool has written, and whatever words of ours stand above and below it."""
    history, shelf = History(label=label), Shelf("r1")
    shelf.texts = history
    results = [
        Result(f"c{place}", "look", kind, output, by=by, note=note, heading=heading)
        for place, (output, kind, by, note, heading) in enumerate(
            product(OUTPUTS, ("finished", "refused"), (None, "guard"), ("", "Not again."), ("", "Of another call."))
        )
    ]
    calls = tuple(Call(one.call_id, "look", "{}") for one in results)
    history.folds[ModelReplied](ModelReplied(1, "r1", 0.5, 0.5, text="", calls=calls))
    ended = [CallEnded(n, "r1", 0.5, 0.5, result=result) for n, result in enumerate(results, 1)]
    assert len(ended) % PACK == 0
    for start in range(0, len(ended), PACK):
        for event in ended[start : start + PACK]:
            history.folds[CallEnded](event)
        shelf.put(ended[start : start + PACK])
    found = shelf.part(0, len(ended))
    assert found == ended
    assert [*map(encode_event, found)] == [*map(encode_event, ended)]
    held = [one.result is before.result for one, before in zip(of_ends(found), ended, strict=True)]
    # A word of ours above or below a text without a label is part of the one text that is held.
    assert held == [history.text_at(place) != one.content for place, one in enumerate(results, 1)]
    assert held.count(False) >= len(OUTPUTS) * 4


def of_ends(facts: list[Event]) -> list[CallEnded]:
    return [fact for fact in facts if isinstance(fact, CallEnded)]


def test_a_text_that_is_not_in_the_conversation_stays() -> None:
    history, shelf = History(), Shelf("r1")
    shelf.texts = history
    put = facts(CallEnded)
    shelf.put(put)
    assert shelf.part(0, PACK) == put
