"""The engine in memory: what every engine does, and its bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from watchkeeper.engine import Engine
from watchkeeper.journal import MemoryEngine
from watchkeeper.testing.conformance import CHECKS, Check

pytestmark = pytest.mark.anyio


class InMemory:
    """One object in both roles: whoever opens it second uses it as it is."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self._open = 0

    @asynccontextmanager
    async def worker(self, name: str = "main") -> AsyncIterator[Engine]:
        async with self.control() as engine:
            yield engine

    @asynccontextmanager
    async def control(self) -> AsyncIterator[Engine]:
        if self._open:
            self._open += 1
            try:
                yield self.engine
            finally:
                self._open -= 1
            return
        async with self.engine:
            self._open = 1
            try:
                yield self.engine
            finally:
                self._open = 0


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_it_is_an_engine(check: Check) -> None:
    await check(InMemory())
