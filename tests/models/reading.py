"""What the tests of models make of chunks."""

from __future__ import annotations

from typing import Any

from watchkeeper.model import CallDelta, Chunk, TextDelta
from watchkeeper.models.dialect import EventReader


def text_of(chunks: list[Chunk], channel: str = "content") -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta) and chunk.channel == channel)


def calls_of(chunks: list[Chunk]) -> list[tuple[str | None, str | None, str]]:
    calls: dict[int, tuple[str | None, str | None, str]] = {}
    for chunk in chunks:
        if isinstance(chunk, CallDelta):
            call_id, tool, arguments = calls.get(chunk.index, (None, None, ""))
            tool = (tool or "") + chunk.tool if chunk.tool else tool  # a reader may put names together, too
            calls[chunk.index] = (call_id or chunk.id, tool, arguments + chunk.arguments)
    return [calls[index] for index in sorted(calls)]


def read_events(*events: Any) -> list[Chunk]:
    reader = EventReader("server")
    return [chunk for event in events for chunk in reader.feed(event)] + reader.end()


def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
