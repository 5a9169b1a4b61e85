"""The part of JSON schema that is checked: what fits, what does not and where, and what is refused unread."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import ConfigurationError
from watchkeeper.answers.checking import MATCHED, MAX_STEPS
from watchkeeper.answers.schema import CHECKED, Schema
from watchkeeper.fitting import MAX_PROBLEMS

TREE: dict[str, Any] = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}


def told(schema: Any, value: Any) -> list[tuple[str, str]]:
    return [(problem.path, problem.text) for problem in Schema(schema).problems(value)]


FITTING: list[tuple[Any, list[Any], list[Any]]] = [
    ({}, [1, "a", None, [], {}], []),
    (True, [], []),
    ({"type": "integer"}, [1, -3, 2.0, 10**30], [1.5, "1", True, None]),
    ({"type": "number"}, [1, 1.5], ["1", True]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"type": "null"}, [None], [0, "", False]),
    ({"type": ["string", "null"]}, ["a", None], [1, []]),
    ({"enum": [1, "a", None, [1]]}, [1, 1.0, "a", None, [1]], [True, "b", [True], [2], {}]),
    ({"const": {"a": 1}}, [{"a": 1}, {"a": 1.0}], [{"a": 2}, {"a": 1, "b": 2}, None]),
    ({"enum": [1, 2], "const": 2}, [2], [1]),
    ({"minimum": 2, "maximum": 4}, [2, 3.5, 4, "any text"], [1.9, 5]),
    ({"exclusiveMinimum": 2, "exclusiveMaximum": 4}, [3, 2.1], [2, 4]),
    ({"multipleOf": 0.1}, [0.3, 7, 1.1], [0.35]),
    ({"multipleOf": 3}, [9, 0, -3], [10]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "abc", 1], ["a", "abcd"]),
    ({"pattern": "^a+$"}, ["aa", 3], ["b", "a" * (MATCHED + 1)]),
    ({"format": "date"}, ["2030-01-31", 7], ["2030-02-31", "yesterday"]),
    ({"format": "date-time"}, ["2030-01-31T12:00:00Z"], ["2030-01-31 noon"]),
    ({"format": "uuid"}, ["a2f1f2b0-5b5c-4a3e-9c0e-2f6f5d9a1b11"], ["a2f1"]),
    ({"items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], [1, 2], "a"], [[], [1, 2, 3], ["a"]]),
    ({"uniqueItems": True}, [[1, 2, "1", True], []], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    ({"required": ["a"]}, [{"a": None}, [1]], [{}, {"b": 1}]),
    ({"additionalProperties": {"type": "integer"}, "properties": {"a": {}}}, [{"a": "x", "b": 1}], [{"b": "x"}]),
    ({"minProperties": 1, "maxProperties": 2}, [{"a": 1}], [{}, {"a": 1, "b": 2, "c": 3}]),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, [1, "a"], [1.5, None]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, [1, 7.5], [7, 4.5]),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, [2], [0, 4]),
    ({"not": {"type": "string"}}, [1, None], ["a"]),
    ({"properties": {"a": False}}, [{}, {"b": 1}], [{"a": 1}]),
    (TREE, [{"name": "a"}, {"name": "a", "below": [{"name": "b", "below": []}]}], [{}, {"name": "a", "below": [{}]}]),
    ({"definitions": {"a": {"type": "null"}}, "items": {"$ref": "#/definitions/a"}}, [[None]], [[1]]),
    ({"properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a"}}}, [{"b": None}], [{"b": 1}]),
    ({"$defs": {"a/b~": {"const": 1}}, "$ref": "#/$defs/a~1b~0"}, [1], [2]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), [one for one in FITTING if isinstance(one[0], dict)])
def test_what_fits_and_what_does_not(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert told(schema, value) == [], value
    for value in bad:
        assert told(schema, value), value


def test_every_problem_at_once_each_with_its_path_and_what_was_expected() -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer", "minimum": 1}},
                    "required": ["kind", "n"],
                },
            },
        },
        "required": ["title", "lines"],
        "additionalProperties": False,
    }
    value = {"lines": [{"kind": "a", "n": 1}, {"kind": "c", "n": 0}, {"n": "3"}], "more": 1}
    assert told(schema, value) == [
        ("title", "missing; expected a string"),
        ("lines[1].kind", 'expected one of "a", "b", got a string ("c")'),
        ("lines[1].n", "expected a number of at least 1, got an integer (0)"),
        ("lines[2].kind", 'missing; expected one of "a", "b"'),
        ("lines[2].n", 'expected an integer, got a string ("3")'),
        ("more", "unknown field; the fields are title, lines"),
    ]
    assert told(schema, []) == [("", "expected an object with title, lines, got a list")]


def test_of_alternatives_the_nearest_is_told() -> None:
    schema = {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]}
    assert told(schema, {"a": "x"}) == [("a", 'expected an integer, got a string ("x")')]
    assert told(schema, 3) == [("", "expected null or an object with a, got an integer (3)")]


UNREADABLE: list[tuple[Any, str]] = [
    ([], "a JSON schema is an object, not list"),
    ({"a": 1}, "#/a: it is not checked here; what is checked is "),
    ({"properties": {"x": {"if": {}}}}, "#/properties/x/if: it is not checked here"),
    *(
        ({word: {}}, f"#/{word}: it is not checked here")
        for word in ("then", "contains", "prefixItems", "patternProperties", "dependentRequired", "propertyNames")
    ),
    ({"type": "int"}, "#/type: it takes one or more of string, integer"),
    ({"type": []}, "#/type: it takes one or more of"),
    ({"required": "a"}, "#/required: it takes a list of names"),
    ({"enum": []}, "#/enum: it takes a list of values"),
    ({"minimum": "1"}, "#/minimum: it takes a number"),
    ({"exclusiveMinimum": True}, "#/exclusiveMinimum: it takes a number"),
    ({"multipleOf": 0}, "#/multipleOf: it takes a number above 0"),
    ({"maxLength": -1}, "#/maxLength: it takes a whole number"),
    ({"minItems": 1.5}, "#/minItems: it takes a whole number"),
    ({"uniqueItems": 1}, "#/uniqueItems: it takes true or false"),
    ({"format": "email"}, "#/format: the formats that are checked are date-time, date, time, uuid"),
    ({"pattern": "("}, "#/pattern: the pattern cannot be read"),
    ({"pattern": 3}, "#/pattern: the pattern cannot be read"),
    ({"items": [{}]}, "#/items: a schema is an object or true or false"),
    ({"anyOf": {}}, "#/anyOf: it takes a list of schemas"),
    ({"properties": []}, "#/properties: it takes an object with a schema for each name"),
    ({"$ref": "#/$defs/a"}, '#/$ref: "#/\\$defs/a" is no schema in here'),
    ({"$ref": "https://example.com/a"}, "is no schema in here; others are not looked up"),
    ({"$ref": 1}, "#/$ref: it takes a text"),
    ({"properties": {"a": {"default": {"if": 1}}, "b": {"$ref": "#/properties/a/default"}}}, "is no schema in here"),
    ({"items": {"$defs": {"a": {}}}}, "#/items/$defs: definitions are read at the root only"),
    ({"$ref": "#"}, "#: it leads back to itself without a step into the value"),
    ({"anyOf": [{"type": "null"}, {"not": {"$ref": "#"}}]}, "it leads back to itself"),
    ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "it leads back to itself"),
    ({"minimum": float("nan")}, "is not plain JSON"),
    ({"const": object()}, "is not plain JSON"),
]


@pytest.mark.parametrize(("schema", "said"), UNREADABLE)
def test_what_would_not_be_checked_is_refused_with_its_place(schema: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Schema(schema)
    assert said.replace("\\", "") in str(raised.value)


def test_a_schema_that_is_nested_without_end() -> None:
    schema: Any = {}
    for _ in range(300):
        schema = {"items": schema}
    with pytest.raises(ConfigurationError, match="it is nested more than 100 levels deep"):
        Schema(schema)


def test_every_word_that_is_checked_has_a_case() -> None:
    shown = json.dumps([schema for schema, _, _ in FITTING])
    assert [word for word in CHECKED if f'"{word}"' not in shown] == []


# -- hostile values -------------------------------------------------------------------------------------------------


def test_alternatives_within_alternatives_do_not_take_for_ever() -> None:
    """Each level is tried twice: 2 to the power of 60 without a bound."""
    part = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["b"]}
    value: Any = {}
    for _ in range(60):
        value = {"a": value}
    assert told({"anyOf": [part, part]}, value)[0][1].startswith("the value is too large to be checked")


def test_a_value_of_any_size_has_few_problems() -> None:
    assert len(told({"items": {"type": "string"}}, [1] * (MAX_STEPS // 2))) == MAX_PROBLEMS
    assert told({"items": {"type": "integer"}}, [1] * (MAX_STEPS + 1)) != []


def test_problems_are_bounded() -> None:
    for path, text in told({"additionalProperties": False}, {"k" * 5000: 1, "l": "v" * 5000}):
        assert len(path) <= 120
        assert len(text) <= 300


# -- against msgspec, which has a check of its own for the schemas that it writes --------------------------------------


class Line(msgspec.Struct):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=4)]
    n: Annotated[int, msgspec.Meta(ge=0, lt=10)] = 0


class Note(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["a", "b"]
    lines: Annotated[list[Line], msgspec.Meta(max_length=2)] = []
    above: Note | None = None


@dataclass
class Point:
    x: float
    y: float | None = None


class Typed(TypedDict, total=False):
    day: date
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    when: Annotated[time, msgspec.Meta(tz=True)]
    id: UUID


TYPES = [
    *(int, float, bool, str, list[int], dict[str, int], int | str | None, Literal[1, "a"], Line, Note, Point, Typed),
    Annotated[str, msgspec.Meta(pattern="^[a-c]*$")],
]
NAMES = st.sampled_from(["kind", "lines", "above", "text", "n", "x", "y", "day", "at", "when", "id", "more"])
SCALARS = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 9, 10, 1.5, "", "a", "b", "abcde", "2030-01-31", "12:00:00"),
        *("2030-01-31T12:00:00Z", "a2f1f2b0-5b5c-4a3e-9c0e-2f6f5d9a1b11"),
    ]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


@pytest.mark.parametrize("wanted", TYPES, ids=str)
@given(value=VALUES)
def test_it_agrees_with_msgspec(wanted: Any, value: Any) -> None:
    """But for 2.0, which is an integer to a schema."""
    try:
        msgspec.convert(value, wanted)
        fits = True
    except msgspec.ValidationError:
        fits = False
    assert (told(msgspec.json.schema(wanted), value) == []) is fits
