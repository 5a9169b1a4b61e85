"""Near-equal thoughts: which are, which are not, and how they are counted."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cli.recorded import RecordedRun, events_of
from watchkeeper.goal.shingles import Thought
from watchkeeper.goal.stagnation import BEFORE, Stagnation
from watchkeeper.messages import ModelReplied, UserMessage

A = "I should check the weather in Paris before I answer the question."
B = "Perhaps the calculator is the better tool for this conversion of units."


def counts(*thoughts: str, alike: Any = None) -> list[int]:
    """The count after each thought."""
    stagnation = Stagnation(alike)
    found = []
    for n, thought in enumerate(thoughts, 1):
        stagnation.think(thought, "", n)
        found.append(stagnation.count)
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (A, A),
        (A, A.upper().capitalize()),
        (A, "I need to check the weather in Paris before I answer that question."),
        (A, "Let me now check the weather in Paris, before I can answer the question!"),
        (
            "The value is still wrong, so the place where it is computed has to be looked at once more.",
            "The value is still off, so the place where it is computed has to be looked at once more.",
        ),
        ("Wait, maybe I should use approach A here instead.", "Wait, maybe I should use approach A here, instead."),
        ("Check the weather in Paris before the answer.", "So I check the weather in Paris before the answer."),
        ("我应该先查看巴黎的天气然后再回答", "我应该先查看巴黎的天气,再回答"),
    ],
)
def test_near_equal(one: str, other: str) -> None:
    assert counts(one, other) == [1, 2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (A, B),
        (A, "I should check the weather in Rome before I answer the question."),
        ("Chunk 3 of 30 is done and added to the summary.", "Chunk 4 of 30 is done and added to the summary."),
        ("Now open src/parser.py and check its imports.", "Now open src/lexer.py and check its imports."),
        (
            "The order of customer Miller is updated now; its status and its address have been checked as well.",
            "The order of customer Smith is updated now; its status and its address have been checked as well.",
        ),
    ],
)
def test_what_moves_on(one: str, other: str) -> None:
    assert counts(one, other) == [1, 1]


@pytest.mark.parametrize(
    "phrase", ["", "OK.", "Let me look at the next one.", "Now I will proceed.", "word " * 50, "…"]
)
def test_a_phrase_says_nothing_either_way(phrase: str) -> None:
    assert counts(A, phrase, A, phrase, A) == [1, 1, 2, 2, 3]
    assert counts(*[phrase] * 9) == [0] * 9


def test_two_that_take_turns_are_seen() -> None:
    """Comparing with the last thought alone would never see a debate."""
    assert counts(A, B, A, B, A) == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("period", range(1, BEFORE + 3))
def test_circles_of_up_to_four_thoughts_are_seen(period: int) -> None:
    words = ("alpha beta gamma delta", "red green blue white", "one two dog cat", "sun moon star sky", "a1 b2 c3 d4")
    thoughts = [*words, "north south east west"][:period] * 4
    seen = max(counts(*thoughts))
    assert seen == (len(thoughts) - period + 1 if period <= BEFORE else 1)


def test_another_thought_ends_the_streak_and_its_onset_moves() -> None:
    assert counts(A, A, B, A, A) == [1, 2, 1, 2, 3]
    stagnation = Stagnation()
    for n, thought in enumerate((A, A, "Something quite different has to be tried now, with other data.", A), 10):
        stagnation.think(thought, "", n)
    assert (stagnation.count, stagnation.onset) == (2, 12)


def test_a_user_begins_anew() -> None:
    stagnation = Stagnation()
    stagnation.think(A, "", 1)
    stagnation.begin()
    assert not stagnation.think(A, "", 2)


def test_reasoning_is_compared_too() -> None:
    stagnation = Stagnation()
    assert not stagnation.think("", A, 1)
    assert stagnation.think("", A, 2)
    assert stagnation.think("Next.", A, 3)
    assert not stagnation.think(f"{B} {B} And then it may be done at last.", "", 4)


def test_the_function_can_be_replaced() -> None:
    assert counts(A, B, A, alike=lambda one, other: True) == [1, 2, 3]
    assert counts(A, A, A, alike=lambda one, other: False) == [1, 1, 1]
    assert counts(A, A, alike=lambda one, other: "yes") == [1, 1]  # nonsense is no yes


@given(
    st.lists(st.sampled_from([A, B, "", "OK.", "Try the other file, data7.csv, for a change of plan."]), max_size=30)
)
def test_the_count_is_that_of_the_definition(thoughts: list[str]) -> None:
    """Written anew, plainly: how many in a row are near-equal to one of the last four thoughts."""
    said = [Thought(text) for text in thoughts if Thought(text)]
    expected = 0
    for at, thought in enumerate(said):
        known = any(thought.is_like(other) for other in said[max(at - 4, 0) : at])
        expected = expected + 1 if known else 1
    assert (counts(*thoughts) or [0])[-1] == expected


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_any_text_can_be_compared(one: str, other: str) -> None:
    stagnation = Stagnation()
    stagnation.think(one, other, 1)
    stagnation.think(one, other, 2)
    assert stagnation.count == (2 if Thought(f"{other[:500]}\n{one[:500]}" if other else one) else 0)


def test_no_recorded_run_is_forced_and_hardly_a_good_one_is_told(shared_data: Path) -> None:
    """985 runs of tau-bench and SWE-PolyBench (MIT), 508 of them good ones, of which 224 have thoughts: none comes to a
    third near-equal thought, two come to a second."""
    decode = msgspec.json.Decoder(RecordedRun).decode
    most: dict[str, list[int]] = {"success": [], "fail": [], "unknown": []}
    for name in ("tau", "polybench_iswe", "polybench_codex"):
        with gzip.open(shared_data / "corpora" / f"{name}.jsonl.gz") as lines:
            for line in lines:
                run = decode(line)
                most[run.outcome].append(_most(run))
    assert {outcome: sum(count >= 3 for count in found) for outcome, found in most.items()} == dict.fromkeys(most, 0)
    assert {outcome: sum(count >= 2 for count in found) for outcome, found in most.items()} == {
        "success": 2,
        "fail": 6,
        "unknown": 4,
    }
    assert len(most["success"]) == 508


def _most(run: RecordedRun) -> int:
    contexts: dict[str, Stagnation] = {}
    most = 0
    for event in events_of(run):
        if isinstance(event, UserMessage) and event.context in contexts:
            contexts[event.context].begin()
        elif isinstance(event, ModelReplied):
            stagnation = contexts.setdefault(event.context, Stagnation())
            stagnation.think(event.text, event.reasoning, event.n)
            most = max(most, stagnation.count)
    return most
