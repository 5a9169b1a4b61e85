"""The pace: turns of many runs let the event loop go round, in line, and a lone run hardly notices it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from watchkeeper import Agent, Supervisor
from watchkeeper.pace import SLICE, Pace
from watchkeeper.testing import ScriptedModel, call, say
from watchkeeper.tools import tool

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Clock:
    """The processor's work, in seconds; and how often the event loop has gone round."""

    def __init__(self) -> None:
        self.now = 1.0
        self.rounds = 0

    def __call__(self) -> float:
        return self.now

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._count)
            while not self.rounds:
                await anyio.lowlevel.checkpoint()
            yield
            tasks.cancel_scope.cancel()

    async def _count(self) -> None:
        while True:
            await anyio.lowlevel.checkpoint()
            self.rounds += 1


async def test_within_a_slice_turns_begin_at_once() -> None:
    clock = Clock()
    pace = Pace(clock)
    await pace.keep()
    async with clock.counting():
        before = clock.rounds
        for _ in range(9):
            clock.now += SLICE / 10
            await pace.keep()
        assert clock.rounds == before
        for _ in range(9):
            clock.now += SLICE
            await pace.keep()
        assert clock.rounds >= before + 8  # within a round of trio's the count may come behind


async def test_behind_a_slice_they_begin_in_line_one_in_each_round() -> None:
    clock = Clock()
    pace = Pace(clock)
    began: list[tuple[int, int]] = []

    async def turn(number: int) -> None:
        await pace.keep()
        began.append((number, clock.rounds))
        clock.now += SLICE

    async with clock.counting(), anyio.create_task_group() as turns:
        for number in range(8):
            turns.start_soon(turn, number)
            await anyio.lowlevel.checkpoint()  # trio starts the tasks of one round in any order
            await anyio.lowlevel.checkpoint()
    assert [number for number, _ in began] == list(range(8))
    rounds = [round_ for _, round_ in began]
    assert all(later > earlier for earlier, later in zip(rounds, rounds[2:], strict=False))


@pytest.mark.parametrize("first", [True, False])
async def test_who_is_cancelled_in_line_holds_up_nobody_behind_it(first: bool) -> None:
    clock = Clock()
    pace = Pace(clock)
    scopes = [anyio.CancelScope() for _ in range(3)]
    began: list[int] = []

    async def turn(number: int) -> None:
        with scopes[number]:
            await pace.keep()
            began.append(number)

    async with anyio.create_task_group() as turns:
        for number in range(3):
            turns.start_soon(turn, number)
        await anyio.lowlevel.cancel_shielded_checkpoint()
        scopes[0 if first else 1].cancel()
    assert 2 in began
    with anyio.fail_after(1):
        await pace.keep()  # the line is empty again


async def test_a_run_that_is_cancelled_in_line_ends() -> None:
    @tool(effect="reads")
    async def look() -> str:
        """Look."""
        return "nothing"

    async with Supervisor() as supervisor:
        runs = [
            await supervisor.start(Agent(ScriptedModel([call(("look", {})), say("done")]), [look]), "task")
            for _ in range(20)
        ]
        for run in runs[::2]:
            run.cancel()
        outcomes = [await run.wait() for run in runs]
    assert [outcome.status for outcome in outcomes] == ["cancelled", "completed"] * 10
