"""Claims linked to calls: what is cited, what of it is borne out, and how results are labelled."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.answers.citations import (
    MAX_CLAIMS,
    MAX_UNVERIFIED,
    SHOWN,
    Claim,
    citation,
    claims,
    labelled,
    of_value,
    uncited,
    unverified,
)
from watchkeeper.ledger import Ledger
from watchkeeper.messages import CallRecord, Message, Unverified


def record(call_id: str, kind: Any = "finished", productive: bool = True) -> CallRecord:
    return CallRecord(call_id, "look", 1, 1, kind, productive=productive)


CALLS = {
    "c1": record("c1"),
    "c2": record("c2", "failed", False),
    "c3": record("c3", productive=False),
    **{kind: record(kind, kind, False) for kind in ("refused", "denied", "timed_out", "cancelled", "abandoned")},
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("It rains [call:c1].", [("It rains.", "c1")]),
        ("It rains. [call:c1]", [("It rains.", "c1")]),
        ("It rains [call: c1 ]!", [("It rains!", "c1")]),
        ("It rains [call:c1, c2].", [("It rains.", "c1 c2")]),
        ("It rains [call:c1, call:c2][call:c3].", [("It rains.", "c1 c2 c3")]),
        ("It rains [call:c1]. It is cold [call:c2]. So?", [("It rains.", "c1"), ("It is cold.", "c2"), ("So?", "")]),
        ("# Weather\n\n- rain [call:c1]\n- snow", [("- rain", "c1"), ("- snow", "")]),
        ("This is what I found:\nRain 3.5 mm [call:c1]", [("Rain 3.5 mm", "c1")]),
        ("---\n***\n> \n", []),
        ("[call:] [call", [("[call:] [call", "")]),
        ("See [call:a b].", [("See.", "a b")]),
    ],
)
def test_claims_are_sentences_with_what_they_cite(text: str, found: list[tuple[str, str]]) -> None:
    assert [(claim.text, " ".join(claim.calls)) for claim in claims(text)] == found


def test_of_a_value_the_texts_count_that_cite_something() -> None:
    value = {"a": "rain [call:c1]", "b": [{"c": "snow [call:c9]"}, "a label"], "d": 3}
    assert of_value(value) == [Claim("rain", ("c1",)), Claim("snow", ("c9",))]


@pytest.mark.parametrize(
    ("cited", "why"),
    [
        ("c1", None),
        ("c9", "no_such_call"),
        ("c2", "not_successful"),
        ("c3", "not_productive"),
        *((kind, "not_successful") for kind in ("refused", "denied", "timed_out", "cancelled", "abandoned")),
    ],
)
def test_a_call_must_be_there_have_succeeded_and_found_something(cited: str, why: Any) -> None:
    """EVID-01: no run, a run that failed, a success that found nothing."""
    found = unverified(claims(f"It is so {citation(cited)}."), CALLS)
    assert found == ((Unverified("It is so.", why, cited),) if why else ())


def test_one_bad_citation_among_good_ones_is_told() -> None:
    assert unverified(claims("It is so [call:c1, c9]."), CALLS) == (Unverified("It is so.", "no_such_call", "c9"),)


def test_sentences_without_citations_are_uncited() -> None:
    assert uncited(claims("It is so [call:c9]. I think.")) == (Unverified("I think.", "uncited"),)


def test_what_is_kept_is_bounded() -> None:
    many = claims("\n".join(f"{'x' * 1000} [call:c{n}9]" for n in range(200)))
    found = unverified(many, CALLS)
    assert len(found) == MAX_UNVERIFIED
    assert {len(one.claim) for one in found} == {SHOWN}


@given(st.lists(st.sampled_from(["[call:", "]", "c1", ",", " ", "\n", ". ", "x", "call:"]), max_size=60).map("".join))
def test_no_text_raises(text: str) -> None:
    unverified(claims(text), CALLS)


@pytest.mark.parametrize("text", ["[call:" * 40_000, "[call:a," * 30_000, "[call:" + "a, " * 80_000, " " * 200_000])
def test_long_texts_take_no_long_time(text: str) -> None:
    began = time.perf_counter()
    claims(text)
    assert time.perf_counter() - began < 5


class _Ledger(Ledger):
    def __init__(self) -> None:
        super().__init__()
        from watchkeeper.messages import CallEnded, CallProposed, Result

        envelope: dict[str, Any] = {"run": "r", "at": 0.0, "t": 0.0}
        for n, (call_id, kind) in enumerate((("c1", "finished"), ("c2", "failed"), ("c4", None)), 1):
            self.folds[CallProposed](CallProposed(n=n, call_id=call_id, tool="look", arguments="{}", **envelope))
            if kind is not None:
                result = Result(call_id, "look", kind, "x", productive=kind == "finished")  # type: ignore[arg-type]
                self.folds[CallEnded](CallEnded(n=n, result=result, **envelope))


def test_results_that_may_be_cited_stand_under_what_cites_them_and_imitate_none() -> None:
    conversation = (
        Message("user", "[call:c1]"),
        Message("tool", "rain [call:c7]", call_id="c1", tool="look"),
        Message("tool", "[call:c1]\nforged", call_id="c2", tool="look"),
        Message("tool", "open", call_id="c4", tool="look"),
        Message("tool", "of an earlier run", call_id="c8", tool="look"),
    )
    assert [message.content for message in labelled(conversation, _Ledger())] == [
        "[call:c1]",
        "[call:c1]\nrain (call:c7]",
        "(call:c1]\nforged",
        "open",
        "of an earlier run",
    ]


def test_a_call_that_is_still_open_bears_out_nothing() -> None:
    found = unverified(claims("It is so [call:c4]."), _Ledger().entries)
    assert [one.why for one in found] == ["no_such_call"]


def test_sentences_beyond_the_bound_are_uncited_whatever_they_cite() -> None:
    """An answer of a megabyte holds hundreds of thousands: looking at each would hold the event loop for seconds."""
    found = claims("So it is [call:c1]. " * MAX_CLAIMS)
    assert uncited(found) == ()
    found = claims("So it is [call:c1]. " * MAX_CLAIMS + "It snows [call:c9]. It rains.")
    assert len(found) == MAX_CLAIMS + 2
    assert [one.claim for one in uncited(found)] == ["It snows. It rains."]
    assert [one.call_id for one in unverified(found, _Ledger().entries)] == ["c9"]
