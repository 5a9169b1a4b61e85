"""Tools in text: the pure reader of Thought / Action / Answer, and the model that wraps one that knows no calls."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.messages import Call, Message
from watchkeeper.model import CallDelta, Chunk, Finished, Model, Request, TextDelta, Timeouts, UsageReported
from watchkeeper.models.openai import OpenAIModel
from watchkeeper.models.text import OFF, TextTools, as_text
from watchkeeper.models.transcript import ParsedReply, ReplyReader, parse_reply
from watchkeeper.testing.server import ChatServer, Raw, Say, Slow, Stall
from watchkeeper.testing.strict import check_request

READ = {
    "name": "read_file",
    "description": "Read a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
WRITE = {"name": "write", "description": "Write a file.", "parameters": {"type": "object", "properties": {}}}
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


class TestAsText:
    def test_tools_and_history_become_text_that_a_strict_server_takes(self) -> None:
        history = (
            Message("system", "be brief"),
            Message("user", "what is in a and b?"),
            Message("assistant", "both", calls=(Call("1", "read_file", '{"path": "a"}'), Call("2", "read_file", " "))),
            Message("tool", "one", call_id="1", tool="read_file"),
            Message("tool", "two", call_id="2", tool="read_file"),
            Message("user", "[watchkeeper] go on", mark="watchkeeper"),
        )
        text = as_text(Request(history, tools=(READ, WRITE), max_tokens=9, parallel=False))
        system, *rest = text.messages
        assert (text.tools, text.tool_choice, text.max_tokens) == ((), "auto", 9)
        assert system.content.startswith("be brief\n\nYou can use tools.")
        assert "- read_file: Read a file.\n" in system.content
        assert [(message.role, message.content) for message in rest] == [
            ("user", "what is in a and b?"),
            (
                "assistant",
                'Thought: both\nAction: read_file\nAction Input: {"path": "a"}\nAction: read_file\nAction Input: {}',
            ),
            ("user", "Observation 1 (read_file): one\n\nObservation 2 (read_file): two\n\n[watchkeeper] go on"),
        ]

    def test_what_it_writes_it_reads(self) -> None:
        calls = (Call("1", "read_file", '{"path": "a"}'), Call("2", "list", ""))
        said = as_text(Request((Message("user", "x"), Message("assistant", "so", calls)), tools=(READ,))).messages[-1]
        assert parse_reply(said.content, TOOLS) == ParsedReply("so", (A, ("list", "{}")))

    def test_an_earlier_answer_keeps_its_form(self) -> None:
        history = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
        assert as_text(Request(history, tools=(READ,))).messages[2].content == "Answer: b"

    @pytest.mark.parametrize(
        ("choice", "told"), [("required", "Use a tool now"), ("write", "Use the tool write now"), ("none", OFF)]
    )
    def test_the_choice_of_tools_is_told(self, choice: str, told: str) -> None:
        text = as_text(Request((Message("user", "x"),), tools=(READ, WRITE), tool_choice=choice))
        assert told in text.messages[0].content
        assert ("read_file" in text.messages[0].content) is (choice != "none")

    def test_tools_that_were_withdrawn_are_off(self) -> None:
        history = (
            Message("user", "x"),
            Message("assistant", "", (Call("1", "list", "{}"),)),
            Message("tool", "y", call_id="1"),
        )
        assert as_text(Request(history)).messages[0] == Message("system", OFF)

    def test_without_tools_nothing_is_added(self) -> None:
        request = Request((Message("user", "x"), Message("assistant", "y"), Message("user", "z")), tool_choice="none")
        assert as_text(request).messages == request.messages


async def chunks_of(model: Model, *tools: dict[str, Any]) -> list[Chunk]:
    async with model.stream(Request((Message("user", "hi"),), tools=tools)) as chunks:
        return [chunk async for chunk in chunks]


class Scripted:
    """A model that streams the given chunks."""

    name = "scripted"

    def __init__(self, *chunks: Chunk) -> None:
        self._chunks = chunks
        self.left = False

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        async def chunks() -> AsyncIterator[Chunk]:
            for chunk in self._chunks:
                yield chunk

        source = chunks()
        try:
            yield source
        finally:
            await source.aclose()  # type: ignore[attr-defined]
            self.left = True


@pytest.mark.anyio
class TestTextTools:
    async def test_a_server_without_tool_calls_calls_tools(self) -> None:
        said = 'Thought: look\nAction: read_file\nAction Input: {"path": "a"}'
        async with ChatServer([Say(said), Say("Thought: good\nAnswer: done")]) as server:
            model = TextTools(OpenAIModel("m", base_url=server.base_url))
            first = await chunks_of(model, READ)
            second = await chunks_of(model, READ)
        assert [chunk for chunk in first if isinstance(chunk, CallDelta)] == [CallDelta(0, None, *A)]
        assert [chunk for chunk in first if isinstance(chunk, Finished)] == [Finished("tool_calls")]
        assert isinstance(first[-1], UsageReported)
        assert Finished("stop") in second
        assert "".join(c.text for c in second if isinstance(c, TextDelta) and c.channel == "content") == "done"
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(server.requests[0].body)
        assert check_request(server.requests[0].body) is None

    async def test_an_invented_observation_ends_the_stream_and_closes_the_connection(self) -> None:
        said = "Action: list\nObservation: a, b, c\nThought: " + "on and on " * 100
        async with ChatServer([Slow(Say(said), 0.01)]) as server:
            chunks = await chunks_of(TextTools(OpenAIModel("m", base_url=server.base_url)), WRITE)
            with anyio.fail_after(5):
                await server.requests[0].done.wait()
            assert server.requests[0].closed_by_peer
        assert [chunk for chunk in chunks if chunk != TextDelta("")] == [
            CallDelta(0, None, "list", "{}"),
            Finished("tool_calls"),
        ]

    async def test_cancel_is_passed_on(self) -> None:
        async with ChatServer([Say("warm"), Stall(after_chunks=3)]) as server:
            model = TextTools(OpenAIModel("m", base_url=server.base_url))
            await chunks_of(model)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(chunks_of, model)
                received = await server.arrived(2)
                tasks.cancel_scope.cancel()
            with anyio.fail_after(5):
                await received.done.wait()
            assert received.closed_by_peer

    async def test_while_text_is_held_there_are_signs_of_life(self) -> None:
        inner = Scripted(TextDelta("I th"), TextDelta("ink"), Finished("stop"))
        assert await chunks_of(TextTools(inner), READ) == [
            *[TextDelta("")] * 2,
            TextDelta("I think"),
            Finished("stop"),
        ]
        assert inner.left

    async def test_reasoning_and_length_come_through(self) -> None:
        inner = Scripted(
            TextDelta("hm", "reasoning"), TextDelta('Action: write\nAction Input: {"a'), Finished("length")
        )
        assert [chunk for chunk in await chunks_of(TextTools(inner), WRITE) if chunk != TextDelta("")] == [
            TextDelta("hm", "reasoning"),
            CallDelta(0, None, "write", '{"a'),
            Finished("length"),
        ]

    async def test_a_model_that_never_says_why_it_ends(self) -> None:
        assert (await chunks_of(TextTools(Scripted(TextDelta("Answer: x"))), READ))[-2:] == [
            TextDelta("x"),
            Finished("stop"),
        ]

    async def test_calls_that_the_server_makes_after_all_stay_apart(self) -> None:
        inner = Scripted(TextDelta("Action: list\n"), CallDelta(0, "a", "write", "{}"), Finished("stop"))
        chunks = await chunks_of(TextTools(inner), READ)
        assert len({chunk.index for chunk in chunks if isinstance(chunk, CallDelta)}) == 2

    async def test_errors_are_the_wrapped_models(self) -> None:
        async with ChatServer([Raw()]) as server:
            with pytest.raises(Exception, match="empty reply"):
                await chunks_of(TextTools(OpenAIModel("m", base_url=server.base_url)), READ)


def test_it_is_a_model_with_what_the_wrapped_one_tells() -> None:
    inner = OpenAIModel("m", base_url="http://x.test/v1", context_window=9, timeouts=Timeouts(1, 2, 3))
    model = TextTools(inner)
    assert isinstance(model, Model)
    assert (model.name, model.provider, model.context_window, model.timeouts) == (
        *("m", "http://x.test:80", 9, Timeouts(1, 2, 3)),
    )
    assert TextTools(Scripted()).provider is None
