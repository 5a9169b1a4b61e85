"""Checks of watching: what was, then what is, to the end, without a fact lost or seen twice."""

from __future__ import annotations

import anyio

from ...engine import Engine, EngineError, Query
from ...messages import Event, RunEnded
from .ground import PATIENCE, SPEC, Check, Facts, Ground, taken


async def replay_then_live_then_the_end(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine, ground.control() as control:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append(facts.start())
        seen: list[object] = []
        two = anyio.Event()

        async def follow() -> None:
            async for event in control.watch("one"):
                seen.append(event)
                if len(seen) == 2:
                    two.set()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await two.wait()
                for turn in range(1, 6):
                    await lease.append(facts.turn(turn))
                await lease.append(facts.end())
        assert seen == facts.made


async def a_viewer_resumes(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine, ground.control() as control:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *facts.turn(1), *facts.end()])
        for after in (0, 1, len(facts.made) - 1, len(facts.made), len(facts.made) + 5):
            with anyio.fail_after(PATIENCE):
                seen = [event async for event in control.watch("one", after)]
            assert seen == facts.made[after:], f"after {after}"


async def a_run_is_watched_from_before_its_start(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        seen: list[object] = []

        async def follow() -> None:
            seen.extend([event async for event in control.watch("one")])

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await anyio.wait_all_tasks_blocked()
                lease = await taken(engine)
                await lease.append([*facts.start(), *facts.end()])
        assert seen == facts.made


async def two_viewers_see_the_same(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine, ground.control() as control:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        seen: dict[int, list[object]] = {0: [], 1: []}

        async def follow(number: int, after: int) -> None:
            async for event in control.watch("one", after):
                seen[number].append(event)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow, 0, 0)
                tasks.start_soon(follow, 1, 2)
                await lease.append([*facts.start(), *facts.turn(1), *facts.end()])
        assert seen == {0: facts.made, 1: facts.made[2:]}


async def a_sub_agent_is_watched(ground: Ground) -> None:
    root, child = Facts("one"), Facts("one.1", "one")
    async with ground.worker() as engine, ground.control() as control:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*root.start(), *child.start()])
        seen: list[object] = []

        async def follow() -> None:
            seen.extend([event async for event in control.watch("one.1")])

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await lease.append(child.end())
        assert seen == child.made


async def a_viewer_stays_over_a_crash(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.control() as control:
        seen: list[Event] = []
        done = anyio.Event()

        async def follow() -> None:
            async for event in control.watch("one"):
                assert isinstance(event, Event)
                seen.append(event)
            done.set()

        await control.submit(SPEC, run="one")
        async with anyio.create_task_group() as tasks:
            async with ground.worker() as engine:
                lease = await taken(engine)
                await lease.append(facts.start())
            if not await _is_open(control):
                return  # the same object in both roles: closed with the worker
            tasks.start_soon(follow)
            async with ground.worker() as engine:
                lease = await taken(engine)
                await lease.append([*facts.turn(1), *facts.end()])
                await lease.release()
                with anyio.fail_after(PATIENCE):
                    await done.wait()
        assert seen == facts.made


async def a_viewer_sees_a_cancel_in_the_queue(ground: Ground) -> None:
    async with ground.control() as control:
        await control.submit(SPEC, run="one")
        seen: list[object] = []

        async def follow() -> None:
            seen.extend([event async for event in control.watch("one")])

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await anyio.wait_all_tasks_blocked()
                await control.cancel("one", "not needed")
        assert isinstance(seen[-1], RunEnded)
        assert seen[-1].outcome.status == "cancelled"


async def _is_open(engine: Engine) -> bool:
    try:
        await engine.list(Query())
    except EngineError:
        return False
    return True


CHECKS: tuple[Check, ...] = (
    replay_then_live_then_the_end,
    a_viewer_resumes,
    a_run_is_watched_from_before_its_start,
    two_viewers_see_the_same,
    a_sub_agent_is_watched,
    a_viewer_stays_over_a_crash,
    a_viewer_sees_a_cancel_in_the_queue,
)
