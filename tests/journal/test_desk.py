"""The desk of a file: which jobs share a transaction."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from watchkeeper.journal import desk as desks
from watchkeeper.journal.desk import CROWD, Desk
from watchkeeper.seams import Seams

pytestmark = pytest.mark.anyio

PATIENCE = 60.0


class Noting(Desk[None]):
    """Notes how many jobs it does together."""

    def __init__(self) -> None:
        self.seams = Seams()
        self.seams.bind()
        self.together: list[int] = []
        super().__init__("noting", Path("nowhere"), self.seams, lambda: None)

    def do(self, seat: None, batch: list[Any]) -> None:
        self.together.append(len(batch))
        super().do(seat, batch)


@pytest.fixture
async def desk() -> AsyncIterator[Noting]:
    made = Noting()
    await made.start()
    yield made
    await made.close()


async def side_by_side(desk: Noting, count: int) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(desk.ask, lambda seat: None)


async def after_a_crowd(desk: Noting) -> None:
    """Many ask while one job is at work, and are served together."""
    at_work = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.ask, lambda seat: at_work.wait(PATIENCE))
        await anyio.wait_all_tasks_blocked()
        while not desk.together:
            await anyio.lowlevel.checkpoint()
        for _ in range(CROWD):
            tasks.start_soon(desk.ask, lambda seat: None)
        await anyio.wait_all_tasks_blocked()
        at_work.set()
    assert desk.together == [1, CROWD]


async def test_behind_a_crowd_all_that_ask_in_one_turn_are_served_together(
    desk: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "TURN", PATIENCE)
    await after_a_crowd(desk)
    desk.together.clear()
    await side_by_side(desk, 4 * CROWD)
    assert desk.together == [4 * CROWD]


async def test_a_loop_that_does_not_turn_holds_no_transaction_up(desk: Noting) -> None:
    await after_a_crowd(desk)
    done = threading.Event()
    desk.tell(lambda seat: done.set())
    assert done.wait(PATIENCE)  # the loop is held here


async def test_few_are_served_at_once(desk: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "TURN", PATIENCE)
    done = threading.Event()
    desk.tell(lambda seat: done.set())
    assert done.wait(PATIENCE / 2)  # the loop is held here
