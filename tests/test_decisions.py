"""What becomes of a reply: acted on, taken as the answer, sent back, or the end. Nothing is sent back for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.decisions import BROKEN, WITHHELD, Act, Answer, End, Push, Situation, Tries, decide, unparsed_call
from watchkeeper.guards.evidence import Missing
from watchkeeper.messages import Call
from watchkeeper.model import Reply
from watchkeeper.wording import Wording

CALL = Call("c1", "look", "{}", 1)
NOTHING = Missing([], (), [])
SOMETHING = Missing(["look"], (), [])
WORDING = Wording()


def situation(**changes: Any) -> Situation:
    return Situation(
        **{
            "tools_off": False,
            "finishing": False,
            "missing": NOTHING,
            "tools": ("look", "write"),
            "pushbacks": 2,
            "empty_replies": 2,
            **changes,
        }
    )


def decided(text: str = "", *calls: Call, finish: str = "stop", tries: Tries | None = None, **changes: Any) -> Any:
    reply = Reply(text=text, calls=calls, finish=finish)
    return decide(reply, situation(**changes), tries or Tries(), WORDING)


def series(times: int, *args: Any, **more: Any) -> list[Any]:
    tries = Tries()
    return [decided(*args, tries=tries, **more) for _ in range(times)]


# -- acts and answers -----------------------------------------------------------------------------------------------


def test_calls_are_acted_on() -> None:
    assert decided("thinking", CALL, finish="tool_calls") == Act((CALL,))


@pytest.mark.parametrize("finish", ["stop", "", "end_turn", "function_call", "made_up"])
def test_calls_count_whatever_the_label(finish: str) -> None:
    """FINI-02: tool calls with a finish reason of stop."""
    assert decided("", CALL, finish=finish) == Act((CALL,))


def test_calls_when_tools_are_off_are_answered_as_such() -> None:
    """TURN-05, TCHO-01"""
    assert decided("", CALL, finish="tool_calls", tools_off=True) == Act((CALL,), tools_off=True)


def test_text_is_the_answer() -> None:
    assert decided("42") == Answer("42")
    assert decided("42", finish="eos") == Answer("42")


def test_an_answer_near_the_limit_is_marked() -> None:
    assert decided("42", finishing=True) == Answer("42", forced=True)


# -- withheld, broken, unknown --------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", sorted(WITHHELD))
@pytest.mark.parametrize("text", ["", "I ca"])
def test_a_withheld_reply_is_the_end(finish: str, text: str) -> None:
    """FINI-04, RTRY-07: never asked again."""
    assert decided(text, finish=finish) == End("stopped", "filtered")


@pytest.mark.parametrize("finish", sorted(BROKEN))
@pytest.mark.parametrize("calls", [(), (CALL,)])
def test_a_broken_reply_is_no_answer_and_no_call(finish: str, calls: tuple[Call, ...]) -> None:
    assert decided("half an ans", *calls, finish=finish) == End("stopped", f"finish_{finish}")


def test_an_unknown_reason_with_nothing_is_named_and_terminal() -> None:
    """FINI-04"""
    assert decided("", finish="foo") == End("stopped", "finish_foo")
    assert decided("", finish="x" * 500) == End("stopped", "finish_" + "x" * 40)
    assert decided("text", finish="foo") == Answer("text")


# -- empty ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_reply_is_asked_again_twice_and_not_kept(text: str) -> None:
    """EMPT-01, EMPT-02"""
    first, second, third = series(3, text)
    assert first == second == Push(WORDING.empty_reply().text, "empty", keep=False)
    assert third == End("stopped", "empty")


def test_only_empty_replies_in_a_row_count() -> None:
    tries = Tries()
    for _ in range(5):
        assert isinstance(decided("", tries=tries), Push)
        assert isinstance(decided("", tries=tries), Push)
        assert isinstance(decided("", CALL, tries=tries), Act)
    assert isinstance(decided("", tries=tries), Push)
    assert isinstance(decided("so", missing=SOMETHING, tries=tries), Push)
    assert isinstance(decided("", tries=tries), Push)
    assert isinstance(decided("", tries=tries), Push)
    assert isinstance(decided("", tries=tries), End)


# -- chanting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [(), (CALL,)])
@pytest.mark.parametrize("text", ["", "the the"])
def test_a_chant_is_sent_back_and_not_kept(text: str, calls: tuple[Call, ...]) -> None:
    """However many there are: the ladder ends them."""
    first, *others = series(5, text, *calls, finish="chant")
    assert first == Push(WORDING.chanted(1).text, "chant", keep=False)
    assert [push.message for push in others] == [WORDING.chanted(times).text for times in range(2, 6)]
    assert "the the" not in first.message


def test_only_chants_in_a_row_count() -> None:
    tries = Tries()
    decided("the the", finish="chant", tries=tries)
    decided("", CALL, tries=tries)
    assert decided("the the", finish="chant", tries=tries).message == WORDING.chanted(1).text


# -- cut ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "calls"), [("", (CALL,)), ("half an ans", ()), ("", ())])
def test_a_reply_that_is_cut_is_not_acted_on_and_sent_back_once(text: str, calls: tuple[Call, ...]) -> None:
    """FINI-01: also if the JSON of its call happens to parse."""
    first, second = series(2, text, *calls, finish="length")
    assert first == Push(WORDING.cut_reply().text, "length", keep=False)
    assert second == End("stopped", "length")


def test_a_whole_reply_between_gives_another_try() -> None:
    tries = Tries()
    for _ in range(3):
        assert isinstance(decided("", CALL, finish="length", tries=tries), Push)
        assert isinstance(decided("", CALL, tries=tries), Act)
    assert isinstance(decided("cut", finish="length", tries=tries), Push)
    assert isinstance(decided("cut", finish="length", tries=tries), End)


# -- evidence -------------------------------------------------------------------------------------------------------


def test_an_answer_without_evidence_is_sent_back_and_kept_as_rejected() -> None:
    first, second, third = series(3, "surely", missing=SOMETHING)
    told = WORDING.no_evidence(["look"], (), []).text
    assert first == second == Push(told, "evidence", keep=True, rejected="surely")
    assert third == End("stopped", "no_evidence")


@pytest.mark.parametrize(
    "missing", [Missing(["look"], (), []), Missing([], ("look", "write"), []), Missing([], (), ["look"])]
)
def test_whatever_is_missing(missing: Missing) -> None:
    pushed = decided("surely", missing=missing)
    assert isinstance(pushed, Push)
    assert "look" in pushed.message


def test_the_number_of_push_backs_is_the_limits() -> None:
    assert [type(one) for one in series(5, "surely", missing=SOMETHING, pushbacks=4)] == [Push, Push, Push, Push, End]
    assert decided("surely", missing=SOMETHING, pushbacks=0) == End("stopped", "no_evidence")


def test_push_backs_count_over_the_run() -> None:
    tries = Tries()
    for _ in range(2):
        assert isinstance(decided("surely", missing=SOMETHING, tries=tries), Push)
        assert isinstance(decided("", CALL, missing=SOMETHING, tries=tries), Act)
    assert isinstance(decided("surely", missing=SOMETHING, tries=tries), End)


def test_evidence_that_cannot_be_had_any_more_is_not_asked_for() -> None:
    """Tools are off for good: a made-up answer does not become a true one by asking again."""
    assert decided("surely", missing=SOMETHING, tools_off=True) == End("stopped", "no_evidence")


def test_calls_need_no_evidence() -> None:
    assert isinstance(decided("", CALL, missing=SOMETHING), Act)


# -- calls as text --------------------------------------------------------------------------------------------------

AS_TEXT = json.dumps({"name": "look", "arguments": {"what": "a"}})


@pytest.mark.parametrize(
    "text",
    [
        AS_TEXT,
        f"```json\n{AS_TEXT}\n```",
        f"```\n{AS_TEXT}\n```",
        f"<tool_call>\n{AS_TEXT}\n</tool_call>",
        f"<function_call>{AS_TEXT}</function_call>",
        f"Let me look. <tool_call>{AS_TEXT}</tool_call>",
        f"[TOOL_CALLS] [{AS_TEXT}]",
        f"[{AS_TEXT}, {AS_TEXT}]",
        f"  {AS_TEXT} and then I will answer",
        json.dumps({"tool": "look", "args": {}}),
        json.dumps({"name": "look", "parameters": {}}),
        json.dumps({"name": "look", "input": {}}),
        json.dumps({"type": "function", "function": {"name": "look", "arguments": "{}"}}),
        "I will look.\n<function=look><parameter=what>a</parameter></function>",
        '<invoke name="look"><parameter name="what">a</parameter></invoke>',
        "look(what='a')",
        "`look(what='a', how=str(1))`",
        "tool_code look()",
        "print(look(what='a'))",
        f"First some prose.\n```json\n{AS_TEXT}\n```",
        f"```json\n{{}}\n```\n```tool_call\n{AS_TEXT}\n```",
    ],
)
def test_a_call_written_as_text_is_not_the_answer(text: str) -> None:
    """NAME-04"""
    assert unparsed_call(text, ("look",)) == "look"
    first, second, third = series(3, text)
    assert first == second == Push(WORDING.unparsed_call("look").text, "unparsed", keep=True)
    assert third == End("stopped", "unparsed_call")


@pytest.mark.parametrize(
    "text",
    [
        "I looked and found 42.",
        json.dumps({"name": "unknown", "arguments": {}}),
        json.dumps({"name": "look"}),
        json.dumps({"answer": 42}),
        json.dumps([1, 2]),
        "[]",
        "{",
        "[" * 10_000,
        json.dumps({"name": ["look"], "arguments": {}}),
        f"To call it write {AS_TEXT}",
        "Use look(what='a') for that.",
        "<function=unknown>",
        "unknown()",
        "look",
        "<invoke name='look'>",
        "",
    ],
)
def test_ordinary_text_is_ordinary(text: str) -> None:
    assert unparsed_call(text, ("look",)) is None


def test_a_call_as_text_when_tools_are_off_is_told_that_they_are() -> None:
    pushed = decided(AS_TEXT, tools_off=True)
    assert pushed == Push(WORDING.tools_off("look").text, "unparsed", keep=True)


# -- all of it ------------------------------------------------------------------------------------------------------

REPLIES = [
    Reply(text=text, finish=finish)
    for text in ("", " ", "text", AS_TEXT)
    for finish in ("stop", "length", "content_filter", "error", "", "foo")
]


@given(
    st.lists(st.sampled_from(REPLIES), min_size=40, max_size=40),
    st.booleans(),
    st.booleans(),
    st.sampled_from([NOTHING, SOMETHING]),
)
def test_nothing_is_sent_back_for_ever(
    replies: list[Reply], tools_off: bool, finishing: bool, missing: Missing
) -> None:
    """Whatever a model says instead of acting: it comes to an end, and empty or cut replies are never kept."""
    tries = Tries()
    for reply in replies:
        decision = decide(reply, situation(tools_off=tools_off, finishing=finishing, missing=missing), tries, WORDING)
        if not isinstance(decision, Push):
            assert isinstance(decision, Answer | End)
            assert not (missing and isinstance(decision, Answer))
            break
        assert decision.message
        assert decision.keep is (decision.by not in ("empty", "length"))
    else:
        pytest.fail(f"{len(replies)} replies were sent back and no end is in sight")
