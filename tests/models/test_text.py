"""Tools in text: a model that knows no calls, wrapped so that it does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from watchkeeper.messages import Call, Message
from watchkeeper.model import CallDelta, Chunk, Finished, Model, Request, TextDelta, Timeouts, UsageReported
from watchkeeper.models.openai import OpenAIModel
from watchkeeper.models.text import OFF, TextTools, as_text
from watchkeeper.models.transcript import ParsedReply, parse_reply
from watchkeeper.testing.server import ChatServer, Raw, Say, Slow, Stall
from watchkeeper.testing.strict import check_request

READ = {
    "name": "read_file",
    "description": "Read a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
WRITE = {"name": "write", "description": "Write a file.", "parameters": {"type": "object", "properties": {}}}
TOOLS = {"read_file": "path", "list": None}
A = ("read_file", '{"path": "a"}')


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
            await source.aclose()  # type: ignore[attr-defined]  # a generator
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
