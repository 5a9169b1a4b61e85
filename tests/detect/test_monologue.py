"""The same words again: replies without calls, and thoughts before calls that differ."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from watchkeeper.detect.judge import Judge
from watchkeeper.detect.monologue import LONG, WORDS, Thoughts, alike, words_of
from watchkeeper.messages import Call, CallEnded, CallProposed, Finding, ModelReplied, Result, UserMessage
from watchkeeper.thresholds import Thresholds

THOUGHT = (
    "I still do not see why the value is wrong, so let me look at the place where it is computed and check whether the "
    "configuration is read before or after it."
)


class Told:
    """A judge that is told of replies; what it did, and at which reply."""

    def __init__(self, **settings: Any) -> None:
        self.judge = Judge(**settings)
        self.n = 0
        self.replies = 0
        self.done: list[tuple[str, str, int]] = []
        self.found: list[Finding] = []

    def event(self, kind: Any, **fields: Any) -> None:
        self.n += 1
        judged = self.judge.observe(kind(n=self.n, run="r", at=0.0, t=float(self.n), **fields))
        assert judged is None or not judged.failed
        for finding, verdict in judged.found if judged is not None else ():
            self.found.append(finding)
            if verdict is not None:
                self.done.append((finding.detector, verdict.action, self.replies))

    def says(self, text: str, *, stored: bool = True, finish: str = "stop") -> Told:
        self.replies += 1
        self.event(ModelReplied, text=text, stored=stored and bool(text.strip()), finish=finish)
        return self

    def calls(self, text: str, value: int, reasoning: str = "") -> Told:
        self.replies += 1
        call_id, arguments = f"c{self.n}", f'{{"at":{value}}}'
        self.event(ModelReplied, text=text, reasoning=reasoning, calls=(Call(call_id, "look", arguments, 1),))
        self.event(CallProposed, call_id=call_id, tool="look", arguments=arguments)
        found = " ".join(f"{word}{value * 7 + place}" for place, word in enumerate(("line", "of", "file", "number")))
        self.event(CallEnded, result=Result(call_id, "look", "finished", found), key=f"k{value}", arguments=arguments)
        return self

    def user(self, text: str = "Go on.") -> Told:
        self.event(UserMessage, text=text)
        return self

    def of(self, detector: str) -> list[tuple[str, int]]:
        return [(action, at) for name, action, at in self.done if name == detector]


@pytest.mark.parametrize(
    "texts",
    [
        ("I am done.",) * 3,
        ("I'm thinking... 0", "I'm thinking... 1", "I'm thinking... 2"),
        ("I am  DONE.", "I am done", "i am done!"),
        (THOUGHT, THOUGHT.replace("wrong", "off"), THOUGHT.replace("value", "number")),
    ],
)
def test_the_same_reply_a_third_time_is_the_end(texts: tuple[str, ...]) -> None:
    told = Told()
    for text in texts:
        told.says(text)
    assert told.of("monologue") == [("stop", 3)]


def test_replies_that_say_something_else_are_no_monologue() -> None:
    told = Told().says("Yes").says("No").says("The file holds three lines.").says("It was written in May by somebody.")
    assert told.done == []


def test_a_call_or_the_user_ends_a_monologue() -> None:
    told = Told()
    for value in range(6):
        told.says("I am done.").calls("", value)
        told.says("I am done.").user()
    assert told.of("monologue") == []


def test_a_call_ends_it_even_if_it_never_comes_to_an_end() -> None:
    told = Told().says("I am done.").says("I am done.")
    told.event(ModelReplied, text="", calls=(Call("c", "look", "{}", 1),))
    assert told.says("I am done.").says("I am done.").done == []


def test_it_goes_back_to_the_first_reply_that_was_said_again() -> None:
    told = Told(mode="observe").says("Yes").says("I am done.").says("I am done.").says("I am done.")
    assert [(finding.count, finding.onset) for finding in told.found] == [(2, 2), (3, 2)]


def test_empty_replies_are_equal_too() -> None:
    """The agent has a limit of its own for them, which comes first in a run; recorded runs have none."""
    assert Told().says("").says(" ").says("\n").says("").done == [("monologue", "stop", 3)]


def test_two_replies_that_take_turns_say_nothing_new() -> None:
    """Empty or not: each is compared with the two before it."""
    for other in ("", "It is in the file now."):
        told = Told().says("I am done.").says(other).says("I am done.").says(other).says("I am done.")
        assert told.done == [("monologue", "stop", 4)]
    three = Told()
    for _ in range(4):
        three.says("I am done.").says("It is in the file now.").says("Ask me anything else.")
    assert three.done == []


def test_a_reply_that_was_cut_says_nothing_either_way() -> None:
    told = Told().says("half an", stored=False, finish="length").says("half an", stored=False, finish="chant")
    assert told.says("half an", stored=False, finish="length").of("monologue") == []


def test_equal_thoughts_before_calls_that_find_something_new() -> None:
    told = Told()
    for value in range(14):
        told.calls(THOUGHT, value)
    assert told.of("thoughts") == [("nudge", 4), ("stop", 12)]


def test_thoughts_are_looked_for_in_the_reasoning_too() -> None:
    told = Told()
    for value in range(5):
        told.calls("", value, reasoning=THOUGHT)
    assert told.of("thoughts") == [("nudge", 4)]


def test_they_go_back_to_the_first_of_them() -> None:
    told = Told(mode="observe").calls("", 0)
    for value in range(1, 5):
        told.calls(THOUGHT, value)
    thoughts = [(finding.count, finding.onset) for finding in told.found if finding.detector == "thoughts"]
    assert thoughts == [(2, 4), (3, 4), (4, 4)]


def test_what_is_said_without_a_call_is_no_thought() -> None:
    assert {detector for detector, _, _ in Told().says(THOUGHT).says(THOUGHT).says(THOUGHT).says(THOUGHT).done} == {
        "monologue"
    }


def test_a_reply_that_was_cut_is_no_thought() -> None:
    told = Told()
    for value in range(12):
        call = Call(f"c{value}", "look", f'{{"at":{value}}}', 1)
        told.event(ModelReplied, text=THOUGHT, calls=(call,), stored=False)
    assert told.of("thoughts") == []


@pytest.mark.parametrize("short", [0, 1])
def test_a_text_is_a_thought_from_its_length_on(short: int) -> None:
    text = "apple berry cherry dates elder figs grape hazel "
    told = Told()
    for value in range(4):
        told.calls(text + "x" * (LONG - short - len(text)), value)
    assert told.of("thoughts") == ([] if short else [("nudge", 4)])


@pytest.mark.parametrize("few", [0, 1])
def test_and_from_so_many_different_words_on(few: int) -> None:
    words = ["applesauce", "blueberry", "cherrypie", "dateboxes", "elderflower", "figgyduff", "grapefruit", "hazelnuts"]
    told = Told()
    for value in range(4):
        told.calls(" ".join(words[: WORDS - few] * 2), value)
    assert told.of("thoughts") == ([] if few else [("nudge", 4)])


def test_a_number_that_is_higher_once_moves_on_once() -> None:
    told = Told()
    for value, number in enumerate((1, 5, 5, 5, 5)):
        told.calls(f"Now chunk {number} of it is done. {THOUGHT}", value)
    assert told.of("thoughts") == [("nudge", 5)]


def test_who_begins_anew_has_counted_none() -> None:
    thoughts = Thoughts(Thresholds(), frozenset())
    reply = ModelReplied(n=1, run="r", at=0.0, t=0.0, text=THOUGHT, calls=(Call("c", "look", "{}", 1),))
    for _ in range(3):
        thoughts.replied(reply)
    assert thoughts.count == 3
    thoughts.begin()
    assert thoughts.count == 0
    assert thoughts.replied(reply) == ()


def test_short_phrases_and_none_never_count() -> None:
    told = Told()
    for value in range(30):
        told.calls(("", "Let me look at the next file.", "word " * 100)[value % 3], value)
    assert told.of("thoughts") == told.of("monologue") == []


def test_thoughts_that_move_on_pass() -> None:
    """As agents think: the same turns of phrase about other things."""
    told = Told()
    things = ("parser", "lexer", "cache", "router", "schema", "loader", "logger", "writer", "reader", "index", "store")
    for value, (first, second) in enumerate(itertools.pairwise((*things, "queue", "timer", "socket", "codec"))):
        told.calls(
            f"The {first} does what its tests say, so the wrong value does not come from there. Now let me look at the "
            f"{second} and at how it calls the {first}, because that is where the {second}'s own state is kept.",
            value,
        )
    assert told.of("thoughts") == []


def test_thoughts_that_count_on_pass() -> None:
    told = Told()
    for value in range(30):
        told.calls(
            f"Now chunk {value} of 30 is done, and what it holds has been added to the summary. {THOUGHT}", value
        )
    assert told.of("thoughts") == []


def test_thoughts_in_other_words_count_once_all_of_them_are_used_up() -> None:
    told = Told()
    # Phrases ("let me", "so now") do not make texts alike: it takes more words to be near-equal with two that differ.
    thought = f"{THOUGHT} Neither the tests nor the log of the last deployment name any reason for such results."
    for value in range(20):
        word, other = ("wrong", "off", "odd")[value % 3], ("value", "figure")[value % 2]
        told.calls(thought.replace("wrong", word).replace("value", other), value)
    assert told.of("thoughts") == [("nudge", 6), ("stop", 14)]


def test_a_user_who_speaks_begins_anew() -> None:
    told = Told()
    for value in range(12):
        told.calls(THOUGHT, value)
        if value % 3 == 2:
            told.user()
    assert told.of("thoughts") == []


def test_alike() -> None:
    assert alike(words_of("Attempt 3 of 10: look"), words_of("attempt 4 of 10, LOOK!"))
    assert alike(words_of(""), words_of("...?"))
    assert not alike(words_of("look at the first file"), words_of("look at the second file"))
    assert not alike(words_of("Yes."), words_of("No."))
