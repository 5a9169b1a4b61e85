"""Checks of what is sent to a run: durable before it has an effect, taken once, answered."""

from __future__ import annotations

import anyio

from ...engine import AddBudget, Answered, AnyCommand, Approve, Cancel, EngineError, Pause, Steer
from ...messages import RunEnded
from .ground import PATIENCE, SPEC, Check, Facts, Ground, refused, taken


async def commands_come_in_order_and_once(ground: Ground) -> None:
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        sent: list[AnyCommand] = [
            Steer(text="before the lease — ✓", id="s1", by="me"),
            Pause(reason="lunch", seconds=5.0, id="p1"),
            Approve(approval="a1", arguments_hash="f" * 64, scope="run", pattern={"path": ("a", "**")}, id="y1"),
            AddBudget(amounts={"turns": 5}, id="b1"),
        ]
        for command in sent[:2]:
            assert await control.send("one", command) == command.id
        lease = await taken(engine)
        commands = aiter(lease.commands())
        with anyio.fail_after(PATIENCE):
            got = [await anext(commands), await anext(commands)]
            for command in sent[2:]:
                await control.send("one", command)
            got += [await anext(commands), await anext(commands)]
        assert [one.id for one in got] == [one.id for one in sent]
        assert {one.run for one in got} == {"one"}
        assert isinstance(got[0], Steer)
        assert (got[0].text, got[0].by) == ("before the lease — ✓", "me")
        assert isinstance(got[2], Approve)
        assert got[2].pattern == {"path": ("a", "**")}


async def an_answer_reaches_who_waits(ground: Ground) -> None:
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        command = await control.send("one", Steer(text="look left"))
        assert command
        answers: list[Answered] = []

        async def ask() -> None:
            answers.append(await control.answered("one", command))

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                got = await anext(aiter(lease.commands()))
                await lease.settle(got, Answered(id=got.id, taken=True))
        assert answers == [Answered(id=command, taken=True)]
        assert await control.answered("one", command) == answers[0]


async def the_first_answer_counts(ground: Ground) -> None:
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        await control.send("one", Steer(text="x", id="s1"))
        got = await anext(aiter(lease.commands()))
        await lease.settle(got, Answered(id="s1", taken=False, why="no"))
        await lease.settle(got, Answered(id="s1", taken=True))
        with anyio.fail_after(PATIENCE):
            assert await control.answered("one", "s1") == Answered(id="s1", taken=False, why="no")


async def a_command_of_one_id_is_one(ground: Ground) -> None:
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        for _ in range(3):
            await control.send("one", Steer(text="x", id="s1"))
        await control.send("one", Steer(text="y", id="s2"))
        with refused(EngineError, "another command of an id that is taken"):
            await control.send("one", Steer(text="z", id="s1"))
        commands = aiter(lease.commands())
        with anyio.fail_after(PATIENCE):
            assert [(await anext(commands)).id, (await anext(commands)).id] == ["s1", "s2"]


async def unsettled_commands_survive_a_crash(ground: Ground) -> None:
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await engine.send("one", Steer(text="x", id="s1"))
        await engine.send("one", Steer(text="y", id="s2"))
        commands = aiter(lease.commands())
        with anyio.fail_after(PATIENCE):
            first, _ = await anext(commands), await anext(commands)
        await lease.settle(first, Answered(id="s1", taken=True))
    async with ground.worker() as engine:
        lease = await taken(engine)
        with anyio.fail_after(PATIENCE):
            assert (await anext(aiter(lease.commands()))).id == "s2"
            assert (await engine.answered("one", "s1")).taken


async def a_queued_run_is_cancelled_at_once(ground: Ground) -> None:
    async with ground.control() as control:
        await control.submit(SPEC, run="one")
        await control.send("one", Steer(text="x", id="s1"))
        await control.cancel("one", "not needed", by="me")
        await control.cancel("one", "again")
        status = await control.get("one")
        assert status.state == "ended"
        assert status.outcome is not None
        assert (status.outcome.status, status.outcome.reason) == ("cancelled", "not needed")
        with anyio.fail_after(PATIENCE):
            events = [event async for event in control.watch("one")]
            assert not (await control.answered("one", "s1")).taken
        assert isinstance(events[-1], RunEnded)
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="two")
        assert (await taken(engine)).run == "two"
        assert (await engine.get("one")).state == "ended"


async def a_cancel_reaches_the_lease(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append(facts.start())
        await control.cancel("one", "enough", "kill", by="me", id="c1")
        await control.cancel("one", "enough", "kill", by="me", id="c1")
        with anyio.fail_after(PATIENCE):
            got = await anext(aiter(lease.commands()))
        assert isinstance(got, Cancel)
        assert (got.id, got.reason, got.mode, got.by, got.run) == ("c1", "enough", "kill", "me", "one")
        assert not lease.lost, "appends stay legal after a cancel"
        await lease.append([*facts.turn(1), *facts.end()])
        await lease.settle(got, Answered(id="c1", taken=True))
        await lease.release()
        await control.cancel("one", "too late")
        assert (await control.get("one")).state == "ended"


async def a_dead_run_keeps_its_cancel(ground: Ground) -> None:
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        await (await taken(engine)).append(Facts("one").start())
    async with ground.control() as control:
        await control.cancel("one", "enough")
    async with ground.worker() as engine:
        lease = await taken(engine)
        with anyio.fail_after(PATIENCE):
            got = await anext(aiter(lease.commands()))
        assert isinstance(got, Cancel)
        assert got.reason == "enough"


async def a_sub_agents_command_comes_to_the_lease(ground: Ground) -> None:
    root, child = Facts("one"), Facts("one.1", "one")
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*root.start(), *child.start()])
        await control.cancel("one.1", "enough", id="c1")
        with anyio.fail_after(PATIENCE):
            got = await anext(aiter(lease.commands()))
        assert (got.id, got.run) == ("c1", "one.1")
        await lease.settle(got, Answered(id="c1", taken=True))
        with anyio.fail_after(PATIENCE):
            assert (await control.answered("one.1", "c1")).taken


async def after_the_end_commands_are_refused(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine, ground.control() as control:
        await control.submit(SPEC, run="one")
        lease = await taken(engine)
        await control.send("one", Steer(text="x", id="early"))
        await lease.append([*facts.start(), *facts.end()])
        await lease.release()
        await control.send("one", Steer(text="x", id="late"))
        with anyio.fail_after(PATIENCE):
            early, late = await control.answered("one", "early"), await control.answered("one", "late")
        assert not early.taken
        assert not late.taken
        assert late.why
        with refused(EngineError, "an answer to a command that nobody sent"):
            await control.answered("one", "never")


CHECKS: tuple[Check, ...] = (
    commands_come_in_order_and_once,
    an_answer_reaches_who_waits,
    the_first_answer_counts,
    a_command_of_one_id_is_one,
    unsettled_commands_survive_a_crash,
    a_queued_run_is_cancelled_at_once,
    a_cancel_reaches_the_lease,
    a_dead_run_keeps_its_cancel,
    a_sub_agents_command_comes_to_the_lease,
    after_the_end_commands_are_refused,
)
