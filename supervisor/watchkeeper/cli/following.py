"""Shows the facts of a run that come over an engine: in lines, with a picture of what it does now, or as they are."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

import anyio
import anyio.abc
import anyio.streams.memory
import anyio.to_thread

from ..messages import Event, Gap, RunEnded, encode_event
from .board import Board
from .epilogue import epilogue
from .narrator import Line, Narrator, line
from .view import EVERY, View

AHEAD = 512
"""Facts that are taken from the engine before they are shown."""

CLOSE = 2.0
"""Seconds that the end of an iterator may take."""

Wall = Callable[[], float]


class Telling:
    """Facts in, lines out: those of the narrator, and at the end the outcome. Pure."""

    def __init__(self) -> None:
        self.board = Board()
        self._narrator = Narrator()
        self.at = 0.0
        self.t = 0.0

    def tell(self, event: Event | Gap) -> list[Line]:
        if isinstance(event, Gap):
            return [line(f"    (facts {event.first} to {event.last} are no longer there)", "dim")]
        self.at, self.t = event.at, event.t
        self.board.observe(event)
        lines = list(self._narrator.tell(event))
        if isinstance(event, RunEnded):
            lines += epilogue(event.outcome)
        return lines

    def picture(self, wall: float) -> list[str]:
        """What it does at this moment of the wall clock."""
        return self.board.lines(self.t + max(wall - self.at, 0.0)) if self.at else []


class AsLines:
    """Shows the facts up to number ``n`` in their last ``last`` lines, and what comes then as it comes."""

    def __init__(
        self, view: View, n: int = 0, last: float = math.inf, *, picture: bool = False, wall: Wall = time.time
    ) -> None:
        self._view = view
        self._picture = picture and view.in_place
        self._n = n
        self._earlier: deque[Line] | None = deque(maxlen=None if math.isinf(last) else int(last)) if n else None
        self._telling = Telling()
        self._wall = wall

    async def show(self, batch: Iterable[Event | Gap]) -> None:
        lines: list[Line] = []
        for event in batch:
            told = self._telling.tell(event)
            if self._earlier is None:
                lines += told
                continue
            self._earlier.extend(told)
            if number(event) >= self._n:
                lines += self._earlier
                self._earlier = None
        if lines:
            await anyio.to_thread.run_sync(self._view.print, lines)

    async def finish(self) -> None:
        """There are no more: what was kept back is shown."""
        earlier, self._earlier = self._earlier, None
        if earlier:
            await anyio.to_thread.run_sync(self._view.print, list(earlier))
        if self._picture:
            await anyio.to_thread.run_sync(self._view.picture, ())

    async def keep_current(self) -> None:
        while self._picture:
            if self._earlier is None:
                await anyio.to_thread.run_sync(self._view.picture, self._telling.picture(self._wall()))
            await anyio.sleep(EVERY)


class AsJson:
    """Shows facts as JSON Lines: of those up to number ``n`` the last ones."""

    def __init__(self, n: int = 0, last: float = math.inf) -> None:
        self._n = n
        self._last = last

    async def show(self, batch: Iterable[Event | Gap]) -> None:
        from .objects import encoded, print_lines

        lines = [
            encoded({"type": "gap", "first": event.first, "last": event.last})
            if isinstance(event, Gap)
            else encode_event(event)
            for event in batch
            if number(event) > self._n - self._last
        ]
        if lines:
            await anyio.to_thread.run_sync(print_lines, lines)

    async def finish(self) -> None:
        pass

    async def keep_current(self) -> None:
        pass


async def follow(events: AsyncIterator[Event | Gap], shown: AsLines | AsJson) -> None:
    """Show facts until they end. What writes may be slow: then facts wait where they come from."""
    send, receive = anyio.create_memory_object_stream[Event | Gap](AHEAD)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_pump, events, send)
        tasks.start_soon(shown.keep_current)
        async with receive:
            async for event in receive:
                batch = [event]
                while receive.statistics().current_buffer_used:
                    batch.append(receive.receive_nowait())
                await shown.show(batch)
        await shown.finish()
        tasks.cancel_scope.cancel()


async def _pump(
    events: AsyncIterator[Event | Gap], send: anyio.streams.memory.MemoryObjectSendStream[Event | Gap]
) -> None:
    async with send, closing(events):
        async for event in events:
            await send.send(event)


async def up_to(events: AsyncIterator[Event | Gap], n: int) -> AsyncIterator[Event | Gap]:
    """The facts up to number ``n``, which are there: it does not wait for others."""
    async with closing(events):
        if n < 1:
            return
        async for event in events:
            yield event
            if number(event) >= n:
                return


@contextlib.asynccontextmanager
async def closing(events: AsyncIterator[Event | Gap]) -> AsyncIterator[None]:
    """Nothing of an iterator that is left early may wait for the collector of garbage."""
    try:
        yield
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE):
                await close()


def number(event: Event | Gap) -> int:
    return event.last if isinstance(event, Gap) else event.n
