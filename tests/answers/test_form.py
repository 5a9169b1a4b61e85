"""The form of an answer: what is found in a text, what of it fits, and what is said of what does not."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import ConfigurationError
from watchkeeper.answers.form import Fitted, Form, Misfit
from watchkeeper.answers.found import MAX_CHARACTERS, json_in


class Line(msgspec.Struct, frozen=True):
    text: str
    n: int


class Note(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    lines: list[Line] = []


@dataclass
class Point:
    x: int


class Entry(TypedDict):
    x: int


class Colour(enum.Enum):
    RED = "red"


class Node(msgspec.Struct):
    below: list[Node] = []


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORMS = [Form(Note), Form(SCHEMA), Form(int), Form(str), Form(list[Line]), Form({"type": ["string", "null"]})]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "x"}',
        '  {"name": "x"}\n',
        '```json\n{"name": "x"}\n```',
        '```\n{"name": "x"}\n```',
        'Here it is:\n```json\n{"name": "x"}\n```\nI hope that this helps.',
        'My answer is {"name": "x"}.',
        '<think>Maybe {"nam": 1}?</think> {"name": "x"}',
        'As in [1] and {}: {"name": "x"}',
        '{"name": "x"} {"name": "x"}',
        '```json\n{"name": "x"}\n```\nor in short {"name": "y"}',
        'He said "{" and then {"name": "x"}',
    ],
)
def test_what_is_around_it_does_not_matter(text: str) -> None:
    assert Form(Note).read(text) == Fitted(Note("x"))


def test_a_string_of_json_is_read_for_a_type_as_for_arguments() -> None:
    assert Form(Note).read('"{\\"name\\": \\"x\\"}"') == Fitted(Note("x"))
    assert Form(Note).read('{"name": "x", "lines": "[{\\"text\\": \\"a\\", \\"n\\": \\"3\\"}]"}') == Fitted(
        Note("x", [Line("a", 3)])
    )


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (int, "42", 42),
        (int, " 42\n", 42),
        (bool, "true", True),
        (list[int], "They are [1, 2].", [1, 2]),
        (str, '{"any": "text"}', '{"any": "text"}'),
        (str | None, "none at all", "none at all"),
        (Point, '{"x": 1}', Point(1)),
        (Entry, '{"x": 1}', {"x": 1}),
        (Colour, '"red"', Colour.RED),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        ({"type": "string"}, "any text", "any text"),
        (SCHEMA, '{"name": "x", "more": [1.5]}', {"name": "x", "more": [1.5]}),
        (Node, '{"below": [{}]}', Node([Node()])),
    ],
)
def test_values_are_of_the_type(wanted: Any, text: str, value: Any) -> None:
    read = Form(wanted).read(text)
    assert read == Fitted(value)


@pytest.mark.parametrize(
    ("wanted", "text", "problems"),
    [
        (Note, '{"name": 3, "lines": [{"text": "a"}], "nam": 1}', 3),
        (Note, "The name is x.", 1),
        (Note, '{"name": "x"', 1),
        (Note, '{"name": "x",}', 1),
        (Note, '{"name": "x", "name": "y"}', 1),
        (Note, '{"name": "x"} or {"name": "y"}', 1),
        (Note, "", 1),
        (int, "It is 42.", 1),
        (SCHEMA, "[1, 2]", 1),
    ],
)
def test_what_does_not_fit_is_told_with_its_path(wanted: Any, text: str, problems: int) -> None:
    read = Form(wanted).read(text)
    assert isinstance(read, Misfit)
    assert len(read.problems) == problems


def test_the_words_of_a_misfit() -> None:
    def words(wanted: Any, text: str) -> list[str]:
        read = Form(wanted).read(text)
        assert isinstance(read, Misfit)
        return [f"{one.path}: {one.text}" for one in read.problems]

    assert words(Note, '{"name": 3, "lines": [{"text": "a"}], "nam": 1}') == [
        "name: expected a string, got an integer (3)",
        "lines[0].n: missing; expected an integer",
        "nam: unknown field; did you mean 'name'?",
    ]
    assert words(Note, "It is x.") == [': there is no JSON in it: expected an object, got a string ("It is x.")']
    assert words(Note, '{"name": "x"') == [": the JSON is not complete: the text breaks off (char 12)"]
    assert words(Note, 'Well, {"name": "x", "lines": [') == [
        ": the JSON is not complete: the text breaks off (char 24)"
    ]
    assert words(Note, '{"name": "x"} or {"name": "y"}') == [": 2 JSON values in it have the form; send exactly one"]


def test_what_was_decoded_is_cleaned_before_it_is_read() -> None:
    """A secret that was hidden in escapes stands there only once it is decoded."""
    read = Form(Note).read('{"name": "s\\u0065cret"}', lambda value: {"name": value["name"].replace("secret", "[cut]")})
    assert read == Fitted(Note("[cut]"))


def test_a_type_of_the_hosts_own_that_raises_is_a_misfit() -> None:
    class Strict(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            if self.n == 1:
                raise ValueError("not one")
            if self.n == 2:
                raise RuntimeError("a defect")

    assert Form(Strict).read('{"n": 3}') == Fitted(Strict(3))
    for n, said in ((1, "not one"), (2, "a defect")):
        read = Form(Strict).read(f'{{"n": {n}}}')
        assert isinstance(read, Misfit)
        assert said in read.problems[0].text


class Opaque:
    pass


@pytest.mark.parametrize("wanted", [Opaque, "int", 5, [1], lambda: 1, list[Opaque], {"type": "int"}, {"if": {}}])
def test_what_cannot_be_checked_is_a_configuration_error(wanted: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be used"):
        Form(wanted)


def test_the_schema_for_a_server_has_an_object_at_its_root_and_no_long_bounds() -> None:
    assert Form(Note).grammar["type"] == "object"
    assert set(Form(Note).grammar["$defs"]) == {"Line"}
    assert "$ref" in Form(Node).grammar  # it holds itself: there is no other way
    form = Form({"type": "string", "maxLength": 5000, "minLength": 2})
    assert form.grammar == {"type": "string", "minLength": 2}
    assert form.read("a") != Fitted("a")
    assert isinstance(form.read("a" * 5001), Misfit)


def test_defaults_in_a_schema_are_json() -> None:
    class WithDefaults(msgspec.Struct):
        pairs: tuple[int, ...] = (1, 2)
        line: Line = Line("a", 1)

    properties = Form(WithDefaults).grammar["properties"]
    assert properties["pairs"]["default"] == [1, 2]
    assert properties["line"]["default"] == {"text": "a", "n": 1}


# -- hostile texts ----------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(['{"name": "x"}', "{", "}", "[", "]", '"', "```json\n", "```", "\n", "\\", "1e999", "\ud800"])


@given(st.lists(PIECES | st.text(max_size=8), max_size=30).map("".join), st.sampled_from(FORMS))
def test_no_text_raises(text: str, form: Form) -> None:
    assert isinstance(form.read(text), Fitted | Misfit)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "[" * 100_000,
        '{"a":' * 50_000,
        "```json\n" * 30_000,
        "{} " * 80_000,
        "```\n{\n```\n" * 20_000,
        "x" * (MAX_CHARACTERS + 1),
        '{"n": ' + "9" * 5000 + "}",
    ],
)
def test_long_texts_are_read_in_bounds(text: str) -> None:
    assert len(json_in(text).values) <= 64
    assert isinstance(Form(Note).read(text), Misfit)
