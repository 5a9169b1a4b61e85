"""The model and the tools of a run that is recorded: what they give goes through, and is written down."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from ..model import Chunk, Model, Request
from ..tools import Tool
from ..trampoline import awaiting
from . import chunks
from .entries import ChunkCame, Line, ReplyEnded
from .outcome import failure_as_data, value_as_data

if TYPE_CHECKING:
    from .recorder import Taken


class Attempt(msgspec.Struct, frozen=True):
    """An attempt at a call that is being recorded."""

    tool: str
    arguments: str
    call: str
    attempt: int


class RecordedModel:
    """The model of a run, with its replies written down."""

    def __init__(self, inner: Model, taken: Taken) -> None:
        self._inner = inner
        self._taken = taken
        self.name = inner.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Chunk]]:
        reply = _Reply(self._taken, self._taken.asked(request))
        try:
            async with self._inner.stream(request) as pieces:
                yield reply.hearing(pieces)
        except Exception as error:
            reply.over("error", error)
            raise
        finally:
            reply.over("left")
            reply.write()


class _Reply:
    """One reply that is being recorded."""

    def __init__(self, taken: Taken, ask: int) -> None:
        self._taken = taken
        self._ask = ask
        self._came: list[tuple[dict[str, Any], Chunk]] = []
        self._end: ReplyEnded | None = None
        self._pieces: AsyncIterator[Chunk]

    def hearing(self, pieces: AsyncIterator[Chunk]) -> _Reply:
        self._pieces = pieces
        return self

    def __aiter__(self) -> _Reply:
        return self

    async def __anext__(self) -> Chunk:
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            await self._taken.root.settled()
            self.over("whole")
            raise
        except Exception as error:
            await self._taken.root.settled()
            self.over("error", error)
            raise
        await self._taken.root.settled()
        self._came.append((self._taken.place(), piece))
        return piece

    def over(self, how: Any, error: BaseException | None = None) -> None:
        """How it ended; the first word counts."""
        if self._end is None:
            data = chunks.error_as_data(error, self._taken.redaction) if error is not None else {}
            self._end = ReplyEnded(**self._taken.place(), ask=self._ask, how=how, error=data)

    def write(self) -> None:
        clean, rest = chunks.scrubbed([piece for _, piece in self._came], self._taken.redaction)
        lines: list[Line] = [
            ChunkCame(**place, ask=self._ask, **chunks.fields_of(piece))
            for (place, _), piece in zip(self._came, clean, strict=True)
        ]
        assert self._end is not None
        place = {name: getattr(self._end, name) for name in ("i", "run", "after", "at")}
        lines += [ChunkCame(**place, ask=self._ask, **chunks.fields_of(piece)) for piece in rest]
        self._taken.write(*lines, self._end)


def recorded_tool(tool: Tool, taken: Taken) -> Tool:
    """The tool with what it gives written down."""
    recorded = copy.copy(tool)
    function = tool.function

    def gave(value: Any) -> dict[str, Any]:
        return value_as_data(value, tool, taken.redaction)

    def broke(error: BaseException) -> dict[str, Any]:
        if isinstance(error, Exception):
            return {"failure": failure_as_data(error, taken.redaction)}
        return {"hung": True}

    async def within(**values: Any) -> Any:
        return await awaited(function(**values), taken.begun(tool, values), at_once=True)

    async def awaited(value: Any, attempt: Attempt, *, at_once: bool = False) -> Any:
        waits: list[bool] = []
        try:
            value = await noticing(awaiting(value), waits)
        except BaseException as error:
            if waits and isinstance(error, Exception):
                await taken.settled(attempt)
            taken.ended(attempt, broke(error), within=True, at_once=at_once and not waits)
            raise
        if waits:
            await taken.settled(attempt)
        taken.ended(attempt, gave(value), within=True, at_once=at_once and not waits)
        return value

    def in_thread(**values: Any) -> Any:
        attempt = taken.begun(tool, values)
        try:
            value = function(**values)
        except BaseException as error:
            taken.root.settled_from_thread()
            taken.ended(attempt, broke(error), within=False)
            raise
        if inspect.isawaitable(value):
            return awaited(value, attempt)
        taken.root.settled_from_thread()
        taken.ended(attempt, gave(value), within=False)
        return value

    recorded.function = within if tool.is_async else in_thread
    return recorded


@types.coroutine
def noticing(coroutine: Coroutine[Any, Any, Any], waits: list[bool]) -> Generator[Any, Any, Any]:
    """Drive a coroutine, and note in ``waits`` if it waits for anything."""
    try:
        yielded = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    waits.append(True)
    while True:
        try:
            sent = yield yielded
        except BaseException as error:
            failure: BaseException | None = error
        else:
            failure = None
        try:
            yielded = coroutine.send(sent) if failure is None else coroutine.throw(failure)
        except StopIteration as stop:
            return stop.value
