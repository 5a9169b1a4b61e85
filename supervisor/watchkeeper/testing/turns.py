"""The turns that a scripted chat server can be told to play, and how each looks on the wire. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

End = Literal["done", "stall", "reset", "close"]


class Say(msgspec.Struct, frozen=True):
    """A reply of text.

    ``finish`` is its finish reason (None: the stream ends without one). ``usage`` replaces the server's own count, in
    the protocol's fields; an empty dict means that none is reported.
    """

    text: str = ""
    reasoning: str = ""
    finish: str | None = "stop"
    usage: dict[str, Any] | None = None
    refusal: str = ""


class CallTools:
    """A reply that calls tools: ``CallTools(("read", {"path": "a"}), ("read", {"path": "b"}))``.

    Arguments are a dict, or a string that is sent as it is. ``ids`` are made up unless given, unique in the server.
    """

    def __init__(
        self,
        *calls: tuple[str, Mapping[str, Any] | str],
        text: str = "",
        reasoning: str = "",
        finish: str | None = "tool_calls",
        ids: tuple[str, ...] | None = None,
        usage: dict[str, Any] | None = None,
    ) -> None:
        self.calls = tuple((tool, a if isinstance(a, str) else json.dumps(a)) for tool, a in calls)
        if ids is not None and len(ids) != len(calls):
            raise ValueError(f"{len(calls)} calls need {len(calls)} ids, not {len(ids)}")
        self.text = text
        self.reasoning = reasoning
        self.finish = finish
        self.ids = ids
        self.usage = usage


class Raw:
    """A stream of exactly these pieces of server-sent events: ``Raw("data: {oops\\n\\n")``. Nothing is added."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces


Reply = Say | CallTools | Raw

_CUT = Say("This reply is not going to reach its end, whatever it was about to say.")


class Fault(msgspec.Struct, frozen=True):
    """An answer with an error status. Without a body, the usual one of that status; a string is sent as it is."""

    status: int = 429
    headers: dict[str, str] = {}
    body: dict[str, Any] | str | None = None


class Stall(msgspec.Struct, frozen=True):
    """So many chunks of the reply, then nothing until the client leaves. With 0, not even the status line."""

    after_chunks: int = 0
    reply: Reply = _CUT


class Drop(msgspec.Struct, frozen=True):
    """So many chunks of the reply, or exactly ``after_text``, then the connection breaks. With 0, before the status.

    ``reset`` tells a connection reset from one that is closed in good order in the middle of the body.
    """

    after_chunks: int = 0
    after_text: str | None = None
    reply: Reply = _CUT
    reset: bool = True


class Slow(msgspec.Struct, frozen=True):
    """The reply, with ``delay`` seconds before each chunk."""

    reply: Reply
    delay: float


Turn = Say | CallTools | Raw | Fault | Stall | Drop | Slow


def call_as_text(tool: str, arguments: Mapping[str, Any]) -> Say:
    """A trap of small models: the call stands as JSON in the text."""
    return Say(json.dumps({"name": tool, "arguments": arguments}))


def half_call(tool: str, arguments: str) -> CallTools:
    """A trap: the reply reached its length in the middle of a call; ``arguments`` are what there is of them."""
    return CallTools((tool, arguments), finish="length")


def context_overflow(tokens: int, window: int) -> Fault:
    """The natural end of an endless loop, as llama.cpp answers it."""
    text = f"request ({tokens} tokens) exceeds the available context size ({window} tokens), try increasing it"
    error = {"code": 400, "message": text, "type": "exceed_context_size_error"}
    return Fault(400, body={"error": {**error, "n_prompt_tokens": tokens, "n_ctx": window}})


def rate_limited(retry_after: str | float | None = None) -> Fault:
    """A 429, with a Retry-After header if one is given."""
    return Fault(429, {} if retry_after is None else {"retry-after": str(retry_after)})


def no_quota() -> Fault:
    """A 429 that no waiting mends."""
    text = "You exceeded your current quota, please check your plan and billing details."
    return Fault(429, body={"error": {"message": text, "type": "insufficient_quota", "code": "insufficient_quota"}})


def rejected(message: str, *, code: str | None = None, param: str | None = None, status: int = 400) -> Fault:
    """An invalid request, as OpenAI words it."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Fault(status, body={"error": error})


class Plan(msgspec.Struct, frozen=True):
    """How a turn looks on the wire: ``chunks`` if the answer is streamed, otherwise ``whole``."""

    status: int
    headers: dict[str, str]
    whole: bytes
    chunks: tuple[bytes, ...] = ()
    delay: float = 0.0
    end: End = "done"
    streamed: bool = False


def plan(turn: Turn, body: Mapping[str, Any], n: int) -> Plan:
    """What to send for ``turn`` as the answer to ``body``, the server's request number ``n``."""
    if isinstance(turn, Fault):
        return _fault(turn)
    if isinstance(turn, Slow):
        return msgspec.structs.replace(plan(turn.reply, body, n), delay=turn.delay)
    if isinstance(turn, Stall):
        return _broken(plan(turn.reply, body, n), turn.after_chunks, "stall")
    if isinstance(turn, Drop):
        end: End = "reset" if turn.reset else "close"
        if turn.after_text is None:
            return _broken(plan(turn.reply, body, n), turn.after_chunks, end)
        return msgspec.structs.replace(_reply(Say(turn.after_text, finish=None), body, n, done=False), end=end)
    if isinstance(turn, Raw):
        chunks = tuple(piece.encode() for piece in turn.pieces)
        headers = {"content-type": "text/event-stream"}
        return Plan(200, headers, b"".join(chunks), chunks, streamed=bool(body.get("stream")))
    return _reply(turn, body, n)


def _fault(turn: Fault) -> Plan:
    body = turn.body
    if body is None:
        body = {"error": {"message": f"scripted fault {turn.status}", "type": "scripted", "code": None}}
    whole = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, str) else "application/json"
    return Plan(turn.status, {"content-type": kind, **turn.headers}, whole)


def _broken(whole: Plan, after: int, end: End) -> Plan:
    return msgspec.structs.replace(whole, chunks=whole.chunks[:after], end=end)


def _reply(reply: Say | CallTools, body: Mapping[str, Any], n: int, *, done: bool = True) -> Plan:
    usage = _usage(reply, body)
    head = {"id": f"chatcmpl-{n}", "created": 0, "model": body.get("model", ""), "system_fingerprint": "scripted"}
    if not body.get("stream"):
        choice = {"index": 0, "message": _message(reply, n), "finish_reason": reply.finish}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return Plan(200, {"content-type": "application/json"}, json.dumps(whole).encode())
    head["object"] = "chat.completion.chunk"
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in _deltas(reply, n)]
    if reply.finish is not None:
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
    if done and (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    frames = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    if done and reply.finish is not None:
        frames.append(b"data: [DONE]\n\n")
    return Plan(200, {"content-type": "text/event-stream"}, b"", tuple(frames), streamed=True)


def _calls(reply: Say | CallTools, n: int) -> list[dict[str, Any]]:
    if isinstance(reply, Say):
        return []
    ids = reply.ids or tuple(f"call_{n}_{slot}" for slot in range(1, len(reply.calls) + 1))
    return [
        {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
        for call_id, (tool, arguments) in zip(ids, reply.calls, strict=True)
    ]


def _message(reply: Say | CallTools, n: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if isinstance(reply, Say) and reply.refusal:
        message["refusal"] = reply.refusal
    if calls := _calls(reply, n):
        message["tool_calls"] = calls
    return message


def _deltas(reply: Say | CallTools, n: int) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reply.reasoning)]
    deltas += [{"content": piece} for piece in _pieces(reply.text)]
    if isinstance(reply, Say):
        deltas += [{"refusal": piece} for piece in _pieces(reply.refusal)]
    for index, call in enumerate(_calls(reply, n)):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": index, "function": function}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(call["function"]["arguments"])
        ]
    return deltas


def _pieces(text: str) -> list[str]:
    size = max(8, -(-len(text) // 32))
    return [text[i : i + size] for i in range(0, len(text), size)]


def _usage(reply: Say | CallTools, body: Mapping[str, Any]) -> dict[str, Any] | None:
    if reply.usage is not None:
        return reply.usage or None
    calls = reply.calls if isinstance(reply, CallTools) else ()
    written = len(reply.text) + len(reply.reasoning) + sum(len(tool) + len(a) for tool, a in calls)
    prompt, completion = tokens(body), -(-written // 4)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def tokens(body: Mapping[str, Any]) -> int:
    """The server's idea of the length of a prompt: a token for every four characters of messages and tools."""
    return -(-len(json.dumps([body.get("messages"), body.get("tools")])) // 4)
