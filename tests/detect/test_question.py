"""What a call asks: the forms in which it is compared are those of its parts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.alike import alike, asked, bare
from watchkeeper.detect.arguments import parts_of
from watchkeeper.detect.question import Question

SAID = (
    "look for the memory leak in worker agent-1f09a7c3 agent-77e0b2d4 kfjghq99x src/a.py src/b.py item17 item18 12"
    " 2>/dev/null | head -5 2026-03-01T12:00:07Z /tmp/x Cats cats"
)
WORDS = st.sampled_from(SAID.split())
ARGUMENTS = st.dictionaries(
    st.sampled_from(("q", "command", "limit", "note", "path")), st.lists(WORDS, max_size=7).map(" ".join), min_size=1
).map(json.dumps)


@given(ARGUMENTS, ARGUMENTS, st.booleans())
def test_two_are_alike_if_their_parts_are(one: str, other: str, telling: bool) -> None:
    mine, its = parts_of(one), parts_of(other)
    assert Question(one).is_like(Question(other), telling) == alike(mine, its, telling)
    assert Question(one).asked == asked(mine)
    assert Question(one).bare == bare(mine)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("read src/parser.py", "read src/lexer.py", False),
        ("weather in Paris today", "what is the weather in Paris", True),
        # A thing that is only in what is done with the outcome is no part of the question.
        ("grep -n word src/a.py | head -50", "grep -n word src/a.py 2>&1 | tail -n 9", True),
        ("find the notes 2>/dev/null", "find the notes 2>&1 | head -n5", True),
    ],
)
def test_what_a_call_is_about_tells_it_from_others(one: str, other: str, same: bool) -> None:
    mine, its = (Question(json.dumps({"command": text})) for text in (one, other))
    assert mine.is_like(its, False) is same
    assert its.is_like(mine, False) is same


def test_ids_that_mean_nothing_are_no_things() -> None:
    one, other = (
        Question(json.dumps({"query": f"memory leak in the worker and its report as {name}"}))
        for name in ("1f09a7c3", "77e0b2d4")
    )
    assert one.is_like(other, False)
