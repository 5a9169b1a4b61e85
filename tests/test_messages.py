"""Every fact encodes to a line of JSON and back without loss, across versions in both directions."""

from __future__ import annotations

import json
import types
import typing
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.messages import (
    AnyEvent,
    Call,
    CallEnded,
    Event,
    Message,
    Outcome,
    Result,
    RunEnded,
    RunStarted,
    Unknown,
    Usage,
    UserMessage,
    decode_event,
    encode_event,
)

KINDS = tuple(kind for kind in AnyEvent.__args__ if kind is not Unknown)

TEXTS = st.text(max_size=20)
INTS = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ENVELOPE: dict[str, Any] = {"n": 1, "run": "r1", "at": 1.5, "t": 0.5}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of an annotation that a fact may have."""
    origin = get_origin(hint)
    if origin is Literal:
        return st.sampled_from(get_args(hint))
    if origin in (types.UnionType, typing.Union):
        return st.one_of([values(one) for one in get_args(hint)])
    if origin is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values(get_args(hint)[0]), values(get_args(hint)[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{name: values(hints[name]) for name in hint.__struct_fields__})
    return {int: INTS, float: FLOATS, str: TEXTS, bool: st.booleans(), type(None): st.none(), Any: PLAIN}[hint]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_every_event_comes_back_as_it_was(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(values(kind))
    line = encode_event(event)
    assert b"\n" not in line
    back = decode_event(line)
    assert type(back) is kind
    assert back == event
    assert encode_event(back) == line
    assert decode_event(line.decode()) == event


def test_all_events_are_in_the_union() -> None:
    def below(kind: type[Event]) -> set[type[Event]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {kind for kind in below(Event) - {Event} if kind.__module__ == Event.__module__}
    assert ours == set(AnyEvent.__args__)


def test_tags_are_distinct_words() -> None:
    tags = [kind.__struct_config__.tag for kind in AnyEvent.__args__]
    assert len(set(tags)) == len(tags)
    assert all(tag == tag.lower() for tag in tags)


def test_facts_are_frozen() -> None:
    event = UserMessage(**ENVELOPE, text="a")
    with pytest.raises(AttributeError):
        event.text = "b"  # type: ignore[misc]


FOREIGN = st.fixed_dictionaries(
    {"n": st.integers(1, 9), "run": TEXTS, "at": FLOATS, "t": FLOATS, "type": st.just("moon_rose")},
    optional={"turn": st.integers(0, 9), "context": TEXTS, "parent": TEXTS | st.none(), "phase": PLAIN, "raw": PLAIN},
)


@given(FOREIGN)
def test_an_unknown_event_encodes_back_to_what_it_was(raw: dict[str, Any]) -> None:
    event = decode_event(json.dumps(raw))
    assert type(event) is Unknown
    assert (event.n, event.run, event.turn) == (raw["n"], raw["run"], raw.get("turn", 0))
    assert json.loads(encode_event(event)) == raw


def test_an_event_whose_type_is_called_unknown_keeps_its_fields() -> None:
    raw = {**ENVELOPE, "type": "unknown", "raw": {"a": 1}, "more": 2}
    event = decode_event(json.dumps(raw))
    assert type(event) is Unknown
    assert json.loads(encode_event(event)) == raw


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=5)
@given(data=st.data())
def test_a_line_of_a_newer_version_is_read(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(values(kind))
    newer = {**json.loads(encode_event(event)), "added_later": {"x": [1]}}
    assert decode_event(json.dumps(newer)) == event


def test_a_line_of_an_older_version_is_read() -> None:
    line = json.dumps(
        {
            "type": "call_ended",
            **ENVELOPE,
            "result": {"call_id": "c1", "tool": "look", "kind": "finished", "content": "x"},
        }
    )
    event = decode_event(line)
    assert event == CallEnded(**ENVELOPE, result=Result("c1", "look", "finished", "x"))
    old = {"type": "run_started", **ENVELOPE, "agent": "a", "task": "t"}
    assert decode_event(json.dumps(old)) == RunStarted(**ENVELOPE, agent="a", task="t")


def test_what_is_left_at_its_default_is_not_written() -> None:
    line = encode_event(UserMessage(**ENVELOPE, text="hi"))
    assert json.loads(line) == {"type": "user_message", **ENVELOPE, "text": "hi"}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"x",
        b"[]",
        b"7",
        b"null",
        b"{}",
        b"{",
        b'{"type":"user_message"',
        b'{"n":1,"run":"r","at":1,"t":1}',
        b'{"type":"moon_rose"}',
        b'{"type":"user_message","n":1,"run":"r","at":1,"t":1}',
        b'{"type":"user_message","n":"1","run":"r","at":1,"t":1,"text":"a"}',
        b'{"type":5,"n":1,"run":"r","at":1,"t":1}',
        b'{"type":["user_message"],"n":1,"run":"r","at":1,"t":1}',
        b'{"type":"moon_rose","n":"1","run":"r","at":1,"t":1}',
        b'{"type":"moon_rose","n":1,"run":"r","at":1,"t":1,"x":NaN}',
        b'{"type":"moon_rose","n":1,"run":"r","at":1,"t":1,"x":"\\ud800"}',
        b'{"type":"\xff"}',
        b"\xff\xfe",
        "\ud800",
        '{"type":"moon_rose","n":1,"run":"\ud800","at":1,"t":1}',
        b"[" * 100_000,
        b'{"type":"moon_rose","n":1,"run":"r","at":1,"t":1,"x":' + b"[" * 100_000,
        b'{"type":"user_message","n":1,"run":"r","at":1,"t":1,"x":' + b'{"x":' * 100_000,
    ],
    ids=range(25),
)
def test_what_is_no_event_is_refused_with_clear_words(line: bytes | str) -> None:
    with pytest.raises(msgspec.DecodeError, match=r"[A-Za-z]{3}") as caught:
        decode_event(line)
    assert isinstance(caught.value, ValueError)


@given(st.text() | st.binary() | PLAIN.map(json.dumps))
def test_rubbish_raises_nothing_else(line: bytes | str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_event(line)


def test_half_a_character_does_not_stop_the_journal() -> None:
    event = RunEnded(
        **ENVELOPE,
        outcome=Outcome(
            run="r\udfff",
            status="completed",
            reason="answer",
            message="m",
            answer="a\ud800b",
            spent={"tok\ud800ens": 1.0},
            history=(Message("assistant", "\ud83d", calls=(Call("c", "t", '{"\ud800": "é🙂"}'),)),),
        ),
    )
    back = decode_event(encode_event(event))
    assert isinstance(back, RunEnded)
    outcome = back.outcome
    assert (outcome.run, outcome.answer, outcome.spent) == ("r\ufffd", "a\ufffdb", {"tok\ufffdens": 1.0})
    assert outcome.history[0].calls[0].arguments == '{"\ufffd": "é🙂"}'


def test_tokens_are_counted_once() -> None:
    """Cached ones are part of the input, those of reasoning part of the output."""
    assert Usage(30, 12, cached_tokens=20, reasoning_tokens=5).total == 42
