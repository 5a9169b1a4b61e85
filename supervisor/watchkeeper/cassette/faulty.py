"""Faults at the port of a model: what a model raises when its provider has a bad day."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from ..model import Chunk, ModelError
from .fault import Fault


def faulty(pieces: AsyncIterator[Chunk], fault: Fault | None) -> AsyncIterator[Chunk]:
    """The pieces of a reply with a fault laid over them. Raises :class:`ModelError` at once for what is no reply."""
    if fault is None:
        return pieces
    if fault.kind == "rate_limited":
        raise ModelError("rate_limited", "too many requests (a fault)", retry_after=fault.retry_after, status=429)
    if fault.kind == "server_error":
        raise ModelError("server", "the server had an error (a fault)", status=500)
    if fault.kind == "loss":
        raise ModelError("connection", "the connection was lost (a fault)")
    return _Faulty(pieces, fault)


class _Faulty:
    def __init__(self, pieces: AsyncIterator[Chunk], fault: Fault) -> None:
        self._pieces = pieces
        self._fault = fault
        self._left = fault.pieces

    def __aiter__(self) -> _Faulty:
        return self

    async def __anext__(self) -> Chunk:
        if self._fault.kind == "slow":
            await anyio.sleep(self._fault.delay)
        elif not self._left:
            if self._fault.kind == "stall":
                await anyio.sleep_forever()
            if self._fault.kind == "cut":
                raise ModelError("connection", "the connection was cut (a fault)")
            raise ModelError("server", "what came is not JSON (a fault)")
        else:
            self._left -= 1
        return await anext(self._pieces)
