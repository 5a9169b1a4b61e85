"""The dialect of chat completions: a :class:`Request` becomes a body, the events of a stream become chunks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from ..messages import Call, Message, Usage
from ..model import CallDelta, Chunk, Finished, ModelError, Request, TextDelta, UsageReported

OPTIONAL = frozenset({"stream_options", "parallel_tool_calls", "tool_choice", "response_format"})
"""Fields that a request can do without."""
EFFORTS = ((24_576, "high"), (8_192, "medium"), (1_024, "low"), (1, "minimal"), (0, "none"))
"""Words for a limit of thinking, where a server takes no number: the strongest that stands for no more tokens. The
numbers are those that Gemini's compatible endpoint documents for these words; OpenAI names none."""
Cached = Literal["within", "beside"]
"""Whether ``prompt_tokens`` holds what the server had cached and put into its cache, or that is counted beside it."""
_OTHER = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


class Shape(msgspec.Struct, frozen=True):
    """What a server takes: its name for the bound on tokens, and the optional fields that it does not know."""

    max_tokens_field: str = "max_tokens"
    without: frozenset[str] = frozenset()
    reasoning_field: str | None = None
    """Its name for the limit of thinking; None: it is not told. ``reasoning_effort`` takes a word, ``reasoning`` an
    object with ``max_tokens``, all others a number."""
    switched: bool = False
    """The other name for the bound has been refused already."""

    def refusing(self, field: str | None) -> Shape | None:
        """The shape that is left to try when ``field`` was refused; None if there is none."""
        if field is not None and field in (OPTIONAL | {self.reasoning_field}) - self.without:
            return msgspec.structs.replace(self, without=self.without | {field})
        if field == self.max_tokens_field and field in _OTHER and not self.switched:
            return msgspec.structs.replace(self, max_tokens_field=_OTHER[field], switched=True)
        return None


def request_body(
    model: str,
    request: Request,
    shape: Shape = Shape(),  # noqa: B008 (frozen)
    *,
    withhold_tools: bool = True,
    schema_with_tools: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of a streaming ``POST /chat/completions``.

    With ``withhold_tools`` a ``tool_choice`` of ``none`` leaves the tools out, for the servers that ignore it. A schema
    for the answer is sent where there are no tools in the request, or with ``schema_with_tools``: many servers hold the
    calls of tools to it as well.
    ``extra`` fields are added as they are and win. Lone surrogates, which no server accepts, become U+FFFD wherever
    they are.
    """
    body: dict[str, Any] = {"model": model, "messages": messages(request.messages)}
    body["stream_options"] = {"include_usage": True}
    if request.max_tokens is not None:
        body[shape.max_tokens_field] = request.max_tokens
    if request.reasoning_tokens is not None and shape.reasoning_field is not None:
        body[shape.reasoning_field] = _thinking(shape.reasoning_field, request.reasoning_tokens)
    off = request.tool_choice == "none" and (withhold_tools or "tool_choice" in shape.without)
    if request.tools and not off:
        body["tools"] = [{"type": "function", "function": spec} for spec in request.tools]
        body["parallel_tool_calls"] = request.parallel
        if request.tool_choice != "auto":  # what servers do anyway, and some do not take the field
            body["tool_choice"] = _choice(request.tool_choice)
    if request.answer_schema is not None and (schema_with_tools or "tools" not in body):
        body["response_format"] = _response_format(request.answer_schema)
    for name in shape.without:
        body.pop(name, None)
    body.update(extra or {}, stream=True)
    cleaned: dict[str, Any] = _sendable(body)
    return cleaned


def messages(conversation: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation in the dialect; what system messages there are come first, as one."""
    system: list[str] = []
    rest: list[dict[str, Any]] = []
    for message in conversation:
        if message.role == "system":
            system.append(message.content)
        elif message.role == "tool":
            rest.append({"role": "tool", "tool_call_id": message.call_id or "", "content": message.content})
        elif message.calls:
            calls = [_call(call) for call in message.calls]
            rest.append({"role": "assistant", "content": message.content or None, "tool_calls": calls})
        else:
            rest.append({"role": message.role, "content": message.content})
    return [{"role": "system", "content": "\n\n".join(system)}, *rest] if system else rest


def _thinking(field: str, tokens: int) -> Any:
    if field == "reasoning_effort":
        return next(word for least, word in EFFORTS if tokens >= least)
    return {"max_tokens": tokens} if field == "reasoning" else tokens


def _choice(choice: str) -> str | dict[str, Any]:
    if choice in ("none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    form = {"name": "answer", "schema": schema, "strict": _is_closed(schema)}
    return {"type": "json_schema", "json_schema": form}


def _is_closed(schema: Any) -> bool:
    """Every object in it has all of its fields and no others: only then it may be called strict."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(fields):
            return False
    return all(map(_is_closed, schema.values()))


def _call(call: Call) -> dict[str, Any]:
    # Servers reject the whole request for arguments that are not a JSON object, however the model came to write them.
    arguments = call.arguments if is_object(call.arguments) else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def is_object(text: str) -> bool:
    """Whether ``text`` is a JSON object that can be sent: whole, strict JSON, without lone surrogates."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value


class EventReader:
    """Turns the events of one streamed reply into chunks. Tolerant: what it does not know, it leaves out.

    Usage is passed on once, at the end: some servers count on in every event. A count of 0 tokens is none.
    """

    def __init__(self, who: str, cached: Cached = "within") -> None:
        self._who = who
        self._cached = cached
        self._begun = False
        self._finished = False
        self._refused = False
        self._usage: Usage | None = None
        self._calls = _Calls()

    def feed(self, event: object) -> list[Chunk]:
        """The chunks of one decoded ``data:`` line. An event may hold none."""
        if not isinstance(event, dict):
            return []
        self._usage = _usage(event.get("usage"), self._cached) or self._usage
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return []
        self._begun = True
        delta = choice.get("delta") or choice.get("message")
        chunks = list(self._delta(delta)) if isinstance(delta, dict) else []
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and not self._finished:
            self._finished = True
            chunks.append(Finished(self._reason(reason)))
        return chunks

    def end(self) -> list[Chunk]:
        """The stream has ended. Raises :class:`ModelError` if it was empty or cut off."""
        if not self._begun:
            raise ModelError("empty_stream", f"{self._who} sent an empty reply: not one chunk")
        if not self._finished:
            raise ModelError("connection", f"{self._who} cut its reply off: the stream ended without a finish reason")
        return [] if self._usage is None else [UsageReported(self._usage)]

    def _delta(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        if thought := _text(delta.get("reasoning_content")) or _text(delta.get("reasoning")):
            yield TextDelta(thought, "reasoning")
        if text := _text(delta.get("content")):
            yield TextDelta(text)
        if refusal := _text(delta.get("refusal")):
            self._refused = True
            yield TextDelta(refusal)
        pieces = delta.get("tool_calls")
        if pieces is None and isinstance(delta.get("function_call"), dict):
            pieces = [{"index": 0, "function": delta["function_call"]}]
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                yield self._calls.piece(piece)

    def _reason(self, reason: str) -> str:
        if reason == "stop" and self._refused:
            return "refusal"
        return "tool_calls" if reason == "function_call" else reason


class _Calls:
    """Which call a piece belongs to: servers differ in what they number and what they repeat."""

    def __init__(self) -> None:
        self._ids: list[str | None] = []
        self._arguments: list[list[str]] = []
        self._named: set[int] = set()
        self._slots: dict[int, int] = {}

    def piece(self, piece: dict[str, Any]) -> CallDelta:
        function = piece["function"] if isinstance(piece.get("function"), dict) else {}
        call_id, tool = _word(piece.get("id")), _word(function.get("name"))
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments)
        index = piece.get("index")
        slot = self._slot(index if isinstance(index, int) else None, call_id, tool)
        self._ids[slot] = self._ids[slot] or call_id
        self._arguments[slot].append(arguments)
        if slot in self._named:
            tool = None  # some servers repeat the name in every piece
        elif tool is not None:
            self._named.add(slot)
        return CallDelta(slot, call_id, tool, arguments)

    def _slot(self, index: int | None, call_id: str | None, tool: str | None) -> int:
        slot = len(self._ids) - 1 if index is None else self._slots.get(index, -1)
        if slot < 0 or self._begins_anew(slot, index, call_id, tool):
            slot = len(self._ids)
            self._ids.append(None)
            self._arguments.append([])
            if index is not None:
                self._slots[index] = slot
        return slot

    def _begins_anew(self, slot: int, index: int | None, call_id: str | None, tool: str | None) -> bool:
        """A piece with another id is another call, and so is one with a name but no id or number, or after arguments
        that are whole."""
        if call_id is not None and self._ids[slot] is not None:
            return call_id != self._ids[slot]
        return call_id is None and tool is not None and (index is None or is_object("".join(self._arguments[slot])))


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _text(value: object) -> str:
    """Text, or the text parts of a list of parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _usage(value: object, cached: Cached) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens_details"), value.get("completion_tokens_details")
    counted, output = _count(value, "prompt_tokens"), _count(value, "completion_tokens")
    read = (
        _count(prompt, "cached_tokens")
        or _count(value, "prompt_cache_hit_tokens")
        or _count(value, "cache_read_input_tokens")
    )
    written = (
        _count(prompt, "cache_write_tokens")
        or _count(prompt, "cache_creation_tokens")
        or _count(value, "cache_creation_input_tokens")
    )
    # A sum that holds only so says it, whatever was expected of the server.
    beside = cached == "beside" or _count(value, "total_tokens") == counted + output + read + written
    usage = Usage(
        input_tokens=counted + read + written if beside else counted,
        output_tokens=output,
        cached_tokens=read,
        reasoning_tokens=_count(completion, "reasoning_tokens"),
        cache_write_tokens=written,
    )
    return usage if usage.total else None


def _count(fields: object, name: str) -> int:
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
