"""Faults by seed, laid over what a run depends on: model and stream, tools, clock, long-term store.

Each kind of fault is drawn with the same chance at each use; an equal seed lays equal faults over an equal program.
``counts`` says how many of each kind there were, so that a figure can be given with its number.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel

from ..errors import Transient
from ..memory.store import Note, Store
from ..messages import Usage
from ..model import CallDelta, Chunk, ErrorKind, Finished, Model, ModelError, Request, TextDelta, UsageReported
from ..tools import Tool
from .virtual import VirtualSeams

REFUSALS: tuple[ErrorKind, ...] = ("rate_limited", "overloaded", "server", "connection", "timeout", "bad_request")
STREAM = ("cut", "stall", "slow", "garbage", "no_finish", "no_usage", "absurd_usage", "empty", "doubled")
TOOL = ("raises", "transient", "slow", "hangs", "deaf", "huge", "unprintable", "nothing")
CLOCK = ("back", "ahead")
STORE = ("raises", "stalls")

HOURS = 3600.0
DEAF = 8.0
"""Seconds for which a deaf tool goes on after it was told to stop: longer than the usual grace period."""


class SeededFaults:
    """Lays faults over models, tools, seams and stores; ``chance`` is that of a fault at each use of one."""

    def __init__(self, seed: int, *, chance: float = 0.1) -> None:
        self._random = random.Random(f"faults {seed}")  # noqa: S311  (faults, no secrets)
        self._chance = chance
        self.counts: Counter[str] = Counter()
        """Faults by part and kind: ``model:server``, ``stream:cut``, ``tool:hangs``, …"""

    def draw(self, part: str, kinds: tuple[str, ...]) -> str | None:
        """The kind of fault that happens now, if any."""
        if self._random.random() >= self._chance:
            return None
        kind = self._random.choice(kinds)
        self.counts[f"{part}:{kind}"] += 1
        return kind

    def upto(self, most: int) -> int:
        return self._random.randint(0, most)

    async def interleave(self) -> None:
        """Let others go first, for none to three rounds of the loop: asyncio has one order of its own otherwise."""
        for _ in range(self._random.choice((0, 0, 1, 3))):
            await anyio.lowlevel.checkpoint()

    def model(self, model: Model) -> Model:
        return _Model(model, self)

    def tool(self, tool: Tool) -> Tool:
        """The same tool with faults. A plain function, which runs in a thread, is left as it is."""
        if not tool.is_async:
            return tool
        faulty = copy.copy(tool)
        faulty.function = self._function(tool.function)
        return faulty

    def store(self, store: Store) -> Store:
        return _Store(store, self)

    def seams(self) -> VirtualSeams:
        """Seams whose wall clock is set back and ahead by up to an hour while runs go on; bind them as usual."""
        return _Seams(self)

    def _function(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def faulty(**arguments: Any) -> Any:
            await self.interleave()
            kind = self.draw("tool", TOOL)
            if kind == "raises":
                raise OSError(5, "input/output error (a fault)")
            if kind == "transient":
                raise Transient("try again (a fault)")
            if kind == "slow":
                await anyio.sleep(self.upto(200))
            if kind == "hangs":
                await anyio.sleep_forever()
            if kind == "deaf":
                await _deaf()
            value = await function(**arguments)
            return {"huge": "x" * 300_000, "unprintable": "\ud800\x1b[2J\x00", "nothing": None}.get(kind or "", value)

        return faulty


async def _deaf() -> None:
    try:
        await anyio.sleep(HOURS)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(DEAF)


class _Model:
    def __init__(self, model: Model, faults: SeededFaults) -> None:
        self._model = model
        self._faults = faults
        self.name = model.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        kind: Any = self._faults.draw("model", REFUSALS)
        if kind is not None:
            after = self._faults.upto(20) if kind == "rate_limited" else None
            raise ModelError(kind, f"{kind} (a fault)", retry_after=after)
        async with self._model.stream(request) as chunks:
            faulty = self._pieces(chunks, self._faults.draw("stream", STREAM))
            try:
                yield faulty
            finally:
                await faulty.aclose()  # type: ignore[attr-defined]

    async def _pieces(self, chunks: AsyncIterator[Chunk], kind: str | None) -> AsyncIterator[Chunk]:
        left = self._faults.upto(2)
        if kind == "empty":
            return
        async for chunk in chunks:
            await self._faults.interleave()
            if not left and kind == "cut":
                raise ModelError("connection", "the connection was cut (a fault)")
            if not left and kind == "stall":
                await anyio.sleep_forever()
            left = max(left - 1, 0)
            if kind == "slow":
                await anyio.sleep(self._faults.upto(30))
            if kind == "garbage" and isinstance(chunk, CallDelta):
                chunk = CallDelta(chunk.index, chunk.id, chunk.tool, chunk.arguments[:-1] + "\ud800\x00")
            if kind == "doubled" and isinstance(chunk, TextDelta | CallDelta):
                yield chunk
            if isinstance(chunk, Finished) and kind == "no_finish":
                continue
            if isinstance(chunk, UsageReported) and kind == "no_usage":
                continue
            if isinstance(chunk, UsageReported) and kind == "absurd_usage":
                chunk = UsageReported(Usage(-1, 10**12))
            yield chunk


class _Store:
    def __init__(self, store: Store, faults: SeededFaults) -> None:
        self._store = store
        self._faults = faults

    async def add(self, text: str, about: str) -> None:
        await self._trouble()
        if (waits := self._store.add(text, about)) is not None:
            await waits

    async def search(self, query: str, limit: int) -> Iterable[Note]:
        await self._trouble()
        found = self._store.search(query, limit)
        return await found if isinstance(found, Awaitable) else found

    async def _trouble(self) -> None:
        kind = self._faults.draw("store", STORE)
        if kind == "raises":
            raise OSError(28, "no space left on device (a fault)")
        if kind == "stalls":
            await anyio.sleep_forever()


class _Seams(VirtualSeams):
    def __init__(self, faults: SeededFaults) -> None:
        super().__init__()
        self._faults = faults
        self._shift = 0.0

    def bind(self) -> None:
        super().bind()
        steady = self.wall

        def wall() -> float:
            kind = self._faults.draw("clock", CLOCK)
            if kind is not None:
                self._shift += (1 if kind == "ahead" else -1) * self._faults.upto(int(HOURS))
            return steady() + self._shift

        self.wall = wall
