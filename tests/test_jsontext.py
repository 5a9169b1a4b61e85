"""Strict JSON: what is not one whole value is refused in words, and what breaks off is told from what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.jsontext import MAX_DEPTH, MAX_DIGITS, NotJSON, decode, decode_first, too_deep

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_every_json_value_is_read(value: Any, escape: bool) -> None:
    assert decode(json.dumps(value, ensure_ascii=escape)) == value


@given(st.text())
def test_nothing_else_is_raised(text: str) -> None:
    try:
        value = decode(text)
    except NotJSON:
        return
    assert json.loads(text) == value


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.booleans(), st.data())
def test_what_breaks_off_is_never_completed(value: dict[str, Any], escape: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=escape)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    with pytest.raises(NotJSON) as caught:
        decode(cut)
    assert caught.value.incomplete
    assert "breaks off" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 1e999}', "the number 1e999 is out of range"),
        ('{"path": "safe", "path": "/etc/passwd"}', "the key 'path' stands there twice; send it once"),
        ('{"a": [{"b": 1, "b": 1}]}', "the key 'b' stands there twice; send it once"),
        ('{"a": ' + "9" * 5000 + "}", "the number 99999999999999999999… has 5000 digits; at most 400 are read"),
        ('{"a": "\\ud800"}', "the text holds half a character (a lone surrogate)"),
        ('{"\\udfff": 1}', "the text holds half a character (a lone surrogate)"),
        ('"\ud800"', "the text holds half a character (a lone surrogate)"),
        ("[" * 65 + "]" * 65, "the JSON is nested more than 64 levels deep"),
        ("[" * 100_000, "the JSON is nested more than 64 levels deep"),
        ('{"a":' * 100_000, "the JSON is nested more than 64 levels deep"),
        ("{'a': 1}", "the JSON is not valid: Expecting property name enclosed in double quotes (char 1)"),
        ('{"a": True}', "the JSON is not valid: Expecting value (char 6)"),
        ('{"a": "x\ny"}', "the JSON is not valid: Invalid control character at (char 8)"),
        ('{"a": 1} {"a": 1}', "there is more after the JSON (char 8)"),
        ('{"city": "San Fra', "the JSON is not complete: the text breaks off (char 9)"),
    ],
)
def test_what_is_refused_and_how(text: str, message: str) -> None:
    with pytest.raises(NotJSON) as caught:
        decode(text)
    assert str(caught.value) == message
    assert caught.value.incomplete is ("breaks off" in message)


@pytest.mark.parametrize(
    "text",
    ["", "  ", "{", '{"a', '{"a"', '{"a":', '{"a": tru', '{"a": -', '{"a": 1.', '{"a": 1e', "[1,", '"\\u12', '"\\'],
)
def test_what_breaks_off(text: str) -> None:
    with pytest.raises(NotJSON, match="breaks off") as caught:
        decode(text)
    assert caught.value.incomplete


@pytest.mark.parametrize("text", ["x", "{]", '{"a": 1,}', '{"a" 1}', "[1 2]", '{"a": trux}', '{"a": "\\x"}', "{}}"])
def test_what_is_wrong_does_not_count_as_broken_off(text: str) -> None:
    with pytest.raises(NotJSON) as caught:
        decode(text)
    assert not caught.value.incomplete


def test_brackets_in_strings_are_no_depth() -> None:
    text = json.dumps({"a": "[{" * 1000, 'b"\\': '\\"[' * 500})
    assert not too_deep(text)
    assert decode(text)["a"] == "[{" * 1000


def test_the_bound_on_depth_is_exact() -> None:
    assert decode("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert too_deep("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert not too_deep("[]" * 1000)
    assert too_deep("[" + "{}," * 1000 + "[" * MAX_DEPTH)
    assert not too_deep("[" + "{}," * 1000 + "[" * (MAX_DEPTH - 1))


def test_the_bound_on_digits_is_exact() -> None:
    assert decode("9" * MAX_DIGITS) == 10**MAX_DIGITS - 1
    with pytest.raises(NotJSON, match="401 digits"):
        decode("9" * (MAX_DIGITS + 1))


def test_whole_characters_of_two_escapes_are_read() -> None:
    assert decode('"\\ud83d\\ude00"') == "😀"


def test_where_the_first_value_ends() -> None:
    assert decode_first(' {"a": 1} and more') == ({"a": 1}, 9)


def test_the_depth_is_that_of_the_first_value_alone() -> None:
    """So many values of one text are each looked at once, and not each with all that comes after it."""
    deep = "[" * (MAX_DEPTH + 1)
    assert decode_first('{"a": [1]} ' + deep) == ({"a": [1]}, 10)
    with pytest.raises(NotJSON, match="levels deep"):
        decode_first('{"a": ' + deep)
    with pytest.raises(NotJSON, match="not valid"):
        decode_first("]" + deep)
