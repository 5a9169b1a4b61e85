"""The model and the tools of a run that is played: what they gave then, each in its turn."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import msgspec

from .. import failures
from ..current import current_call
from ..errors import CassetteMiss
from ..model import Chunk, Model, Request, Timeouts
from ..tools import Tool
from . import chunks
from .faulty import faulty
from .mock import real
from .outcome import again, arguments_of
from .score import Reply

if TYPE_CHECKING:
    from .player import Played, Player


class PlayedModel:
    """The model of a run that is played: what the recorded one said, to the same requests, in order."""

    def __init__(self, played: Played, *, beside: Model | None = None) -> None:
        """``beside``: the one that is not asked for a second opinion."""
        self._played = played
        line = played.score.line
        self.name = line.model if beside is None else beside.name
        self.timeouts = msgspec.convert(line.about.get("timeouts", {}), Timeouts)
        self.provider = line.about.get("provider")
        self.base_url = line.about.get("base_url")
        self.context_window = line.about.get("context_window")
        self.secrets: tuple[str, ...] = ()
        if beside is not None:
            self.provider, self.base_url = getattr(beside, "provider", None), getattr(beside, "base_url", None)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Chunk]]:
        played = self._played
        played.begun()
        data = chunks.request_as_data(chunks.clean_request(request, played.redaction))
        fault = played.root.faults.next()
        try:
            find = played.score.reply if fault is None or fault.kind == "slow" else played.score.peek
            reply = find(data, exact=played.root.exact)
        except CassetteMiss as error:
            played.root.noted(error)
            raise
        pieces = _Pieces(played.root, reply)
        try:
            yield faulty(pieces, fault)
        finally:
            pieces.leave()


class _Pieces:
    """The pieces of a recorded reply, each in its turn."""

    def __init__(self, root: Player, reply: Reply) -> None:
        self._root = root
        self._pieces = iter(reply.pieces)
        self._end = reply.end

    def leave(self) -> None:
        """Nobody wants more of it: nobody waits for the turns of the rest."""
        for place, _ in (*self._pieces, *((self._end,) if self._end is not None else ())):
            self._root.order.over(place)

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> Chunk:
        found = next(self._pieces, None)
        if found is not None:
            await self._root.order.turn(found[0])
            return chunks.chunk_in(found[1])
        if self._end is None:
            raise self._root.miss("the recording ends in the middle of this reply")
        place, end = self._end
        if end.how == "left" and not self._root.order.free:
            self._root.order.over(place)
            await anyio.sleep_forever()  # nobody waited for more of it then, and nobody will now
        if end.how == "left":
            raise self._root.miss("the recording of this reply ends here: whoever asked then did not read on")
        await self._root.order.turn(place)
        if end.how == "error":
            raise chunks.error_in(end.error)
        raise StopAsyncIteration


def played_tool(tool: Tool, played: Played) -> Tool:
    """The tool with what it gave then."""
    copied = copy.copy(tool)

    async def play(**values: Any) -> Any:
        try:
            place, line = played.score.tool(tool.name, arguments_of(values, played.redaction))
        except CassetteMiss as error:
            played.root.noted(error)
            raise
        if line.real:
            try:
                return await real(tool, values)
            finally:
                played.root.order.over(place)
        if not tool.is_async:
            _as_from_thread(played)
            await anyio.lowlevel.checkpoint()
        if line.hung:
            await _hang(played, place)
        await played.root.order.turn(place, at_once=line.at_once)
        return again(line, _without_number(played.detail(current_call().call_id)))

    copied.function = play
    copied.is_async = True
    return copied


def _as_from_thread(played: Played) -> None:
    """A call that goes to a thread lets the next one start before it waits itself. Played, it has no thread."""
    run = played.run
    if run is not None and run.executor is not None:
        run.executor._spawn()


async def _hang(played: Played, place: int) -> None:
    """It did not come to its end then: it waits for its cancel, and says of it what was said."""
    played.root.order.over(place)
    try:
        await anyio.sleep_forever()
    except BaseException as error:
        with contextlib.suppress(AttributeError, TypeError):
            setattr(error, failures.TOLD, played.detail(current_call().call_id))
        raise


def _without_number(detail: str) -> str:
    first, _, rest = detail.partition("\n")
    return rest if first.startswith("error ") else detail
