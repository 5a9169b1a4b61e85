"""A worker whose files cannot be used now: it waits for them, and does not die again and again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import anyio
import pytest

from watchkeeper.engine import EngineError, Unavailable
from watchkeeper.service import worker
from watchkeeper.service.assignment import Assignment
from watchkeeper.service.harness import Duty
from watchkeeper.service.worker import AGAIN, WorkerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Files:
    """An engine whose files cannot be used the first times."""

    opened = 0

    def __init__(self, errors: list[EngineError]) -> None:
        self._errors = errors

    def __call__(self, *given: Any, **more: Any) -> Files:
        return self

    async def __aenter__(self) -> Files:
        if self._errors:
            raise self._errors.pop(0)
        self.opened += 1
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.opened -= 1


def process(folder: Path) -> WorkerProcess:
    return WorkerProcess(Assignment(name="w1", folder=str(folder)))


def duty() -> Duty:
    return Duty(None, 1.0)  # type: ignore[arg-type]  # nothing is said here


async def test_a_full_disk_is_waited_for_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files([Unavailable("the disk is full") for _ in range(3)])
    told: list[str] = []
    monkeypatch.setattr(worker, "SqliteEngine", files)
    monkeypatch.setattr(worker, "report", lambda event, **fields: told.append(f"{event}: {fields['why']}"))
    began = anyio.current_time()
    async with contextlib.AsyncExitStack() as stack:
        assert await process(tmp_path)._opened(duty(), stack) is files
        assert anyio.current_time() - began == pytest.approx(3 * AGAIN)
        assert files.opened == 1
    assert files.opened == 0
    assert told == ["worker_waits: the disk is full"]


async def test_who_is_told_to_end_meanwhile_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SqliteEngine", Files([Unavailable("the disk is full") for _ in range(100)]))
    over = duty()
    async with contextlib.AsyncExitStack() as stack, anyio.create_task_group() as tasks:

        async def end() -> None:
            await anyio.sleep(2.5 * AGAIN)
            over.over.set()

        tasks.start_soon(end)
        began = anyio.current_time()
        assert await process(tmp_path)._opened(over, stack) is None
        assert anyio.current_time() - began == pytest.approx(2.5 * AGAIN)


async def test_what_does_not_pass_is_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SqliteEngine", Files([EngineError("it is another worker's")]))
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(EngineError, match="another worker's"):
            await process(tmp_path)._opened(duty(), stack)
