"""Checks of leases: who gets what, in which order, and who is fenced."""

from __future__ import annotations

import anyio

from ...engine import Fenced, RunSpec
from .ground import PATIENCE, SPEC, Check, Facts, Ground, drained, refused, taken


async def the_queue_is_in_order(ground: Ground) -> None:
    async with ground.worker() as engine:
        for run in ("a", "b", "c"):
            await engine.submit(RunSpec(agent="clerk", task=run), run=run)
        leases = engine.leases(lambda: 1)
        with anyio.fail_after(PATIENCE):
            got = [await anext(aiter(leases)) for _ in range(3)]
        assert [lease.run for lease in got] == ["a", "b", "c"]
        assert [lease.spec.task for lease in got] == ["a", "b", "c"]
        assert {lease.attempt for lease in got} == {1}
        status = await engine.get("a")
        assert (status.attempt, status.worker) == (1, "main")


async def a_lease_waits_for_a_run(ground: Ground) -> None:
    async with ground.worker() as engine, ground.control() as control, anyio.create_task_group() as tasks:
        got: list[str] = []

        async def take() -> None:
            got.append((await taken(engine)).run)

        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        await control.submit(SPEC, run="late")
    assert got == ["late"]


async def no_lease_without_room(ground: Ground) -> None:
    async with ground.worker() as engine:
        room = 0
        await engine.submit(SPEC, run="one")
        asked = anyio.Event()

        def capacity() -> int:
            asked.set()
            return room

        async with anyio.create_task_group() as tasks:
            got: list[str] = []

            async def take() -> None:
                got.append((await anext(aiter(engine.leases(capacity)))).run)

            tasks.start_soon(take)
            with anyio.fail_after(PATIENCE):
                await asked.wait()
            assert not got
            room = 1
    assert got == ["one"]


async def a_dead_attempt_is_given_out_again(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        first = await taken(engine)
        await first.append([*facts.start(), *facts.turn(1)])
        await engine.submit(SPEC, run="two")
    async with ground.worker() as engine:
        second = await taken(engine)
        assert (second.run, second.attempt) == ("one", 2), "what has died comes before the queue"
        assert await drained(second) == facts.made
        assert first.lost
        with refused(Fenced, "an append of the attempt before"):
            await first.append(facts.turn(2))
        await second.append(facts.made[-5:])
        assert (await engine.get("one")).n == len(facts.made)


async def a_second_iterator_fences_the_first(ground: Ground) -> None:
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        leases = aiter(engine.leases(lambda: 1))
        first = await anext(leases)
        second = await taken(engine)
        assert (second.run, second.attempt) == ("one", 2)
        await engine.submit(SPEC, run="two")
        with anyio.fail_after(PATIENCE):
            assert [one async for one in leases] == [], "the first iterator gives nothing more"
        assert first.lost
        assert not second.lost
        with refused(Fenced, "an append of the attempt before"):
            await first.append(Facts("one").start())


async def a_suspended_run_goes_on(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append(facts.start())
        await lease.release(suspended=True)
        await lease.release(suspended=True)
        assert lease.lost
        with refused(Fenced, "an append after the release"):
            await lease.append(facts.turn(1))
        again = await taken(engine)
        assert (again.run, again.attempt, again.crashes) == ("one", 2, 0)


async def an_ended_run_is_not_given_out(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        await engine.submit(SPEC, run="two")
        leases = aiter(engine.leases(lambda: 1))
        lease = await anext(leases)
        await lease.append([*facts.start(), *facts.end()])
        await lease.release()
        assert (await anext(leases)).run == "two"
    async with ground.worker() as engine:
        assert (await taken(engine)).run == "two"
        status = await engine.get("one")
        assert status.state == "ended"
        assert status.outcome is not None
        assert status.outcome.answer == "done"


async def an_ended_run_that_was_not_released_has_ended(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *facts.end()])
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="two")
        assert (await taken(engine)).run == "two"


async def crashes_in_a_row_are_counted(ground: Ground) -> None:
    facts = Facts("one")
    counted = []
    async with ground.control() as engine:
        await engine.submit(SPEC, run="one")
    for attempt in range(1, 7):
        async with ground.worker() as engine:
            lease = await taken(engine)
            assert lease.attempt == attempt
            counted.append(lease.crashes)
            if attempt == 4:
                await lease.append(facts.start())
    assert counted == [0, 1, 2, 3, 0, 1]


async def a_refusal_is_told_until_the_next_attempt(ground: Ground) -> None:
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        assert not (await engine.get("one")).refused
        await lease.refuse("nobody knows it")
        assert (await engine.get("one")).refused == "nobody knows it"
        await lease.release(suspended=True)
        with refused(Fenced, "a refusal after the release"):
            await lease.refuse("again")
        status = await engine.get("one")
        assert (status.state, status.refused) == ("queued", "nobody knows it")
    async with ground.worker() as engine:
        again = await taken(engine)
        assert (again.run, again.crashes) == ("one", 0)
        assert not (await engine.get("one")).refused


async def leases_end_with_the_engine(ground: Ground) -> None:
    async with ground.worker() as engine:
        leases = aiter(engine.leases(lambda: 1))
        await engine.submit(SPEC, run="one")
        lease = await anext(leases)
        commands = aiter(lease.commands())
    assert lease.lost
    with anyio.fail_after(PATIENCE):
        assert [command async for command in commands] == []
        assert [one async for one in leases] == []


CHECKS: tuple[Check, ...] = (
    the_queue_is_in_order,
    a_lease_waits_for_a_run,
    no_lease_without_room,
    a_dead_attempt_is_given_out_again,
    a_second_iterator_fences_the_first,
    a_suspended_run_goes_on,
    an_ended_run_is_not_given_out,
    an_ended_run_that_was_not_released_has_ended,
    crashes_in_a_row_are_counted,
    a_refusal_is_told_until_the_next_attempt,
    leases_end_with_the_engine,
)
