"""The engine over HTTP does what every engine does, as far as it is a worker's affair no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from service.inprocess import InProcess
from watchkeeper.engine import Engine, EngineError, RunSpec, RunStatus, Unavailable, Unusable
from watchkeeper.journal import MemoryEngine, SqliteEngine
from watchkeeper.service.access import Door
from watchkeeper.service.app import Service
from watchkeeper.service.client import HttpEngine, Refused
from watchkeeper.testing.conformance import CHECKS, Check, commanding, watching

pytestmark = pytest.mark.anyio


class OverHttp:
    """The worker is the engine in memory; the control is the client of a service over it."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self._open = 0

    @asynccontextmanager
    async def worker(self, name: str = "main") -> AsyncIterator[Engine]:
        self._open += 1
        try:
            if self._open == 1:
                async with self.engine:
                    yield self.engine
            else:
                yield self.engine
        finally:
            self._open -= 1

    @asynccontextmanager
    async def control(self) -> AsyncIterator[Engine]:
        async with self.worker() as engine, over_http(engine) as client:
            yield client


class OverHttpInAFolder:
    """The same over the engine in SQLite: worker and service meet in its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @asynccontextmanager
    async def worker(self, name: str = "main") -> AsyncIterator[Engine]:
        async with SqliteEngine(self.folder, worker=name) as engine:
            yield engine

    @asynccontextmanager
    async def control(self) -> AsyncIterator[Engine]:
        async with SqliteEngine(self.folder) as engine, over_http(engine) as client:
            yield client


@asynccontextmanager
async def over_http(engine: Engine) -> AsyncIterator[Engine]:
    async with Service(engine) as service, anyio.create_task_group() as group:
        transport = InProcess(service.door(Door(local=True)), group)
        async with HttpEngine("http://localhost", transport=transport) as client:
            yield client
        group.cancel_scope.cancel()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_it_is_an_engine(check: Check) -> None:
    with anyio.fail_after(20):
        await check(OverHttp())


@pytest.mark.parametrize("check", [*commanding.CHECKS, *watching.CHECKS], ids=lambda check: check.__name__)
async def test_it_is_one_over_sqlite(check: Check, tmp_path: Path) -> None:
    with anyio.fail_after(20):
        await check(OverHttpInAFolder(tmp_path))


@pytest.mark.parametrize("kind", [Unavailable, Unusable, EngineError])
async def test_what_the_engine_behind_it_cannot_do_is_of_the_same_kind(kind: type[EngineError]) -> None:
    engine = MemoryEngine()

    async def failing(run: str) -> RunStatus:
        raise kind("it cannot")

    engine.get = failing  # type: ignore[method-assign]
    async with engine, over_http(engine) as client:
        with pytest.raises(EngineError, match="it cannot") as failed:
            await client.get("one")
    found = failed.value
    assert type(found) is (Refused if kind is EngineError else kind)
    assert not isinstance(found, Refused) or (found.status, found.problem) == (409, "conflict")


async def test_many_runs_are_cancelled_by_one_request() -> None:
    async with MemoryEngine() as engine, over_http(engine) as client:
        assert isinstance(client, HttpEngine)
        for run in ("one", "two", "three"):
            await client.submit(RunSpec(agent="a", task="t"), run=run)
        ended = await client.cancel_many(["one", "two", "never"], "enough", by="ann")
        assert ended == {"one", "two"}  # nobody has begun them
        found = {run: await client.get(run) for run in ("one", "two", "three")}
        assert [status.state for status in found.values()] == ["ended", "ended", "queued"]
        outcome = found["one"].outcome
        assert outcome is not None
        assert (outcome.status, outcome.reason) == ("cancelled", "enough")
        assert await client.cancel_many(["one"], wait=1.0) == frozenset()  # it had ended before


async def test_of_many_cancels_that_the_engine_cannot_make_durable_it_says_why() -> None:
    engine, tried = MemoryEngine(), list[str]()

    async def failing(run: str, *what: object, **how: object) -> None:
        tried.append(run)
        raise Unavailable("the disk is full")

    async with engine, over_http(engine) as client:
        assert isinstance(client, HttpEngine)
        for run in ("one", "two"):
            await client.submit(RunSpec(agent="a", task="t"), run=run)
        engine.cancel = failing  # type: ignore[method-assign]
        with pytest.raises(Unavailable, match="the disk is full"):
            await client.cancel_many(["one", "two"])
    assert sorted(tried) == ["one", "two"]
