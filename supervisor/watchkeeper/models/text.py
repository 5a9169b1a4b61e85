"""Tools for servers without tool calls: described in the prompt, called in text, read back from it."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from ..messages import Call, Message
from ..model import CallDelta, Chunk, Finished, Model, Request, TextDelta, Timeouts
from .transcript import ParsedReply, ReplyReader, parse_reply

__all__ = ["ParsedReply", "TextTools", "as_text", "parse_reply"]

HOW_TO = """You can use tools. To use one, write these lines:

Thought: what you want to do next, and why
Action: the name of one tool
Action Input: its arguments, as one JSON object

Then stop. The result is given to you as an Observation; never write an Observation yourself.
When you know the answer, write these lines instead:

Thought: why you are done
Answer: the answer

These are the tools, each with the JSON schema of its arguments:
"""
OFF = "Tools are off now. Reply with one line that begins with 'Answer:', and the answer."

_FOREIGN = 1_000_000
"""Added to the index of calls that the server makes after all, so that they do not mix with those in the text."""


class TextTools:
    """Wraps a :class:`Model` whose server knows no tool calls, and is one that does.

    The wrapped model is never sent tools or ``tool_choice``: tools are described in the system prompt, earlier calls
    and results become text, and its replies are read with :func:`parse_reply`. A reply in which the model goes on to
    invent the result of its call is cut off there and its connection closed; such a reply reports no usage (``stop:
    ["Observation:"]`` among the extra fields of the wrapped model saves that, where the server takes it).

    Errors, timeouts and cancel are the wrapped model's. While text is held back until it is known what it is, empty
    chunks say that it is alive.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.timeouts: Timeouts | None = getattr(model, "timeouts", None)
        self.provider: str | None = getattr(model, "provider", None)
        self.base_url: str | None = getattr(model, "base_url", None)
        self.secrets: tuple[str, ...] = getattr(model, "secrets", ())
        self.context_window: int | None = getattr(model, "context_window", None)

    @property
    def name(self) -> str:
        return self._model.name

    def __repr__(self) -> str:
        return f"<TextTools {self._model!r}>"

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Chunk]]:
        tools = {str(spec["name"]): _only_text_parameter(spec) for spec in request.tools}
        async with self._model.stream(as_text(request)) as chunks:
            yield _Chunks(chunks, ReplyReader(tools))


class _Chunks:
    """The chunks of a reply in text, as those of a reply with calls."""

    def __init__(self, chunks: AsyncIterator[Chunk], reader: ReplyReader) -> None:
        self._chunks = chunks
        self._reader = reader
        self._ready: deque[Chunk] = deque()
        self._ended = False
        self._exhausted = False

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ready:
            if self._exhausted or self._reader.cut:
                raise StopAsyncIteration
            chunk = await anext(self._chunks, None)
            if chunk is None:
                self._exhausted = True
                self._end("stop")
            else:
                self._read(chunk)
        return self._ready.popleft()

    def _read(self, chunk: Chunk) -> None:
        if isinstance(chunk, TextDelta) and chunk.channel == "content":
            self._ready.extend(self._reader.feed(chunk.text) or [TextDelta("")])
            if self._reader.cut:
                self._end("stop")
        elif isinstance(chunk, CallDelta):
            self._ready.append(msgspec.structs.replace(chunk, index=chunk.index + _FOREIGN))
        elif isinstance(chunk, Finished):
            self._end(chunk.reason)
        else:
            self._ready.append(chunk)

    def _end(self, reason: str) -> None:
        if self._ended:
            return
        self._ended = True
        self._ready.extend(self._reader.end())
        self._ready.append(Finished("tool_calls" if reason == "stop" and self._reader.calls else reason))


def as_text(request: Request) -> Request:
    """The same request without tools: what they are, what was called and what came back are text.

    System messages become one, at the beginning; neighbours of one role become one message, as templates want it.
    """
    had_calls = any(message.calls for message in request.messages)
    if not request.tools and not had_calls:
        return msgspec.structs.replace(request, tool_choice="auto")
    system = [message.content for message in request.messages if message.role == "system"]
    system.append(_description(request) if request.tools and request.tool_choice != "none" else OFF)
    messages = [Message("system", "\n\n".join(system)), *_turns(request.messages)]
    return Request(tuple(messages), max_tokens=request.max_tokens, reasoning_tokens=request.reasoning_tokens)


def _description(request: Request) -> str:
    lines = [HOW_TO]
    for spec in request.tools:
        schema = json.dumps(spec.get("parameters", {}), ensure_ascii=False)
        lines.append(f"- {spec['name']}: {spec.get('description', '')}\n  {schema}")
    if request.tool_choice == "required":
        lines.append("\nUse a tool now; do not answer yet.")
    elif request.tool_choice != "auto":
        lines.append(f"\nUse the tool {request.tool_choice} now; do not answer yet.")
    return "\n".join(lines)


def _turns(conversation: Sequence[Message]) -> list[Message]:
    turns: list[Message] = []
    batch: dict[str, tuple[int, Call]] = {}
    for message in conversation:
        if message.role == "system":
            continue
        if message.role == "assistant":
            batch = {call.id: (number, call) for number, call in enumerate(message.calls, 1)}
            turns.append(Message("assistant", _said(message)))
            continue
        text = _observation(message, batch) if message.role == "tool" else message.content
        if turns and turns[-1].role == "user":
            turns[-1] = Message("user", f"{turns[-1].content}\n\n{text}")
        else:
            turns.append(Message("user", text))
    return turns


def _said(message: Message) -> str:
    if not message.calls:
        return f"Answer: {message.content}"
    lines = [f"Thought: {message.content}"] if message.content else []
    for call in message.calls:
        lines += [f"Action: {call.tool}", f"Action Input: {call.arguments.strip() or '{}'}"]
    return "\n".join(lines)


def _observation(message: Message, batch: Mapping[str, tuple[int, Call]]) -> str:
    number, call = batch.get(message.call_id or "", (0, None))
    which = f" {number} ({call.tool})" if call is not None and len(batch) > 1 else ""
    return f"Observation{which}: {message.content}"


def _only_text_parameter(spec: Mapping[str, Any]) -> str | None:
    """The name of a tool's parameter, if it has just one and that is a string."""
    schema = spec.get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) != 1:
        return None
    name, described = next(iter(properties.items()))
    return str(name) if isinstance(described, dict) and described.get("type") == "string" else None
