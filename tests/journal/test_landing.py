"""Where a task waits for what a thread does for it."""

from __future__ import annotations

import anyio
import pytest

from watchkeeper.journal.landing import Landing, landings

pytestmark = pytest.mark.anyio


async def waiting(landing: Landing) -> None:
    await landing.wait()


async def test_who_waits_goes_on_when_it_is_set() -> None:
    landing = landings()()
    came = []

    async def wait() -> None:
        await landing.wait()
        came.append("on")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert came == []
        landing.set()
    assert came == ["on"]


async def test_what_is_set_before_is_not_waited_for() -> None:
    landing = landings()()
    landing.set()
    with anyio.fail_after(1):
        await landing.wait()


async def test_it_may_be_set_when_nobody_waits_any_more() -> None:
    landing = landings()()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting, landing)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    landing.set()
    landing.set()
