"""The status line and the rules: what they say, how short they are, and how seldom they change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.goal.section import section
from watchkeeper.goal.status import Left, Standing, line

FULL = [Left("calls", 996, 0.004), Left("tokens", 1_980_000, 0.01), Left("time", 1790, 0.006)]


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (Standing(turn=1, more=19, left=FULL), "Turn 1 of 20. Left: 1,000 calls, 2M tokens, 30 min."),
        (Standing(turn=7), "Turn 7."),
        (
            Standing(turn=3, more=1, left=[Left("calls:search", 2, 0.6), Left("money", 0.4213, 0.5)]),
            "Turn 3 of 4. Left: 2 calls of search, 0.42 money.",
        ),
        (
            Standing(turn=3, more=1, left=[Left("time", 44, 0.9), Left("working_time", 0.4, 0.9)]),
            "Turn 3 of 4. Left: 40 s, under 1 s of work.",
        ),
        (
            Standing(turn=2, more=8, required=["search"], any_of=["a", "b"], stale=["test"]),
            "Turn 2 of 10. Missing: a result of search; a result of a or b; a new look with test.",
        ),
        (
            Standing(turn=2, more=8, required=["a", "b", "c", "d", "e"]),
            "Turn 2 of 10. Missing: a result of a, b, c and 2 more.",
        ),
        (Standing(turn=21, finishing=3, tools_off=True), "Turn 21; tools are off; 3 replies left for the answer."),
        (Standing(turn=22, finishing=1, left=FULL), "Turn 22; 1 reply left for the answer."),
        (Standing(turn=2, more=8, step="Read\nthe file"), "Turn 2 of 10. Step: Read the file."),
        (Standing(turn=1, more=0, left=[Left("input_tokens", 23_456, 0.1)]), "Turn 1 of 1. Left: 23k input tokens."),
        (Standing(turn=1, more=0, left=[Left("tokens", 1_234, 0.1)]), "Turn 1 of 1. Left: 1,200 tokens."),
    ],
)
def test_what_it_says(standing: Standing, expected: str) -> None:
    assert line(standing) == expected


def test_it_is_short_whatever_is_limited() -> None:
    """Under 60 tokens, at four characters each."""
    dimensions = ("calls", "calls:search", "tokens", "input_tokens", "output_tokens", "money", "time", "working_time")
    left = [Left(name, 1234.5, place / 10) for place, name in enumerate(dimensions)]
    text = line(Standing(turn=12, more=8, left=left, required=["search"]))
    assert len(text) < 240
    assert "of work" in text  # what is used up most is shown
    assert "1,200 calls," not in text


def test_it_seldom_changes_while_little_is_used() -> None:
    """Large amounts are rounded: two requests of one turn, and a run that is played back, read the same line."""
    lines = {
        line(Standing(turn=1, more=19, left=[Left("tokens", 2_000_000 - used, 0), Left("time", 1800 - used / 1000, 0)]))
        for used in range(0, 40_000, 500)
    }
    assert len(lines) == 1


@given(st.floats(0, 1e15), st.sampled_from(["tokens", "time", "working_time", "calls", "money", "x" * 500]))
def test_any_amount_can_be_said(amount: float, dimension: str) -> None:
    text = line(Standing(turn=1, more=1, left=[Left(dimension, amount, 0.5)]))
    assert "\n" not in text
    assert len(text) < 120


@given(st.lists(st.text(), max_size=30), st.text())
def test_names_and_steps_are_bounded_and_stay_on_the_line(names: list[str], step: str) -> None:
    text = line(Standing(turn=1, more=1, required=names, any_of=names, stale=names, step=step))
    assert len(text) < 900
    assert len(text.splitlines()) <= 1


def test_the_rules() -> None:
    text = section("one JSON object")
    for words in (
        "Serve the goal",
        "After three similar thoughts without progress, try a new method or give your best answer now",
        "Do not make an equal call again",
        "The answer: one JSON object.",
        "[watchkeeper]",
    ):
        assert words in text
    assert len(text) < 700


def test_without_tools_nothing_is_said_of_calls() -> None:
    assert "call" not in section(tools=False)
