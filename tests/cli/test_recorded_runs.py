"""Runs recorded elsewhere, as events of ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording import recorded, step

from watchkeeper.cli.declared import Declared, tools_of
from watchkeeper.cli.recorded import RecordedRun, events_of
from watchkeeper.messages import (
    CallAdmitted,
    CallEnded,
    CallProposed,
    Event,
    ModelReplied,
    RunStarted,
    UserMessage,
    decode_event,
    encode_event,
)


def events(*steps: dict[str, Any], **options: Any) -> list[Event]:
    return list(events_of(msgspec.convert(recorded(*steps), RecordedRun), **options))


def ends(*steps: dict[str, Any]) -> list[CallEnded]:
    return [event for event in events(*steps) if isinstance(event, CallEnded)]


def test_a_step_is_a_call_with_its_result() -> None:
    found = events(step("read", {"path": "a"}, "text"))
    assert [type(event) for event in found] == [RunStarted, CallProposed, CallEnded]
    assert [event.n for event in found] == [1, 2, 3]
    ended = found[-1]
    assert isinstance(ended, CallEnded)
    assert (ended.result.kind, ended.result.content, ended.result.productive) == ("finished", "text", True)
    assert ended.arguments == '{"path":"a"}'


def test_equal_arguments_have_equal_keys_in_any_order() -> None:
    first, second, third = ends(step(args={"a": 1, "b": 2}), step(args={"b": 2, "a": 1}), step(args={"a": 1, "b": 3}))
    assert first.key == second.key != third.key


def test_arguments_that_are_not_whole_are_never_equal() -> None:
    first, second = ends(step(args={"path": "a"}, args_partial=True), step(args={"path": "a"}, args_partial=True))
    assert first.key != second.key


def test_an_error_is_a_failure_with_its_first_line_as_code() -> None:
    (ended,) = ends(step(result="\nError: 503\nat line 3", error=True))
    assert (ended.result.kind, ended.result.error) == ("failed", "Error: 503")


def test_a_cut_result_is_compared_by_the_digest_of_the_whole() -> None:
    cut, whole = ends(step(result="x" * 10, result_len=99, result_sha256="f" * 64), step(result="x" * 10))
    assert cut.result_key == "f" * 64
    assert whole.result_key == ""


def test_a_new_user_turn_is_a_message_of_the_user() -> None:
    found = events(step(user_turn=1), step(user_turn=1), step(user_turn=2), step(user_turn=None))
    assert [type(event).__name__ for event in found if not isinstance(event, CallEnded)] == [
        *("RunStarted", "UserMessage", "CallProposed", "CallProposed", "UserMessage", "CallProposed", "CallProposed"),
    ]


def test_agents_are_contexts_of_their_own() -> None:
    found = events(step(agent="planner", user_turn=1), step(agent="coder", user_turn=1))
    spoken = [event.context for event in found if isinstance(event, UserMessage)]
    assert spoken == ["planner", "coder"]
    assert [event.context for event in found if isinstance(event, CallEnded)] == ["planner", "coder"]


class TestWhatTheModelSaid:
    def replies(self, *steps: dict[str, Any]) -> list[ModelReplied]:
        return [event for event in events(*steps) if isinstance(event, ModelReplied)]

    def test_comes_before_its_call_and_has_it_alone(self) -> None:
        found = events(step("read", {"n": 1}, text="I read."), step("read", {"n": 2}))
        kinds = [type(event) for event in found]
        assert kinds == [RunStarted, ModelReplied, CallProposed, CallEnded, CallProposed, CallEnded]
        reply, proposed = found[1], found[2]
        assert isinstance(reply, ModelReplied)
        assert isinstance(proposed, CallProposed)
        assert reply.text == "I read."
        assert [(call.id, call.tool, call.arguments) for call in reply.calls] == [("c0", "read", '{"n":1}')]
        assert proposed.call_id == "c0"

    def test_one_text_with_differing_calls_is_one_reply(self) -> None:
        """A record has a line for each call, and the text of the reply with each."""
        assert len(self.replies(*[step(args={"n": n}, text="I look at all.") for n in range(5)])) == 1

    def test_one_text_with_equal_calls_was_said_again(self) -> None:
        assert len(self.replies(*[step(args={"n": 1}, text="I try again.")] * 5)) == 5

    def test_a_reply_has_not_any_number_of_calls(self) -> None:
        assert len(self.replies(*[step(args={"n": n}, text="Next.") for n in range(40)])) == 3

    def test_another_agent_or_user_turn_said_it_anew(self) -> None:
        texts = [step(args={"n": 1}, text="hi", agent="a"), step(args={"n": 2}, text="hi", agent="b")]
        turns = [step(args={"n": 1}, text="hi", user_turn=1), step(args={"n": 2}, text="hi", user_turn=2)]
        assert len(self.replies(*texts)) == len(self.replies(*turns)) == 2


class TestDeclarations:
    def test_a_loop_key_says_which_arguments_count(self) -> None:
        tools = tools_of({"look": Declared(loop_key=("path",))})
        found = [
            event
            for event in events(step(args={"path": "a", "n": 1}), step(args={"path": "a", "n": 2}), tools=tools)
            if isinstance(event, CallEnded)
        ]
        assert found[0].key == found[1].key

    def test_a_result_key_says_which_fields_count(self) -> None:
        tools = tools_of({"look": Declared(result_key=("state",))})
        results = ['{"state": "on", "t": 1}', '{"state": "on", "t": 2}', '{"state": "off", "t": 2}']
        found = [
            event.result_key
            for event in events(*[step(result=result) for result in results], tools=tools)
            if isinstance(event, CallEnded)
        ]
        assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("steps", "lacks"),
    [
        ([step(), {"kind": "call", "result": "x"}], "step 1 has no tool"),
        ([{"tool": "look", "args": {}}], "step 0 has no result"),
        ([{"action": "look", "observation": "x"}], "step 0 has no tool"),
    ],
)
def test_a_run_of_another_format_is_not_judged(steps: list[dict[str, Any]], lacks: str) -> None:
    flaw = msgspec.convert({"id": "r", "steps": steps}, RecordedRun).flaw()
    assert flaw is not None
    assert lacks in flaw


def test_a_result_of_nothing_is_a_result() -> None:
    assert msgspec.convert({"id": "r", "steps": [{"tool": "t", "result": None}]}, RecordedRun).flaw() is None


def test_call_ids_are_made_unique() -> None:
    found = ends(step(call_id="x"), step(call_id="x"), step(call_id=None))
    assert len({ended.result.call_id for ended in found}) == 3


def test_effects_are_told_where_stable_tools_are_named() -> None:
    found = events(step("read"), step("write"), stable=["read"], polls=["read"])
    admitted = [(event.reads, event.writes) for event in found if isinstance(event, CallAdmitted)]
    assert admitted == [(("",), ()), ((), ("",))]
    assert isinstance(found[0], RunStarted)
    assert found[0].polls == ("read",)


def test_other_kinds_of_steps_are_passed_over() -> None:
    assert len(ends({"kind": "thought", "text": "hm"}, step())) == 1


values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(values, values, st.booleans())
def test_whatever_was_recorded_becomes_events_that_can_be_written(args: Any, result: Any, error: bool) -> None:
    try:
        line = msgspec.json.encode(
            {"id": "r", "steps": [{"tool": "t", "args": args, "result": result, "error": error}]}
        )
    except UnicodeEncodeError:
        return
    for event in events_of(msgspec.json.decode(line, type=RecordedRun)):
        assert decode_event(encode_event(event)) == event
