"""A model that says what a script says: for tests, demonstrations and benchmarks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from ..messages import Usage
from ..model import CallDelta, Chunk, Finished, ModelError, Request, TextDelta, Timeouts, UsageReported


class Step(msgspec.Struct, frozen=True):
    """One scripted reply."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Pairs of tool name and raw arguments."""
    ids: tuple[str | None, ...] | None = None
    finish: str | None = None
    reasoning: str = ""
    usage: Usage | None = Usage(input_tokens=10, output_tokens=10)
    error: ModelError | None = None
    """Raised instead of a reply, or after what comes before it."""
    delay: float = 0.0
    """Seconds before the first chunk."""
    stall: bool = False
    """Never end: hang after the chunks."""


def say(text: str, **more: Any) -> Step:
    return Step(text, **more)


def call(*calls: tuple[str, Any], **more: Any) -> Step:
    """Calls of tools; arguments that are not text are encoded as JSON."""
    return Step(
        calls=tuple((name, raw if isinstance(raw, str) else msgspec.json.encode(raw).decode()) for name, raw in calls),
        **more,
    )


def fail(kind: Any, message: str = "scripted failure", **more: Any) -> Step:
    return Step(error=ModelError(kind, message, **more))


def forever(step: Step) -> Iterator[Step]:
    while True:
        yield step


class ScriptedModel:
    """Replies with the steps in order; a function as script gets the request and its number (from 1).

    ``requests`` keeps what it was asked. When the script is used up it raises ``AssertionError`` in the run, so that
    a test that asks too often fails loudly.
    """

    def __init__(
        self,
        script: Iterable[Step] | Callable[[Request, int], Step],
        *,
        name: str = "scripted",
        timeouts: Timeouts | None = None,
        keep_requests: bool = True,
        pieces: int = 0,
    ) -> None:
        self._steps = script if callable(script) else iter(script)
        self.name = name
        self.timeouts = timeouts or Timeouts()
        self.requests: list[Request] = []
        self.asked = 0
        self._keep = keep_requests
        self._pieces = pieces

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        self.asked += 1
        if self._keep:
            self.requests.append(request)
        if callable(self._steps):
            step = self._steps(request, self.asked)
        else:
            found = next(self._steps, None)
            if found is None:
                raise AssertionError(f"the script of {self.name} is used up after {self.asked - 1} replies")
            step = found
        chunks = self._chunks(step)
        try:
            yield chunks
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]

    async def _chunks(self, step: Step) -> AsyncIterator[Chunk]:
        if step.delay:
            await anyio.sleep(step.delay)
        for piece in self._cut(step.reasoning):
            yield TextDelta(piece, "reasoning")
        for piece in self._cut(step.text):
            yield TextDelta(piece)
        for index, (tool, raw) in enumerate(step.calls):
            wanted = step.ids[index] if step.ids is not None else f"call_{self.asked}_{index + 1}"
            pieces = self._cut(raw)
            yield CallDelta(index, wanted, tool, pieces[0] if pieces else "")
            for piece in pieces[1:]:
                yield CallDelta(index, arguments=piece)
        if step.error is not None:
            raise step.error
        if step.stall:
            await anyio.sleep_forever()
        yield Finished(step.finish or ("tool_calls" if step.calls else "stop"))
        if step.usage is not None:
            yield UsageReported(step.usage)

    def _cut(self, text: str) -> list[str]:
        if not self._pieces:
            return [text] if text else []
        return [text[i : i + self._pieces] for i in range(0, len(text), self._pieces)]
