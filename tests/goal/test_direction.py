"""Drift: turns without a word of the goal or of the current step."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.goal.direction import Direction
from watchkeeper.goal.shingles import words_of
from watchkeeper.messages import Call

GOAL = "Summarise the quarterly report in /data/q3.pdf for the board."


def calls(*pairs: tuple[str, str]) -> list[Call]:
    return [Call(f"c{slot}", tool, arguments, slot) for slot, (tool, arguments) in enumerate(pairs, 1)]


def counts(goal: str | Iterable[str], *turns: tuple[str, list[Call]], step: str = "") -> list[int]:
    direction = Direction(words_of, [goal] if isinstance(goal, str) else goal)
    found = []
    for n, (thought, made) in enumerate(turns, 1):
        direction.acted(thought, made, step, n)
        found.append(direction.count)
    return found


AWAY = ("Cats are lovely animals.", calls(("web_search", '{"query": "pictures of kittens"}')))


def test_turns_without_a_word_of_the_goal_are_counted() -> None:
    assert counts(GOAL, AWAY, AWAY, AWAY) == [1, 2, 3]


@pytest.mark.parametrize(
    "turn",
    [
        ("The report comes first.", []),
        ("", calls(("read_file", '{"file": "/data/q3.pdf"}'))),
        ("", calls(("summarise", "{}"))),
        ("", calls(("note", '{"a": "Summary of what the quarters brought"}'))),
        ("REPORTS!", calls(("web_search", '{"query": "kittens"}'))),
        ("", calls(*[("web_search", '{"query": "kittens"}')] * 5, ("open", '{"what": "the board"}'))),
    ],
)
def test_one_word_of_it_is_enough(turn: tuple[str, list[Call]]) -> None:
    assert counts(GOAL, AWAY, AWAY, turn, AWAY) == [1, 2, 0, 1]


def test_a_word_of_the_current_step_will_do() -> None:
    assert counts(GOAL, AWAY, AWAY, step="Look up what kittens eat") == [0, 0]
    assert counts(GOAL, AWAY, AWAY, step="Look up what dogs eat") == [1, 2]


def test_a_turn_without_words_says_nothing_either_way() -> None:
    quiet = ("", calls(("get", '{"n": 3}')))
    assert counts(GOAL, AWAY, quiet, AWAY, ("", [])) == [1, 1, 2, 2]


@pytest.mark.parametrize("goal", ["Go on.", "", "Do it.", "Please do that.", "?"])
def test_a_goal_that_says_too_little_cannot_be_lost(goal: str) -> None:
    assert counts(goal, AWAY, AWAY, AWAY) == [0, 0, 0]


def test_what_was_said_before_and_since_belongs_to_the_goal() -> None:
    assert counts(["What do kittens eat?", "Go on."], AWAY) == [0]
    direction = Direction(words_of, [GOAL])
    direction.acted(*AWAY, "", 1)
    direction.user_spoke("And now find pictures of kittens.")
    assert direction.count == 0
    direction.acted(*AWAY, "", 2)
    assert direction.count == 0


def test_writing_without_spaces() -> None:
    turns = (("我看看猫的图片", []), ("季度报告在哪里", []))
    assert counts("请为董事会总结季度报告", *turns) == [1, 0]


def test_the_onset_is_where_it_began() -> None:
    direction = Direction(words_of, [GOAL])
    for n, turn in enumerate((AWAY, ("the report", []), AWAY, AWAY), 10):
        direction.acted(*turn, "", n)
    assert (direction.count, direction.onset) == (2, 12)


@given(st.lists(st.tuples(st.text(max_size=500), st.text(max_size=500)), max_size=12), st.text(max_size=500))
def test_what_is_kept_is_bounded_and_any_text_will_do(turns: list[tuple[str, str]], goal: str) -> None:
    direction = Direction(words_of, [goal * 50])
    for n, (thought, arguments) in enumerate(turns, 1):
        direction.acted(thought * 50, calls(*[("t", arguments * 50)] * 20), goal, n)
        assert 0 <= direction.count <= n
    assert len(direction.said) <= 8
    assert all(len(said) < 5_000 for said in direction.said)
