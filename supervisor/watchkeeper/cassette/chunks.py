"""Chunks of a reply, requests and errors of a model, as they stand in a cassette. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..messages import Message, Usage
from ..model import CallDelta, Chunk, Finished, ModelError, Request, TextDelta, UsageReported
from ..redaction import Redaction
from .entries import Asked, ChunkCame
from .scrub import texts_of


def fields_of(chunk: Chunk) -> dict[str, Any]:
    """The fields of its line."""
    if isinstance(chunk, TextDelta):
        return {"text": chunk.text, "channel": chunk.channel}
    if isinstance(chunk, CallDelta):
        return {"call": (chunk.index, chunk.id, chunk.tool, chunk.arguments)}
    if isinstance(chunk, Finished):
        return {"finish": chunk.reason}
    if isinstance(chunk, UsageReported):
        return {"usage": msgspec.to_builtins(chunk.usage)}
    return {}


def chunk_in(line: ChunkCame) -> Chunk:
    """The chunk that the line stands for."""
    if line.call is not None:
        return CallDelta(*line.call)
    if line.finish is not None:
        return Finished(line.finish)
    if line.usage is not None:
        return UsageReported(msgspec.convert(line.usage, Usage))
    return msgspec.convert({"text": line.text or "", "channel": line.channel}, TextDelta)


def scrubbed(chunks: Sequence[Chunk], redaction: Redaction) -> tuple[list[Chunk], list[Chunk]]:
    """The chunks of a reply without secrets, as many as there were, and what had to be held back to its end."""
    found: list[Chunk] = list(chunks)
    rest: list[Chunk] = []
    places: dict[tuple[str, int], list[int]] = {}
    for number, chunk in enumerate(chunks):
        if isinstance(chunk, TextDelta):
            places.setdefault((chunk.channel, 0), []).append(number)
        elif isinstance(chunk, CallDelta):
            places.setdefault(("arguments", chunk.index), []).append(number)
        elif isinstance(chunk, Finished):
            found[number] = Finished(redaction.text(chunk.reason))
    for (channel, index), numbers in places.items():
        texts = [_text(chunks[number]) for number in numbers]
        *clean, left = texts_of(texts, redaction)
        for number, before, after in zip(numbers, texts, clean, strict=True):
            if after != before:
                found[number] = _with(chunks[number], after)
        if left:
            rest.append(CallDelta(index, arguments=left) if channel == "arguments" else _piece(left, channel))
    return found, rest


def request_lines(run: str, ask: int, request: Request, before: Request | None) -> Asked:
    """A request, told as what came on top of the one before it."""
    kept = 0
    if before is not None:
        for one, other in zip(before.messages, request.messages, strict=False):
            if one != other:
                break
            kept += 1
    fields = request_as_data(request)
    fields["messages"] = fields["messages"][kept:]
    if before is not None and before.tools == request.tools:
        del fields["tools"]
    return Asked(run=run, ask=ask, kept=kept, request=fields)


def request_as_data(request: Request) -> dict[str, Any]:
    """The request as plain data, as it is compared."""
    data: dict[str, Any] = msgspec.to_builtins(request)
    return data


def whole_request(line: Asked, before: dict[str, Any] | None) -> dict[str, Any]:
    """The request that a line stands for, with what was kept of the one before it."""
    if before is None:
        return line.request
    messages = [*before["messages"][: line.kept], *line.request.get("messages", ())]
    return {"tools": before.get("tools", []), **line.request, "messages": messages}


def clean_request(request: Request, redaction: Redaction) -> Request:
    return Request(
        tuple(_clean(message, redaction) for message in request.messages),
        tuple(redaction.anything(tool) for tool in request.tools),
        request.tool_choice,
        request.max_tokens,
        request.parallel,
    )


def _clean(message: Message, redaction: Redaction) -> Message:
    cleaned: Message = redaction.anything(message)
    return cleaned


def error_as_data(error: BaseException, redaction: Redaction) -> dict[str, Any]:
    """What is known of an error of a model."""
    found: dict[str, Any] = {"type": type(error).__name__, "message": redaction.within(str(error), 2000)}
    if isinstance(error, ModelError):
        found |= {"kind": error.kind, "retry_after": error.retry_after, "status": error.status}
        if not error.sent:
            found["sent"] = False
    return found


def error_in(data: dict[str, Any]) -> Exception:
    """The error again: what a model may raise stays what it was, all else has at least the same name and text."""
    message = str(data.get("message", ""))
    if "kind" in data:
        after, status, sent = data.get("retry_after"), data.get("status"), data.get("sent") is not False
        return ModelError(data["kind"], message, retry_after=after, status=status, sent=sent)
    return named_error(str(data.get("type", "Exception")), message)


def named_error(name: str, message: str, base: type[Exception] = Exception) -> Exception:
    kind: type[Exception] = type(name if name.isidentifier() else "Exception", (base,), {})
    return kind(message)


def _text(chunk: Chunk) -> str:
    return chunk.text if isinstance(chunk, TextDelta) else chunk.arguments if isinstance(chunk, CallDelta) else ""


def _with(chunk: Chunk, text: str) -> Chunk:
    name = "text" if isinstance(chunk, TextDelta) else "arguments"
    return msgspec.structs.replace(chunk, **{name: text})


def _piece(text: str, channel: str) -> TextDelta:
    return msgspec.convert({"text": text, "channel": channel}, TextDelta)
