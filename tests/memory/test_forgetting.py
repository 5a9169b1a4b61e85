"""A note that is shown again and again for nothing loses its weight."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Note
from watchkeeper.memory.forgetting import LOOKED_AT, REMEMBERED, Weights
from watchkeeper.messages import Call, ModelReplied

PORT = Note("The server listens on port 8080 of host delta.", "network")
CAT = Note("The cat sleeps beside the oven.", "animals")


def reply(text: str = "", *calls: tuple[str, str]) -> ModelReplied:
    made = tuple(Call(f"c{slot}", name, arguments, slot) for slot, (name, arguments) in enumerate(calls, 1))
    return ModelReplied(n=1, run="r", at=0.0, t=0.0, text=text, calls=made)


def chewed(weights: Weights, note: Note, times: int = 1, query: str = "server") -> None:
    for _ in range(times):
        weights.shown([note], query)
        for _ in range(LOOKED_AT):
            weights.replied(reply("Let me think about that."), "recall")


def test_each_time_for_nothing_halves_it_until_it_is_left_out() -> None:
    weights = Weights()
    seen = []
    for _ in range(4):
        seen.append((weights.of(PORT), PORT in weights.sorted([PORT, CAT])))
        chewed(weights, PORT)
    assert seen == [(1.0, True), (0.5, True), (0.25, True), (0.125, False)]
    assert weights.sorted([PORT, CAT]) == [CAT]


def test_one_that_was_of_use_has_all_of_its_weight_again() -> None:
    weights = Weights()
    chewed(weights, PORT, 2)
    weights.shown([PORT], "server")
    weights.replied(reply("", ("connect", '{"host": "delta", "port": 8080}')), "recall")
    assert weights.of(PORT) == 1.0


def test_it_has_two_replies_for_that() -> None:
    weights = Weights()
    weights.shown([PORT], "server")
    weights.replied(reply("Hm."), "recall")
    weights.replied(reply("I try delta, 8080."), "recall")
    assert weights.of(PORT) == 1.0
    weights.shown([PORT], "server")
    for text in ("Hm.", "Hm.", "Ah: delta, 8080."):
        weights.replied(reply(text), "recall")
    assert weights.of(PORT) == 0.5


def test_to_ask_for_it_again_is_no_use_of_it_and_the_words_of_the_question_prove_nothing() -> None:
    weights = Weights()
    weights.shown([PORT], "server port 8080")
    weights.replied(reply("", ("recall", '{"query": "delta host listens 8080"}')), "recall")
    weights.replied(reply("What is the port of the server? 8080?"), "recall")
    assert weights.of(PORT) == 0.5


def test_a_lighter_one_comes_after_those_below_it() -> None:
    weights = Weights()
    assert weights.sorted([PORT, CAT]) == [PORT, CAT]
    chewed(weights, PORT, 2)
    assert weights.sorted([PORT, CAT]) == [CAT, PORT]


def test_a_note_without_words_of_its_own_is_not_judged() -> None:
    weights = Weights()
    chewed(weights, Note("server"), 5)
    assert weights.of(Note("server")) == 1.0


def test_what_is_remembered_of_weights_is_bounded() -> None:
    weights = Weights()
    for n in range(REMEMBERED + 50):
        chewed(weights, Note(f"something number {n}"))
    assert len(weights._weights) == REMEMBERED
    assert weights._shown == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=30)), max_size=40))
def test_weights_stay_between_nothing_and_one(steps: list[tuple[int, str]]) -> None:
    weights = Weights()
    notes = [PORT, CAT, Note("x" * 300), Note("", "")]
    for which, text in steps:
        weights.shown([notes[which]], text)
        weights.replied(reply(text), "recall")
        assert all(0 < weights.of(note) <= 1 for note in notes)
        assert set(weights.sorted(notes)) <= set(notes)
