"""What a tool returned as text for the model: bounded, sendable, marked where it was cut; and what it is worth."""

from __future__ import annotations

import dataclasses
import enum
from datetime import date
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import ToolOutput
from watchkeeper.outputs import render

LIMIT = 1000


class Color(enum.Enum):
    RED = "red"


class Row(msgspec.Struct):
    name: str


@dataclasses.dataclass
class Point:
    x: int


class Shown:
    def __str__(self) -> str:
        return "shown as text"


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "content", "productive"),
    [
        ("text", "text", True),
        ("", "", False),
        (" \n", " \n", False),
        (None, "", False),
        ([], "[]", False),
        ({}, "{}", False),
        ((), "[]", False),
        (set(), "[]", False),
        (b"", "", False),
        (0, "0", True),
        (False, "false", True),
        (1.5, "1.5", True),
        ([None], "[null]", True),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}', True),
        ({1: "a"}, '{"1":"a"}', True),
        (b"bytes \xff", "bytes �", True),
        (bytearray(b"abc"), "abc", True),
        (date(2030, 1, 31), "2030-01-31", True),
        (PurePosixPath("/a/b"), "/a/b", True),
        (Color.RED, "red", True),
        (Row("x"), '{"name":"x"}', True),
        (Point(1), '{"x":1}', True),
        ([Shown()], '["shown as text"]', True),
        (Shown(), "shown as text", True),
        (Unprintable(), "(a Unprintable that cannot be shown: RuntimeError)", True),
        ("half \ud800 char", "half � char", True),
        ("🙂", "🙂", True),
    ],
)
def test_values_as_text(value: Any, content: str, productive: bool) -> None:
    rendered = render(value, LIMIT)
    assert (rendered.content, rendered.productive) == (content, productive)
    assert (rendered.error, rendered.cut) == (None, 0)


@pytest.mark.parametrize(
    ("output", "productive", "error"),
    [
        (ToolOutput("found it"), True, None),
        (ToolOutput(""), False, None),
        (ToolOutput([]), False, None),
        (ToolOutput("no hits", productive=False), False, None),
        (ToolOutput("", productive=True), True, None),
        (ToolOutput("exit 1", error="exit_1"), False, "exit_1"),
        (ToolOutput("exit 1", productive=True, error="exit_1"), False, "exit_1"),
    ],
)
def test_a_tool_says_what_its_output_is_worth(output: ToolOutput, productive: bool, error: str | None) -> None:
    """A success without a finding is none, and neither is an outcome that is an error: no evidence comes of them."""
    rendered = render(output, LIMIT)
    assert (rendered.productive, rendered.error) == (productive, error)


def test_a_long_output_is_cut_in_the_middle_and_says_so() -> None:
    """OUTP-01"""
    rendered = render("a" * 750 + "b" * 5000 + "c" * 250, LIMIT)
    assert rendered.content == ("a" * 750 + "\n[… 5000 characters were cut here; ask for a part of it …]\n" + "c" * 250)
    assert rendered.cut == 5000
    assert rendered.productive


@given(st.text(max_size=40) | st.binary(max_size=40) | st.lists(st.integers(), max_size=9), st.integers(1, 30))
def test_no_output_is_longer_than_its_bound(value: Any, limit: int) -> None:
    rendered = render(value, limit)
    kept, note, rest = rendered.content.partition("\n[… ")
    if rendered.cut:
        assert note
        assert len(kept) + len(rest.partition("]\n")[2]) == limit
    else:
        assert len(rendered.content) <= limit
    rendered.content.encode()


def test_the_smallest_bound() -> None:
    rendered = render("abc", 1)
    assert rendered.content.endswith("]\nc")
    assert rendered.cut == 2


def test_what_refers_to_itself_is_shown_all_the_same() -> None:
    assert "[...]" in render(CYCLE, LIMIT).content


def test_fifty_megabytes_are_cut_to_the_bound() -> None:
    assert len(render("é" * 50_000_000, LIMIT).content) < LIMIT + 100
