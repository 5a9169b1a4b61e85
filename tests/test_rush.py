"""Many runs that end at once: what only tells of them waits until they are there."""

from __future__ import annotations

import anyio
import pytest

from watchkeeper.rush import LONGEST, MANY, Rush

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_few_ends_hold_nothing_up() -> None:
    rush = Rush()
    for number in range(MANY - 1):
        rush.begin(f"r{number}")
    began = anyio.current_time()
    await rush.over()
    assert anyio.current_time() == began


async def test_of_many_the_last_ends_let_all_on_in_order() -> None:
    rush = Rush()
    told: list[int] = []

    async def tell(number: int) -> None:
        await rush.over()
        told.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(MANY):
            rush.begin(f"r{number}")
        for number in range(5):
            tasks.start_soon(tell, number)
            await anyio.wait_all_tasks_blocked()
        assert told == []
        rush.end("r3")
        began = anyio.current_time()
    assert told == [0, 1, 2, 3, 4]
    assert anyio.current_time() == began


async def test_a_run_that_does_not_end_holds_nobody_up_for_ever() -> None:
    rush = Rush()
    for number in range(MANY):
        rush.begin(f"r{number}")
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(rush.over)
    assert anyio.current_time() == pytest.approx(began + LONGEST)


async def test_who_is_cancelled_while_it_waits_holds_up_nobody_behind_it() -> None:
    rush = Rush()
    for number in range(MANY):
        rush.begin(f"r{number}")
    for first in (True, False):
        scope = anyio.CancelScope()

        async def leave(scope: anyio.CancelScope = scope) -> None:
            with scope:
                await rush.over()

        async with anyio.create_task_group() as tasks:
            for waiting in (leave, rush.over) if first else (rush.over, leave):
                tasks.start_soon(waiting)
                await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            began = anyio.current_time()
            rush.end("r0")
        assert anyio.current_time() == began
        for number in range(MANY):
            rush.begin(f"r{number}")


async def test_after_a_rush_that_was_given_up_there_may_be_another() -> None:
    rush = Rush()
    for number in range(MANY):
        rush.begin(f"r{number}")
    await rush.over()
    began = anyio.current_time()
    await rush.over()
    assert anyio.current_time() == began
    for number in range(MANY):
        rush.begin(f"s{number}")
    await rush.over()
    assert anyio.current_time() == pytest.approx(began + LONGEST)
