"""The engine in SQLite: what every engine does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from watchkeeper.engine import Engine
from watchkeeper.journal import SqliteEngine
from watchkeeper.testing.conformance import CHECKS, Check

pytestmark = pytest.mark.anyio


class InAFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @asynccontextmanager
    async def worker(self, name: str = "main") -> AsyncIterator[Engine]:
        async with SqliteEngine(self.folder, worker=name) as engine:
            yield engine

    @asynccontextmanager
    async def control(self) -> AsyncIterator[Engine]:
        async with SqliteEngine(self.folder) as engine:
            yield engine


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_it_is_an_engine(check: Check, tmp_path: Path) -> None:
    await check(InAFolder(tmp_path))
