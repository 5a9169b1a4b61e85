"""Facts as spans: what is within what, and that all that opens closes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sighted import recorded

from support import of
from watchkeeper import Event
from watchkeeper.messages import CallEnded, CallStarted, ModelRequested, Nudged, RunEnded
from watchkeeper.observe import names
from watchkeeper.observe.spans import NOTES, Span, Spans, spans_of


def by_kind(spans: Sequence[Span], kind: str) -> list[Span]:
    return [span for span in spans if span.kind == kind]


def test_a_run_has_turns_and_these_have_requests_and_calls() -> None:
    facts = recorded()["top"]
    spans = spans_of(facts)
    ids = {span.id: span for span in spans}
    assert len(ids) == len(spans)
    top, sub = by_kind(spans, "run")
    assert (top.name, sub.name) == ("invoke_agent top", "invoke_agent sub")
    assert top.parent == ""
    assert ids[sub.parent].name == "execute_tool ask_sub"
    assert {span.root for span in spans} == {top.run}
    assert all(ids[span.parent].kind == "run" for span in by_kind(spans, "turn"))
    assert all(ids[span.parent].kind == "turn" for span in by_kind(spans, "model") + by_kind(spans, "tool"))
    assert len(by_kind(spans, "model")) == len(of(facts, ModelRequested))
    assert len(by_kind(spans, "tool")) == len(of(facts, CallStarted))


def test_children_lie_within_their_parents() -> None:
    for facts in recorded().values():
        spans = spans_of(facts)
        ids = {span.id: span for span in spans}
        for span in spans:
            assert span.end is not None
            assert span.start <= span.end
            if span.parent:
                above = ids[span.parent]
                assert above.end is not None
                assert above.start <= span.start
                assert span.end <= above.end


def test_spans_say_what_the_facts_say() -> None:
    facts = recorded()["top"]
    spans = spans_of(facts)
    (put,) = (span for span in spans if span.name == "execute_tool put")
    assert put.attributes[names.KIND] == "finished"
    assert put.attributes[names.WAITED] == 1.0
    assert (put.start - facts[0].at, put.end) == (1.0, facts[0].at + 3.0)
    (failed,) = (span for span in spans if span.name == "execute_tool fail")
    assert failed.error == "ValueError"
    assert failed.attributes[names.ERROR] == "ValueError"
    assert failed.message == ""  # what a tool says is content
    chat = by_kind(spans, "model")[0]
    assert (chat.attributes[names.INPUT_TOKENS], chat.attributes[names.OUTPUT_TOKENS]) == (10, 10)
    assert chat.attributes[names.FINISH_REASONS] == ("tool_calls",)
    top = by_kind(spans, "run")[0]
    outcome = next(one.outcome for one in of(facts, RunEnded) if one.run == top.run)
    assert top.attributes[names.STATUS] == "completed"
    assert top.attributes[names.MONEY] == outcome.spent["money"]
    assert top.error == ""


def test_each_attempt_at_a_model_has_a_span() -> None:
    first, second, *_ = by_kind(spans_of(recorded()["retry"]), "model")
    assert (first.error, second.error) == ("rate_limited", "")
    assert [one.attributes[names.ATTEMPT] for one in (first, second)] == [1, 2]
    assert first.end is not None
    assert first.end <= second.start


def test_what_a_cancel_cuts_off_ends_with_its_kind() -> None:
    spans = spans_of(recorded()["hang"])
    (hung,) = (span for span in spans if span.name == "execute_tool hang")
    assert (hung.error, hung.attributes[names.KIND]) == ("cancelled", "cancelled")
    (run,) = by_kind(spans, "run")
    assert run.error == "cancelled"
    assert run.attributes[names.REASON] == "enough of this"
    assert [note.name for span in spans for note in span.notes] == ["cancel_requested", "cancel_confirmed"]


def test_a_stop_and_a_failure_are_errors_of_the_run() -> None:
    assert by_kind(spans_of(recorded()["loop"]), "run")[0].error == "loop"
    (broken,) = by_kind(spans_of(recorded()["broken"]), "run")
    assert broken.error == "model_refused"
    assert by_kind(spans_of(recorded()["broken"]), "model")[0].error == "bad_request"


def test_the_watchdog_leaves_notes_with_the_calls_they_rest_on() -> None:
    notes = [note for span in spans_of(recorded()["loop"]) for note in span.notes]
    said = {note.name for note in notes if note.lane == "watchdog"}
    assert {"finding", "nudged", "blocked", "stopped"} <= said
    finding = next(note for note in notes if note.name == "finding")
    ids = {event.result.call_id for event in of(recorded()["loop"], CallEnded)}
    calls = finding.attributes["calls"]
    assert isinstance(calls, tuple)
    assert set(calls) <= ids


def test_a_call_that_never_ran_has_a_note_and_no_span() -> None:
    facts = recorded()["loop"]
    started = {event.call_id for event in of(facts, CallStarted)}
    refused = [event for event in of(facts, CallEnded) if event.result.call_id not in started]
    assert refused
    notes = [note for span in spans_of(facts) for note in span.notes if note.name == "call_not_started"]
    assert [note.attributes[names.TOOL_CALL] for note in notes] == [event.result.call_id for event in refused]


def test_notes_of_a_span_are_bounded_and_counted() -> None:
    facts = recorded()["loop"]
    (nudge, *_) = of(facts, Nudged)
    fold = Spans()
    steps = [step for event in (facts[0], *[nudge] * (NOTES + 7)) for step in fold.observe(event)]
    ((_, span),) = steps
    assert len(span.notes) == NOTES
    assert span.notes[-1].attributes["left_out"] == 7


def test_content_is_left_out_unless_it_is_asked_for() -> None:
    for facts in recorded().values():
        assert not [name for span in spans_of(facts) for name in span.attributes.keys() & names.CONTENT]
    spans = spans_of(recorded()["top"], content=True)
    look = next(span for span in spans if span.name == "execute_tool look")
    assert look.attributes[names.TOOL_ARGUMENTS] in ('{"at":"a"}', '{"at":"b"}')
    top = by_kind(spans, "run")[0]
    assert "Look at it all." in str(top.attributes[names.INPUT_MESSAGES])
    assert "All is there." in str(top.attributes[names.OUTPUT_MESSAGES])


def test_what_ends_without_a_word_is_closed_as_lost() -> None:
    facts = recorded()["hang"]
    cut = facts[: next(place for place, event in enumerate(facts) if type(event) is CallEnded)]
    spans = spans_of(cut)
    assert {span.error for span in spans if span.kind in ("tool", "run")} == {"lost"}
    assert all(span.end == cut[-1].at for span in spans if span.error == "lost")


def test_who_looks_on_from_the_middle_sees_the_rest() -> None:
    facts = recorded()["hang"]
    middle = next(place for place, event in enumerate(facts) if type(event) is CallStarted)
    spans = spans_of(facts[middle:])
    assert by_kind(spans, "run")[0].name == "invoke_agent"
    assert {span.name for span in by_kind(spans, "tool")} == {"execute_tool hang", "execute_tool look"}


def test_a_sub_agents_facts_may_come_before_its_parents_in_a_file() -> None:
    facts = recorded()["top"]
    assert {(span.id, span.parent) for span in spans_of(facts)} == {
        (span.id, span.parent) for span in spans_of(reversed_runs(facts))
    }


def reversed_runs(facts: Sequence[Event]) -> list[Event]:
    runs = list(dict.fromkeys(event.run for event in facts))
    return [event for run in reversed(runs) for event in facts if event.run == run]


POOL = [event for facts in recorded().values() for event in facts]


@given(st.lists(st.sampled_from(POOL), max_size=60))
def test_whatever_comes_each_span_that_opens_closes_once(facts: list[Event]) -> None:
    fold = Spans()
    steps = [step for event in facts for step in fold.observe(event)]
    assert {span.id for span in fold.open()} == _left(steps)
    steps += fold.close(1e10)
    assert fold.open() == []
    assert _left(steps) == set()
    for what, span in steps:
        if what == "closed":
            assert span.end is not None
            assert span.end >= span.start


def _left(steps: Sequence[tuple[str, Span]]) -> set[str]:
    open_: dict[int, str] = {}
    for what, span in steps:
        if what == "opened":
            open_[id(span)] = span.id
        else:
            assert open_.pop(id(span)) == span.id
    return set(open_.values())


def test_a_run_that_never_began_has_no_span() -> None:
    (ended,) = of(recorded()["broken"], RunEnded)
    never = msgspec.structs.replace(ended.outcome, turns=0)
    assert spans_of([msgspec.structs.replace(ended, outcome=never)]) == []


@pytest.mark.parametrize("name", sorted(recorded()))
def test_the_same_facts_give_the_same_spans(name: str) -> None:
    assert spans_of(recorded()[name]) == spans_of(recorded()[name])
