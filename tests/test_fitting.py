"""Drifted values: converted where that loses nothing, and else every problem at once, with its path and in words."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.fitting import MAX_CONVERTED, MAX_PROBLEMS, MAX_TEXT, Problem, expected, fit


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Line(msgspec.Struct):
    text: str
    number: int = 0
    marks: list[int] = []


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    a: int


class Renamed(msgspec.Struct, rename="camel"):
    line_count: int


class Typed(TypedDict):
    a: int
    b: NotRequired[int]


@dataclasses.dataclass
class Plain:
    a: int
    b: int = 2


def one(value: Any, wanted: Any) -> Any:
    """Fit one value; what it became, or the problems."""
    box = msgspec.defstruct("Box", [("x", wanted)])
    fitted = fit({"x": value}, box)
    if isinstance(fitted[0], Problem):
        return list(fitted)
    return fitted[0].x  # type: ignore[attr-defined]  # the box's


@pytest.mark.parametrize(
    ("given", "wanted", "became"),
    [
        ("3", int, 3),
        ("-3", int, -3),
        ("3.0", int, 3),
        (3.0, int, 3),
        ("1e3", int, 1000),
        ("9" * 30, int, 10**30 - 1),
        ("3.5", float, 3.5),
        ("3", float, 3.0),
        (3, float, 3.0),
        ("true", bool, True),
        ("false", bool, False),
        ("null", int | None, None),
        ("3", int | None, 3),
        ("[{}]", list, [{}]),
        ("[]", list[int], []),
        ('["1", 2]', list[int], [1, 2]),
        ('{"a": "1"}', dict[str, int], {"a": 1}),
        ({"1": "2"}, dict[int, int], {1: 2}),
        ('{"text": "5", "number": "5"}', Line, Line("5", 5)),
        ({"text": "5", "number": None, "marks": "[1]"}, Line, Line("5", 0, [1])),
        ([{"text": "7", "number": "7"}], list[Line], [Line("7", 7)]),
        ({"lineCount": "2"}, Renamed, Renamed(2)),
        ({"a": "1"}, Typed, {"a": 1}),
        ({"a": "1", "b": None}, Typed, {"a": 1}),
        ({"a": "1"}, Plain, Plain(1)),
        ({"a": "1", "c": 5}, Plain, Plain(1)),
        (["1", "x"], tuple[int, str], (1, "x")),
        (["1", "2"], tuple[int, ...], (1, 2)),
        (["1", "1"], set[int], {1}),
        ("2", Literal[1, 2], 2),
        ("2", Level, Level.HIGH),
        (["1"], int | list[int], [1]),
        ({"a": "1"}, list[int] | dict[str, int], {"a": 1}),
        ("5", Annotated[int, msgspec.Meta(ge=5)], 5),
        ({"id": "7", "n": "5"}, msgspec.defstruct("S", [("id", int | str), ("n", int)]), None),
    ],
)
def test_what_is_converted(given: Any, wanted: Any, became: Any) -> None:
    found = one(given, wanted)
    if became is None and wanted not in (int | None,):
        assert (found.id, found.n) == ("7", 5)  # a string stays one where it may be one
    else:
        assert found == became
        assert type(found) is type(became)


@pytest.mark.parametrize(
    ("given", "wanted", "text"),
    [
        ("3.5", int, 'expected an integer, got a string ("3.5")'),
        ("0x10", int, 'expected an integer, got a string ("0x10")'),
        ("1_000", int, 'expected an integer, got a string ("1_000")'),
        (" 3", int, 'expected an integer, got a string (" 3")'),
        ("3 ", int, 'expected an integer, got a string ("3 ")'),
        ("+3", int, 'expected an integer, got a string ("+3")'),
        ("007", int, 'expected an integer, got a string ("007")'),
        ("", int, 'expected an integer, got a string ("")'),
        ("NaN", float, 'expected a number, got a string ("NaN")'),
        ("1e999", float, 'expected a number, got a string ("1e999")'),
        ("three", int, 'expected an integer, got a string ("three")'),
        (3.5, int, "expected an integer, got a number (3.5)"),
        (1e300, int, "expected an integer, got a number (1e+300)"),
        (True, int, "expected an integer, got a boolean (true)"),
        (1, bool, "expected a boolean, got an integer (1)"),
        ("1", bool, 'expected a boolean, got a string ("1")'),
        ("True", bool, 'expected a boolean, got a string ("True")'),
        ("yes", bool, 'expected a boolean, got a string ("yes")'),
        (3, str, "expected a string, got an integer (3)"),
        (None, str, "expected a string, got null"),
        ([1], str, "expected a string, got a list"),
        ("None", int | None, 'expected an integer, got a string ("None")'),
        ("a", list[str], 'expected a list, got a string ("a")'),
        ({}, list[str], "expected a list, got an object"),
        ([], dict[str, int], "expected an object, got a list"),
        ("[1", list[int], 'expected a list, got a string ("[1")'),
        ('{"a": 1, "a": 2}', dict[str, int], 'expected an object, got a string ("{\\"a\\": 1, \\"a\\": 2}")'),
        ("green", Color, 'expected one of "red", "blue", got a string ("green")'),
        ('"red"', Color, 'expected one of "red", "blue", got a string ("\\"red\\"")'),
        ("3", Literal[1, 2], 'expected one of 1, 2, got a string ("3")'),
        (-1, Annotated[int, msgspec.Meta(ge=0)], "expected an integer >= 0, got an integer (-1)"),
        ("", Annotated[str, msgspec.Meta(min_length=1)], 'expected a string of length >= 1, got a string ("")'),
        (["1"], Annotated[list[int], msgspec.Meta(min_length=2)], "expected a list of length >= 2, got a list"),
        ("x" * 200, int, 'expected an integer, got a string ("' + "x" * 56 + "...)"),
    ],
)
def test_what_is_refused_and_how_it_reads(given: Any, wanted: Any, text: str) -> None:
    assert one(given, wanted) == [Problem("x", text)]


def test_every_problem_is_named_at_once_with_its_path() -> None:
    class Edit(msgspec.Struct, forbid_unknown_fields=True):
        path: Annotated[str, msgspec.Meta(description="from the root")]
        lines: list[Line]
        sizes: dict[str, int] = {}
        mode: Literal["add", "cut"] = "add"

    given = {
        "lines": [{"text": "ok"}, {"text": 1, "number": "x"}, {"marks": [1, "y"]}],
        "sizes": {"a": 1, "b": "?"},
        "mode": "replace",
        "line": 3,
        "zzz": 4,
    }
    assert [(problem.path, problem.text) for problem in fit(given, Edit) if isinstance(problem, Problem)] == [
        ("lines[1].text", "expected a string, got an integer (1)"),
        ("lines[1].number", 'expected an integer, got a string ("x")'),
        ("lines[2].marks[1]", 'expected an integer, got a string ("y")'),
        ("lines[2].text", "missing; expected a string"),
        ("sizes.b", 'expected an integer, got a string ("?")'),
        ("mode", 'expected one of "add", "cut", got a string ("replace")'),
        ("line", "unknown parameter; did you mean 'lines'?"),
        ("zzz", "unknown parameter; the parameters are path, lines, sizes, mode"),
        ("path", "missing; expected a string (from the root)"),
    ]


def test_problems_inside_a_string_of_json_are_named_where_they_are() -> None:
    assert one('[{"text": 5}]', list[Line]) == [Problem("x[0].text", "expected a string, got an integer (5)")]


def test_of_alternatives_the_one_of_its_kind_is_judged() -> None:
    assert one(["a"], int | list[int] | dict[str, int]) == [
        Problem("x[0]", 'expected an integer, got a string ("a")'),
    ]
    assert one({"a": 1}, int | list[int]) == [Problem("x", "expected an integer or a list, got an object")]
    assert one(["a"], tuple[int, int] | dict[str, int]) == [Problem("x", "expected a list of length 2, got a list")]


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Row(msgspec.Struct, array_like=True):
    a: int
    b: str


def test_types_that_are_told_apart_by_a_tag_or_by_place_are_judged_as_a_whole() -> None:
    assert one({"type": "cat", "lives": 9}, Cat | Dog) == Cat(9)
    assert one([1, "x"], Row) == Row(1, "x")
    (problem,) = one({"type": "cat", "lives": "many"}, Cat | Dog)
    assert problem.path == "x"
    assert problem.text.endswith(", got an object")
    (problem,) = one(["?", "x"], Row)
    assert (problem.path, problem.text.endswith(", got a list")) == ("x", True)


def test_unknown_fields_of_open_objects_are_left_alone() -> None:
    assert one({"text": "a", "number": "1", "more": 1}, Line) == Line("a", 1)
    assert one({"a": "1", "b": 1}, Closed) == [Problem("x.b", "unknown parameter; the parameters are a")]


def test_what_fits_is_passed_on_untouched() -> None:
    class Box(msgspec.Struct):
        s: str
        any: Any

    fitted = fit({"s": "5", "any": ["5", {"a": "true"}]}, Box)
    assert fitted == (Box("5", ["5", {"a": "true"}]), False)


def test_a_converted_value_is_said_to_be_one() -> None:
    class Box(msgspec.Struct):
        n: int

    assert fit({"n": "5"}, Box) == (Box(5), True)
    assert fit({"n": 5}, Box) == (Box(5), False)


def test_problems_are_bounded_in_number_and_length() -> None:
    class Box(msgspec.Struct, forbid_unknown_fields=True):
        n: list[int]

    many = fit({"n": ["x"] * 5000}, Box)
    assert len(many) == MAX_PROBLEMS
    hostile = fit({"x" * 100_000: 1, "n": {"y" * 100_000: [1]}, "\ud800\n": 2}, Box)
    assert all(isinstance(one, Problem) for one in hostile)
    for problem in hostile:
        assert isinstance(problem, Problem)
        assert len(problem.path) <= 120
        assert len(problem.text) <= MAX_TEXT
        (problem.path + problem.text).encode()


def test_conversions_are_bounded() -> None:
    class Box(msgspec.Struct):
        n: list[int]

    assert fit({"n": ["1"] * MAX_CONVERTED}, Box) == (Box([1] * MAX_CONVERTED), True)
    problems = fit({"n": ["1"] * (MAX_CONVERTED + 1)}, Box)
    assert problems[0] == Problem(f"n[{MAX_CONVERTED}]", 'expected an integer, got a string ("1")')


def test_a_default_that_is_not_null_is_used_for_null() -> None:
    class Box(msgspec.Struct):
        a: int = 7
        b: int | None = 8

    assert fit({"a": None, "b": None}, Box) == (Box(7, None), True)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


class Everything(msgspec.Struct, forbid_unknown_fields=True):
    a: int
    b: list[Line] = []
    c: dict[str, list[int]] | None = None
    d: Typed | None = None
    e: Color | Literal[1] = Color.RED
    f: tuple[int, str] | None = None
    g: list[list[Plain]] = []


@given(st.dictionaries(st.sampled_from("abcdefgh"), JSON, max_size=8))
def test_whatever_comes_it_fits_or_every_problem_is_named(value: dict[str, Any]) -> None:
    fitted = fit(value, Everything)
    assert fitted
    if isinstance(fitted[0], Problem):
        assert all(isinstance(one, Problem) and one.text for one in fitted)
    else:
        assert isinstance(fitted[0], Everything)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (int, "an integer"),
        (float, "a number"),
        (Any, "a value"),
        (list[int], "a list"),
        (tuple, "a list"),
        (dict[str, int], "an object"),
        (int | None, "an integer or null"),
        (Line, "an object with text, number, marks"),
        (Typed, "an object with a, b"),
        (Plain, "an object with a, b"),
        (Color, 'one of "red", "blue"'),
        (Literal["a"], '"a"'),
        (Annotated[int, msgspec.Meta(description="metres")], "an integer (metres)"),
    ],
)
def test_types_in_words(wanted: Any, words: str) -> None:
    assert expected(wanted) == words
