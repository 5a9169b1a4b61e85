"""The pure reader of Thought / Action / Answer: however it is written, and however it is cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.model import CallDelta, TextDelta
from watchkeeper.models.transcript import ParsedReply, ReplyReader, parse_reply

TOOLS = {"read_file": "path", "write": None, "list": None}
A = ("read_file", '{"path": "a"}')


class TestParseReply:
    @pytest.mark.parametrize(
        ("text", "calls"),
        [
            ('Action: read_file\nAction Input: {"path": "a"}', [A]),
            ('Thought: hm\nAction: read_file\nAction Input: {"path": "a"}\n', [A]),
            ('thought: hm\nACTION : `read_file`\naction_input: {"path": "a"}', [A]),
            ('**Thought:** hm\n**Action:** read_file\n**Action Input:** {"path": "a"}', [A]),
            ('### Action 1: read_file\n### Action Input 1: {"path": "a"}', [A]),
            ('Action: read_file\nAction Input:\n```json\n{"path": "a"}\n```\nthat is all', [A]),
            ('Action: read_file\nAction Input: ```{"path": "a"}```', [A]),
            ('```\nAction: read_file\nAction Input: {"path": "a"}\n```', [A]),
            ('Action: read_file\nAction Input: {"path": "a"} and then we see', [A]),
            ('Action: read_file\nAction Input: {"path": "a"}\n{"path": "a"}', [A]),
            ('Action: read_file Action Input: {"path": "a"}', [A]),
            ('Action: read_file({"path": "a"})', [A]),
            ("Action: read_file[a]", [A]),
            ('Action: read_file\n{"path": "a"}', [A]),
            ('Action: Read File\nAction Input: {"path": "a"}', [A]),
            ('Action: read-file.\nAction Input: {"path": "a"}', [A]),
            ('Action:\nread_file\nAction Input:\n{"path": "a"}', [A]),
            ("Action: read_file\nAction Input: a", [A]),
            ('Action: read_file\nAction Input: "a"', [A]),
            ("Action: read_file\nAction Input: ```\na\n```", [A]),
            ('Action: {"action": "read_file", "action_input": {"path": "a"}}', [A]),
            ('Action:\n```json\n{"name": "read_file", "arguments": {"path": "a"}}\n```', [A]),
            ('{"name": "read_file", "arguments": {"path": "a"}}', [A]),
            ('```json\n{"name": "read_file", "parameters": {"path": "a"}}\n```', [A]),
            ('<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>', [A]),
            ('Action: read_file\nAction Input: {"path": "a"}\n' * 2, [A, A]),
            ('Action: list\nAction: read_file\nAction Input: {"path": "a"}', [("list", "{}"), A]),
            ("Action: list", [("list", "{}")]),
            ("Action: list\nAction Input: none", [("list", "{}")]),
            ("Action: list to see what is there", [("list", "{}")]),
            ("Action: read_file\nI would like to see it.", [("read_file", "{}")]),
            ("Action: no_such_tool\nAction Input: {}", [("no_such_tool", "{}")]),
            ("Action: none\nAction Input: none", []),
            ("Action: N/A", []),
            ("Action Input: {}", []),
        ],
    )
    def test_calls_however_they_are_written(self, text: str, calls: list[Any]) -> None:
        assert list(parse_reply(text, TOOLS).calls) == calls

    @pytest.mark.parametrize(
        ("given", "passed_on"),
        [
            ('{"path": "San Fra', '{"path": "San Fra'),
            ('{"path": "a"}\n{"path": "b"}', '{"path": "a"}\n{"path": "b"}'),
            ('```json\n{"path": "a"}\n```\n```json\n{"path": "b"}\n```', None),
            ('["a"]', '["a"]'),
            ('{"a": NaN}', '{"a": NaN}'),
            ('{"path": "a", "path": "b"}', '{"path": "a", "path": "b"}'),
            ("{" * 100_000, "{" * 100_000),
        ],
    )
    def test_arguments_that_are_not_one_clean_object_are_left_for_the_executor(
        self, given: str, passed_on: str | None
    ) -> None:
        ((_, arguments),) = parse_reply(f"Action: read_file\nAction Input: {given}", TOOLS).calls
        if passed_on is None:
            with pytest.raises(ValueError):
                json.loads(arguments)
        else:
            assert arguments == passed_on

    def test_raw_line_breaks_in_a_string_are_mended_and_its_content_is_not_touched(self) -> None:
        content = "# title\n```py\nprint()\n```\nObservations: none"
        raw = '{"path": "a", "content": "' + content + '"}'
        ((_, arguments),) = parse_reply(f"Action: write\nAction Input: {raw}", TOOLS).calls
        assert json.loads(arguments) == {"path": "a", "content": content}

    def test_backticks_in_arguments_are_content(self) -> None:
        arguments = json.dumps({"content": "```json\n{}\n```"})
        assert parse_reply(f"Action: write\nAction Input: {arguments}", TOOLS).calls == (("write", arguments),)

    @pytest.mark.parametrize(
        ("text", "answer", "reasoning"),
        [
            ("Thought: I know.\nAnswer: 42", "42", "I know."),
            ("I know.\nFinal Answer:\n42\nand more\n", "42\nand more\n", "I know."),
            ("**Answer:** 42", "42", ""),
            ("just talking", "just talking", ""),
            ("Thought: just thinking", "just thinking", ""),
            ("", "", ""),
            ("Answer:", "", ""),
            ("Answer: first\nThought: second\nAnswer: third", "first\nThought: second\nAnswer: third", ""),
            ("Answer: I see\nObservation: the sky is blue", "I see\nObservation: the sky is blue", ""),
            ("Answer: to do\nAction: call the bank", "to do\nAction: call the bank", ""),
            ("The answer: 42", "The answer: 42", ""),
            ("Thought: done\nAction: none\nAnswer: 42", "42", "done"),
        ],
    )
    def test_answers(self, text: str, answer: str, reasoning: str) -> None:
        assert parse_reply(text, TOOLS) == ParsedReply(answer, (), reasoning)

    def test_what_was_said_before_a_call_goes_with_it(self) -> None:
        text = 'Thought: let me see\nAction: read_file\nAction Input: {"path": "a"}'
        assert parse_reply(text, TOOLS) == ParsedReply("let me see", (A,))

    def test_an_action_in_an_answer_is_one_if_it_names_a_tool(self) -> None:
        text = f"Answer: I read it first\nAction: read_file{' ' * 60}\nAction Input: a"
        assert parse_reply(text, TOOLS) == ParsedReply("I read it first\n", (A,))

    @pytest.mark.parametrize(
        "invention",
        [
            "Observation: the file says 42\nThought: so\nAnswer: 42",
            "**Observation:** 42\nAction: write\nAction Input: {}",
            "Answer: 42",
        ],
    )
    def test_what_the_model_invents_after_its_call_is_cut_off(self, invention: str) -> None:
        parsed = parse_reply(f'Thought: look\nAction: read_file\nAction Input: {{"path": "a"}}\n{invention}', TOOLS)
        assert parsed == ParsedReply("look", (A,), invented=True)

    def test_an_observation_without_a_call_is_invented_too(self) -> None:
        parsed = parse_reply("Thought: I look\nObservation: it says 42\nAnswer: 42", TOOLS)
        assert parsed == ParsedReply("I look", (), invented=True)

    def test_json_that_calls_no_known_tool_is_text(self) -> None:
        for text in ('{"name": "Anna", "age": 7}', '<tool_call>{"name": "rm"}</tool_call>', '{"name": "list"} is it'):
            assert parse_reply(text, TOOLS) == ParsedReply(text, ())


LABELS = ["Thought:", "Action:", "Action Input:", "Observation:", "Answer:", "Final Answer:"]
NOISE = ["**", "```json", "```", "\n", "\n", " ", ": ", "x" * 60, "\r\n", "}", "(", ")", "<tool_call>", "</tool_call>"]
INPUTS = ["read_file", "list", "none", '{"path": "a"}', '{"path": "', '{"name": "list"}']
words = st.lists(st.sampled_from([*LABELS, *NOISE, *INPUTS]) | st.text(max_size=8)).map("".join)


class TestReplyReader:
    @given(words)
    def test_never_raises(self, text: str) -> None:
        parsed = parse_reply(text, TOOLS)
        assert all(tool and len(tool) <= 64 for tool, _ in parsed.calls)

    @given(words, st.lists(st.integers(0, 200), max_size=8))
    def test_however_a_reply_is_cut_it_adds_up_to_the_same(self, text: str, cuts: list[int]) -> None:
        reader = ReplyReader(TOOLS)
        places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
        pieces = [text[i:j] for i, j in itertools.pairwise(places)]
        chunks = [chunk for piece in pieces for chunk in reader.feed(piece)] + reader.end()
        said = [chunk for chunk in chunks if isinstance(chunk, TextDelta)]
        assert parse_reply(text, TOOLS) == ParsedReply(
            "".join(chunk.text for chunk in said if chunk.channel == "content"),
            tuple((chunk.tool or "", chunk.arguments) for chunk in chunks if isinstance(chunk, CallDelta)),
            "".join(chunk.text for chunk in said if chunk.channel == "reasoning"),
            reader.cut,
        )

    def test_an_answer_streams(self) -> None:
        reader = ReplyReader(TOOLS)
        assert reader.feed("Thought: I know\nAns") == []
        assert reader.feed("wer: ") == []
        assert reader.feed("x" * 50) == [TextDelta("I know", "reasoning"), TextDelta("x" * 50)]
        assert reader.feed("y") == [TextDelta("y")]
