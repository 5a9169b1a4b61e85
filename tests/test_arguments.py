"""Arguments as models write them: what is accepted, what is refused and in which words, and that nothing is guessed."""

from __future__ import annotations

import enum
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Tool, tool
from watchkeeper.arguments import MAX_CHARACTERS, MAX_ECHO, BadArguments, Parsed, parse
from watchkeeper.wording import Wording


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Line(msgspec.Struct):
    text: str
    number: int = 0


@tool
def ping() -> str:
    """Take nothing."""
    return "pong"


@tool
def weather(city: str, days: int = 1, unit: Unit = Unit.C) -> str:
    """Tell the weather."""
    return city


@tool
def write(path: str, content: str) -> str:
    """Write a file."""
    return path


@tool
def edit(
    path: str,
    lines: list[Line],
    count: int = 0,
    ratio: float = 0.0,
    force: bool = False,
    tags: dict[str, int] | None = None,
    mode: Literal["add", "cut"] = "add",
    note: str | None = None,
    level: Annotated[int, msgspec.Meta(ge=0, le=9, description="how loud")] = 0,
    seen: frozenset[int] = frozenset(),
    pair: tuple[int, str] = (0, ""),
    by_number: dict[int, str] | None = None,
    data: bytes = b"",
    when: datetime | None = None,
    anything: Any = None,
) -> str:
    """Edit."""
    return path


def accepted(tool: Tool, raw: str | None) -> Parsed:
    parsed = parse(tool, raw)
    assert isinstance(parsed, Parsed), parsed
    return parsed


def refused(tool: Tool, raw: str | None) -> BadArguments:
    parsed = parse(tool, raw)
    assert isinstance(parsed, BadArguments), parsed
    return parsed


def told(tool: Tool, raw: str | None) -> list[str]:
    return [f"{p.path}: {p.text}" if p.path else p.text for p in refused(tool, raw).problems]


# -- nothing at all -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["", " ", "\n\t", "null", "{}", " {} ", None])
def test_no_arguments(raw: str | None) -> None:
    """ARGS-01, MISS-01: they run what needs none; else all that is missing is named."""
    assert accepted(ping, raw).values == {}
    assert told(weather, raw) == ["city: missing; expected a string"]
    assert told(write, raw) == ["path: missing; expected a string", "content: missing; expected a string"]


def test_defaults_are_filled_in_for_all_who_look() -> None:
    """TYPE-02: tool, approval and journal see one object."""
    parsed = accepted(weather, '{"city": "Rome", "days": "500"}')
    assert parsed.values == {"city": "Rome", "days": 500, "unit": Unit.C}
    assert parsed.canonical == b'{"city":"Rome","days":500,"unit":"celsius"}'
    assert parsed.repaired


def test_equal_arguments_have_equal_canonical_forms() -> None:
    forms = {
        accepted(weather, raw).canonical
        for raw in (
            '{"city": "Rome"}',
            '{"days": 1, "city": "Rome"}',
            '{"city":"Rome","unit":"celsius"}',
            '{"unit": null, "city": "\\u0052ome"}',
            '{"days": "1", "city": "Rome"}',
        )
    }
    assert len(forms) == 1
    assert accepted(weather, '{"city": "rome"}').canonical not in forms


def test_maps_and_sets_are_ordered_in_the_canonical_form() -> None:
    one = accepted(edit, '{"path":"a","lines":[],"tags":{"x":1,"y":2},"seen":[3,1,2]}')
    other = accepted(edit, '{"path":"a","seen":[2,3,1],"tags":{"y":2,"x":1},"lines":[]}')
    assert one.canonical == other.canonical
    assert not one.repaired


# -- broken text ----------------------------------------------------------------------------------------------------


def test_text_that_breaks_off() -> None:
    """ARGS-02"""
    bad = refused(weather, '{"city": "San Fra')
    assert bad.problems[0].text == "the JSON is not complete: the text breaks off (char 9)"
    assert (bad.incomplete, bad.echo, bad.length) == (True, '{"city": "San Fra', 17)


@given(st.text(max_size=30), st.text(max_size=30), st.booleans(), st.data())
def test_a_cut_call_of_a_writer_is_never_completed(path: str, content: str, escape: bool, data: st.DataObject) -> None:
    """ARGS-08: wherever it is cut, for any tool."""
    raw = json.dumps({"path": path, "content": content}, ensure_ascii=escape)
    cut = raw[: data.draw(st.integers(1, len(raw) - 1))]
    assert refused(write, cut).incomplete
    assert parse(write, "```json\n" + cut + "\n```") != accepted(write, raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("[1]", "expected a JSON object, got a list"),
        ('"x"', "expected a JSON object, got a string"),
        ("7", "expected a JSON object, got a number"),
        ("true", "expected a JSON object, got a boolean"),
        ("hello", "the JSON is not valid: Expecting value (char 0)"),
        ("Sure: {}", "the JSON is not valid: Expecting value (char 0)"),
        ("{'city': 'Rome'}", "the JSON is not valid: Expecting property name enclosed in double quotes (char 1)"),
        ('{"city": "Rome"}, "days": 3}', "there is more after the JSON object (char 16); send exactly one object"),
        ('{"city": "Rome"}}', "there is more after the JSON object (char 16); send exactly one object"),
        ('{"city": "Rome"}[1]', "there is more after the JSON object (char 16); send exactly one object"),
        ('{"city": NaN}', "NaN is not a JSON number"),
        ('{"city": -Infinity}', "-Infinity is not a JSON number"),
        ('{"city": "Rome", "days": 1e999}', "the number 1e999 is out of range"),
        ('{"path": "safe", "path": "/etc/passwd"}', "the key 'path' stands there twice; send it once"),
        (
            '{"city":"a","days":' + "1" * 401 + "}",
            "the number 11111111111111111111… has 401 digits; at most 400 are read",
        ),
        ("[" * 100_000, "the JSON is nested more than 64 levels deep"),
        ('{"city":' + "[" * 64 + "]" * 64 + "}", "the JSON is nested more than 64 levels deep"),
        ('{"city": "\\ud800"}', "the text holds half a character (a lone surrogate)"),
        ('{"city": "\udc00"}', "the text holds half a character (a lone surrogate)"),
    ],
)
def test_text_that_is_no_object(raw: str, text: str) -> None:
    """ARGS-04, ARGS-10: each is an argument error; the whole of it is said."""
    bad = refused(weather, raw)
    assert [problem.text for problem in bad.problems] == [text]
    assert not bad.incomplete


def test_a_huge_text_is_refused_unread_with_a_bounded_echo() -> None:
    """ARGS-04"""
    bad = refused(weather, "x" * 5_000_000)
    assert bad.problems[0].text == "the arguments are 5000000 characters long; at most 262144 are read"
    assert (len(bad.echo), bad.length) == (MAX_ECHO, 5_000_000)
    fits = '{"city": "' + "x" * (MAX_CHARACTERS - 12) + '"}'
    assert len(fits) == MAX_CHARACTERS
    assert accepted(weather, fits)
    assert refused(weather, fits + " ")


# -- wrapped text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        '{"city": "Rome"}{"city": "Rome"}',
        '{"city": "Rome"}\n{ "city" : "Rome" }',
        '```json\n{"city": "Rome"}\n```',
        '```JSON {"city": "Rome"}```',
        '```{"city": "Rome"}```',
        '```\n{"city": "Rome"}\n```',
        '{"city": "Rome"} trailing text',
        '{"city": "Rome"}\n\nThis gets the weather.',
        '"{\\"city\\": \\"Rome\\"}"',
    ],
)
def test_one_clean_object_is_unwrapped_and_flagged(raw: str) -> None:
    """ARGS-05, ARGS-07"""
    parsed = accepted(weather, raw)
    assert parsed.values["city"] == "Rome"
    assert parsed.repaired


@pytest.mark.parametrize(
    "raw",
    [
        '{"city": "Rome"}{"city": "Oslo"}',
        '{"city": "Rome"} {"city": "Rome"} {"city": "Rome"}',
        '{"city": "Rome"}{"city": "Rome"',
        '{"city": "Rome"} {see above}',
        '```json\n{"city": "Rome"}{"city": "Oslo"}\n```',
        '"\\"{}\\""',
    ],
)
def test_what_leaves_a_doubt_is_not_executed(raw: str) -> None:
    assert refused(weather, raw).problems


def test_content_that_looks_like_a_wrapping_is_left_alone() -> None:
    """ARGS-05"""
    for city in ("}{", "```json\n{}\n```", '{"city": 1}{"city": 2}', "a: b, c: d"):
        parsed = accepted(weather, json.dumps({"city": city}))
        assert parsed.values["city"] == city
        assert not parsed.repaired


# -- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "became"),
    [
        ("count", "3", 3),
        ("count", "-3", -3),
        ("count", 3.0, 3),
        ("force", "true", True),
        ("force", "false", False),
        ("ratio", "0.5", 0.5),
        ("ratio", 2, 2.0),
        ("lines", '[{"text": "a"}]', [Line("a")]),
        ("lines", [{"text": "7", "number": "7"}], [Line("7", 7)]),
        ("tags", '{"a": "1"}', {"a": 1}),
        ("tags", {"a": "1"}, {"a": 1}),
        ("by_number", {"1": "a"}, {1: "a"}),
        ("mode", None, "add"),
        ("note", None, None),
        ("note", "5", "5"),
        ("note", "null", "null"),
        ("anything", "5", "5"),
    ],
)
def test_only_what_loses_nothing_is_converted(name: str, value: Any, became: Any) -> None:
    """TYPE-01"""
    raw = json.dumps({"path": "p", "lines": [], name: value})
    assert accepted(edit, raw).values[name] == became


@pytest.mark.parametrize("value", ["3.5", "0x10", "1_000", " 3", "three", "", "+3", "１", "²", True, 3.5, [], {}])
def test_what_would_lose_something_is_refused(value: Any) -> None:
    """TYPE-01"""
    assert refused(edit, json.dumps({"path": "p", "lines": [], "count": value})).problems[0].path == "count"


@pytest.mark.parametrize("value", [5, 5.5, True, [], {"a": 1}, None])
def test_nothing_becomes_a_string(value: Any) -> None:
    assert told(write, json.dumps({"path": value, "content": "x"}))[0].startswith("path: expected a string, got ")


def test_all_problems_at_once_with_their_paths() -> None:
    raw = json.dumps(
        {
            "lines": [{"text": "ok"}, {"number": "x"}],
            "tags": {"a": "?"},
            "mode": "replace",
            "levle": 3,
            "level": 10,
            "force": "maybe",
        }
    )
    assert told(edit, raw) == [
        'lines[1].number: expected an integer, got a string ("x")',
        "lines[1].text: missing; expected a string",
        'tags.a: expected an integer, got a string ("?")',
        'mode: expected one of "add", "cut", got a string ("replace")',
        "levle: unknown parameter; did you mean 'level'?",
        "level: expected an integer <= 9, got an integer (10)",
        'force: expected a boolean, got a string ("maybe")',
        "path: missing; expected a string",
    ]


def test_the_message_as_the_model_reads_it() -> None:
    bad = refused(weather, '{"town": "Rome", "days": "a few"}')
    assert Wording().bad_arguments("weather", bad, "{…}").text == (
        "The arguments for weather do not fit, so it was not run:\n"
        "- town: unknown parameter; the parameters are city, days, unit\n"
        '- days: expected an integer, got a string ("a few")\n'
        "- city: missing; expected a string\n"
        'You sent: {"town": "Rome", "days": "a few"}\n'
        "Its parameters are: {…}\n"
        "Send the call again with all of these mended."
    )


def test_the_same_text_always_gives_the_same_message() -> None:
    """MISS-02: so that the rules against repetition see it."""
    assert refused(edit, '{"a": 1, "b": [2]}') == refused(edit, '{"a": 1, "b": [2]}')


# -- properties -----------------------------------------------------------------------------------------------------

TOOLS = (ping, weather, write, edit)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
TEXT = st.text() | ANYTHING.map(json.dumps) | st.lists(st.sampled_from('{}[]",:\\ntrue1.5e-`j ')).map("".join)


@given(st.sampled_from(TOOLS), TEXT | st.none() | st.integers() | st.binary())
def test_parse_never_raises(tool: Tool, raw: Any) -> None:
    parsed = parse(tool, raw)
    if isinstance(parsed, BadArguments):
        assert parsed.problems
        parsed.echo.encode()
    else:
        assert set(parsed.values) == set(tool.fields)


TEXTS = st.text(max_size=10)
FITTING = st.fixed_dictionaries(
    {"path": TEXTS, "lines": st.lists(st.builds(Line, text=TEXTS, number=st.integers()), max_size=3)},
    optional={
        "count": st.integers(-(10**30), 10**30),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "force": st.booleans(),
        "tags": st.none() | st.dictionaries(TEXTS, st.integers(), max_size=3),
        "mode": st.sampled_from(["add", "cut"]),
        "note": st.none() | TEXTS,
        "level": st.integers(0, 9),
        "seen": st.frozensets(st.integers(), max_size=3),
        "pair": st.tuples(st.integers(), TEXTS),
        "by_number": st.none() | st.dictionaries(st.integers(-99, 99), TEXTS, max_size=3),
        "data": st.binary(max_size=8),
        "when": st.none() | st.datetimes(timezones=st.just(UTC)),
        "anything": st.none() | st.booleans() | TEXTS | st.lists(st.integers(0, 9), max_size=3),
    },
)


@given(FITTING, st.booleans())
def test_whatever_fits_the_schema_is_accepted_as_it_is(values: dict[str, Any], escape: bool) -> None:
    raw = msgspec.json.encode(values).decode()
    if escape:
        raw = json.dumps(json.loads(raw))
    parsed = accepted(edit, raw)
    assert not parsed.repaired
    assert {name: parsed.values[name] for name in values} == values
    again = accepted(edit, parsed.canonical.decode())
    assert again.values == parsed.values
    assert again.canonical == parsed.canonical


def test_a_set_has_one_order_also_beside_keys_that_are_no_strings() -> None:
    def canonical(seen: list[int]) -> bytes:
        raw = json.dumps({"path": "a", "lines": [], "seen": seen, "by_number": {"1": "one"}})
        return accepted(edit, raw).canonical

    assert canonical([-1, -2]) == canonical([-2, -1])  # they have equal hashes, so a set keeps the order they came in


@given(FITTING)
def test_what_drifted_into_strings_comes_back(values: dict[str, Any]) -> None:
    """Each number, boolean, list and object as a string of JSON: the same values."""
    plain = json.loads(msgspec.json.encode(values))
    drifted = {
        name: value if isinstance(value, str) or name == "anything" else json.dumps(value)
        for name, value in plain.items()
        if value is not None
    }
    expected = {name: value for name, value in values.items() if value is not None}
    parsed = accepted(edit, json.dumps(drifted))
    assert {name: parsed.values[name] for name in expected} == expected


def test_values_with_a_time() -> None:
    when = datetime(2030, 1, 31, 12, tzinfo=UTC)
    raw = '{"path": "p", "lines": [], "when": "2030-01-31T12:00:00Z"}'
    assert accepted(edit, raw).values["when"] == when
    assert told(edit, raw.replace("2030-01-31T12:00:00Z", "tomorrow")) == [
        'when: invalid RFC3339 encoded datetime, got a string ("tomorrow")'
    ]
