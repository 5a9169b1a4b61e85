"""Tools: the schema that a model sees, the effect of each call, and errors of configuration that say what to do."""

from __future__ import annotations

import enum
import functools
import inspect
import math
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import pytest

from watchkeeper import ConfigurationError, Effect, Tool, reads, tool, writes
from watchkeeper.tools import DEFAULT_TIMEOUT, EVERYTHING, MAX_STATED, NOTHING, READS, WRITES


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Line(msgspec.Struct):
    text: str
    number: Annotated[int, msgspec.Meta(ge=1)] = 1


def parameters(tool: Tool) -> dict[str, Any]:
    properties = tool.spec()["parameters"]["properties"]
    assert isinstance(properties, dict)
    return properties


# -- the schema -----------------------------------------------------------------------------------------------------


def test_the_spec_of_a_tool_with_everything() -> None:
    @tool
    def search(
        query: Annotated[str, "what to look for"],
        limit: Annotated[int, msgspec.Meta(ge=1, le=50, description="at most")] = 10,
        unit: Unit = Unit.C,
        order: Literal["new", "old"] = "new",
        lines: list[Line] | None = None,
        exact: bool = False,
    ) -> str:
        """Search the archive.

        Answers with the best matches first.
        """
        return query

    assert search.spec() == {
        "name": "search",
        "description": "Search the archive.\n\nAnswers with the best matches first.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "at most", "default": 10},
                "unit": {"$ref": "#/$defs/Unit", "default": "celsius"},
                "order": {"enum": ["new", "old"], "default": "new"},
                "lines": {
                    "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Line"}}, {"type": "null"}],
                    "default": None,
                },
                "exact": {"type": "boolean", "default": False},
            },
            "required": ["query"],
            "additionalProperties": False,
            "$defs": {
                "Unit": {"title": "Unit", "enum": ["celsius", "fahrenheit"]},
                "Line": {
                    "title": "Line",
                    "type": "object",
                    "properties": {
                        "text": {"type": "string"},
                        "number": {"type": "integer", "minimum": 1, "default": 1},
                    },
                    "required": ["text"],
                },
            },
        },
    }
    assert search.required == {"query"}
    assert list(search.fields) == ["query", "limit", "unit", "order", "lines", "exact"]


def test_a_tool_without_parameters() -> None:
    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    assert ping.spec()["parameters"] == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_name_and_description_can_be_given() -> None:
    made = tool(name="find-it", description="  Find it.\n      Now.")(_plain)
    assert (made.name, made.description) == ("find-it", "Find it.\nNow.")
    assert repr(made) == "<Tool find-it>"
    assert tool(lambda_named := functools.wraps(_plain)(lambda a: a)).name == lambda_named.__name__


def test_a_parameter_without_a_type_takes_anything() -> None:
    @tool
    def echo(value, times=2):  # type: ignore[no-untyped-def]  # what the test is about
        """Echo."""

    assert parameters(echo) == {"value": {}, "times": {"default": 2}}


def test_mutable_defaults_are_copied_for_each_call() -> None:
    @tool
    def collect(items: list[int] = [], by: dict[str, int] = {"a": 1}) -> str:  # noqa: B006
        """Collect."""
        return ""

    made: Any = collect.arguments_type
    first, second = made(), made()
    assert (first.items, first.by) == ([], {"a": 1})
    assert first.items is not second.items
    assert first.by is not second.by


def test_methods_and_callable_objects_are_tools_too() -> None:
    class Counter:
        def add(self, number: int) -> str:
            """Add."""
            return str(number)

        async def __call__(self, number: int) -> str:
            """Count."""
            return str(number)

    assert list(parameters(tool(Counter().add))) == ["number"]
    counting = tool(name="count", description="Count.")(Counter())
    assert list(parameters(counting)) == ["number"]
    assert counting.is_async


# -- plain and async ------------------------------------------------------------------------------------------------


def test_async_functions_are_told_from_plain_ones() -> None:
    async def fetch() -> str:
        """Fetch."""
        return ""

    assert tool(fetch).is_async
    assert not tool(_plain).is_async


# -- effects --------------------------------------------------------------------------------------------------------


def _plain(a: str) -> str:
    """Do it."""
    return a


@pytest.mark.parametrize(
    ("declared", "effect", "only_reads"),
    [
        (None, WRITES, False),
        ("writes", WRITES, False),
        ("reads", READS, True),
        ("nothing", NOTHING, True),
        (reads, READS, True),
        (writes, WRITES, False),
        (reads("a", "b"), Effect(reads=("a", "b")), True),
        (writes("a"), Effect(writes=("a",)), False),
        (Effect(("a",), ("b",)), Effect(("a",), ("b",)), False),
        (lambda a: reads(f"files/{a}"), Effect(reads=("files/x",)), False),
        (lambda a: Effect(), NOTHING, False),
    ],
)
def test_the_effect_of_a_call(declared: Any, effect: Effect, only_reads: bool) -> None:
    made = tool(effect=declared)(_plain)
    assert made.effect_of({"a": "x"}) == effect
    assert made.only_reads is only_reads
    assert made.asks_arguments is (inspect.isfunction(declared) and declared not in (reads, writes))


def _raises(a: str) -> Effect:
    raise KeyError(a)


@pytest.mark.parametrize(
    "function",
    [_raises, lambda: reads("a"), lambda a, b: reads("a"), lambda a: None, lambda a: "reads", lambda a: ("a",)],
)
def test_an_effect_function_that_fails_means_everything_is_written(function: Callable[..., Any]) -> None:
    assert tool(effect=function)(_plain).effect_of({"a": "x"}) == WRITES


def test_no_name_means_everything() -> None:
    assert reads() == READS == Effect(reads=(EVERYTHING,))
    assert writes() == WRITES == Effect(writes=(EVERYTHING,))


# -- declarations ---------------------------------------------------------------------------------------------------


def test_a_tool_has_a_deadline_and_no_licence_unless_declared() -> None:
    """TIME-01, DUPX-02"""
    made = tool(_plain)
    assert made.timeout == DEFAULT_TIMEOUT == 60
    assert (made.idempotent, made.stable, made.poll, made.dangerous) == (False, False, False, False)
    assert made.effect == WRITES


def test_no_deadline_is_said_by_none_or_by_infinity() -> None:
    assert tool(timeout=None)(_plain).timeout is None
    assert tool(timeout=math.inf)(_plain).timeout is None
    assert tool(timeout=0.5)(_plain).timeout == 0.5


def test_keys_may_be_one_name_or_several() -> None:
    assert tool(loop_key="a", result_key="status")(_plain).loop_key == ("a",)
    assert tool(result_key="status")(_plain).result_key == ("status",)
    assert tool(result_key=["x", "y"])(_plain).result_key == ("x", "y")
    assert tool(result_key=len)(_plain).result_key is len  # type: ignore[arg-type,comparison-overlap]  # len takes more than text
    assert tool(loop_key=())(_plain).loop_key == ()


def test_the_smallest_output_is_one_character() -> None:
    assert tool(max_output=1)(_plain).max_output == 1


def test_bounds_that_no_grammar_can_hold_are_not_stated() -> None:
    """Servers that turn a schema into a grammar fail on them; the arguments are checked all the same."""

    @tool
    def save(
        name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_STATED)],
        text: Annotated[str, msgspec.Meta(max_length=MAX_STATED + 1)],
        rows: list[Annotated[list[int], msgspec.Meta(max_length=MAX_STATED + 1)]],
    ) -> str:
        """Save."""
        return name

    assert parameters(save) == {
        "name": {"type": "string", "minLength": 1, "maxLength": MAX_STATED},
        "text": {"type": "string"},
        "rows": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    }


# -- what cannot be a tool ------------------------------------------------------------------------------------------


def _positional(a: str, /) -> str:
    return a


def _variadic(*a: str) -> str:
    return ""


def _keywords(**a: str) -> str:
    return ""


class Odd:
    def __init__(self, a: int) -> None:
        self.a = a


def _custom(a: Odd) -> str:
    return ""


def _missing_type(a: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    return ""


def _broken_type(a: "int |") -> str:  # type: ignore[valid-type]  # noqa: F722
    return ""


def _unsafe_default(a: Line = Line("x")) -> str:  # noqa: B008
    return ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tool(_positional), "tool '_positional': parameter 'a' is positional-only or variadic; name each"),
        (lambda: tool(_variadic), "tool '_variadic': parameter 'a' is positional-only or variadic; name each"),
        (lambda: tool(_keywords), "tool '_keywords': parameter 'a' is positional-only or variadic; name each"),
        (lambda: tool(_custom), "tool '_custom': there is no JSON schema for its parameters .*; use plain types"),
        (lambda: tool(_missing_type), "tool '_missing_type': the type of a parameter cannot be looked up .*Nowhere"),
        (lambda: tool(_broken_type), "tool '_broken_type': its signature cannot be read .*; wrap it in a function"),
        (lambda: tool(_unsafe_default), "tool '_unsafe_default': its parameters cannot be described .*use other"),
        (lambda: tool(name="no spaces")(_plain), "tool name 'no spaces' cannot be used: .*give another with @tool"),
        (lambda: tool(name="x" * 65)(_plain), "cannot be used: servers accept 1 to 64 letters"),
        (lambda: tool(name="täglich")(_plain), "tool name 'täglich' cannot be used"),
        (lambda: tool(functools.partial(_plain, a="x")), "tool name '' cannot be used: .*give another"),
        (lambda: tool("look"), "'look' cannot be made a tool: @tool takes a function"),  # type: ignore[call-overload]
        (lambda: tool(effect="write")(_plain), "effect must be 'reads', 'writes', 'nothing', an Effect .*not 'write'"),
        (lambda: tool(timeout=0)(_plain), "tool '_plain': timeout must be more than 0 seconds or None, not 0"),
        (lambda: tool(timeout=-1)(_plain), "timeout must be more than 0"),
        (lambda: tool(timeout=math.nan)(_plain), "timeout must be more than 0"),
        (lambda: tool(max_output=0)(_plain), "tool '_plain': max_output must be at least 1 character, not 0"),
        (lambda: tool(loop_key=["b"])(_plain), "tool '_plain': loop_key names 'b', which is not a parameter; it has a"),
    ],
)
def test_errors_of_configuration_name_the_thing_and_the_remedy(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_a_built_in_function_without_a_signature_is_refused_in_words() -> None:
    with pytest.raises(ConfigurationError, match=r"signature cannot be read|positional-only"):
        tool(name="newest")(max)


def test_the_overloads_and_the_constructor_agree() -> None:
    """A declaration that is added to one must be added to the other."""
    constructor = set(inspect.signature(Tool.__init__).parameters) - {"self", "function"}
    declared = {name for form in typing.get_overloads(tool) for name in inspect.signature(form).parameters}
    assert constructor == declared - {"function"}
