"""Checks of appends: what is acknowledged is there, once, in order and whole."""

from __future__ import annotations

import anyio

from ...engine import EngineError
from ...messages import (
    Call,
    CallStarted,
    ChildStarted,
    Message,
    ModelReplied,
    ModelRequested,
    RunStarted,
    TurnStarted,
    Unknown,
    UserMessage,
)
from .ground import SPEC, Check, Facts, Ground, drained, refused, taken

LARGE = 200_000
"""Characters of a value that no engine need keep in a row of its own kind."""


async def facts_come_back_as_they_were(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append(facts.start())
        await lease.append(facts.turn(1, content='quotes " \\ \u2028 \x00 \x01 ✓ 😀', slots=3))
        await lease.append([])
    async with ground.worker() as engine:
        assert await drained(await taken(engine)) == facts.made


async def large_values_come_back_as_they_were(ground: Ground) -> None:
    facts = Facts("one")
    text = "".join(f'{n}: "ä\\n\x01' for n in range(LARGE // 10))
    history = (Message("user", text), Message("assistant", "short"), Message("user", text))
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *facts.turn(1, content=text), *facts.turn(2, content=text)])
        await lease.append(facts.end(answer=text, history=history))
        await lease.release()
        assert [event async for event in engine.watch("one")] == facts.made
        outcome = (await engine.get("one")).outcome
        assert outcome is not None
        assert not outcome.history, "the status leaves the history to the end record"


async def a_fact_of_a_later_version_is_kept(ground: Ground) -> None:
    facts = Facts("one")
    later = {"type": "teleported", "n": 3, "run": "one", "at": 1.0, "t": 2.0, "turn": 1, "to": ["Oslo"]}
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        unknown = Unknown(n=3, run="one", at=1.0, t=2.0, turn=1, raw=later)
        await lease.append([*facts.start(), unknown])
        assert [event async for event in lease.facts()][-1] == unknown


async def no_fact_is_written_twice(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        batch = [*facts.start(), *facts.turn(1)]
        await lease.append(batch)
        await lease.append(batch)
        await lease.append([*batch[-2:], *facts.turn(2)])
        assert await drained(lease) == facts.made
        assert (await engine.get("one")).calls == 2


async def no_fact_is_left_out(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append(facts.start())
        made = facts.turn(1)
        with refused(EngineError, "a batch that leaves a fact out"):
            await lease.append(made[1:])
        with refused(EngineError, "a batch with a hole"):
            await lease.append([made[0], made[2]])
        assert await drained(lease) == facts.made[:2]
        await lease.append(made)
        assert await drained(lease) == facts.made


async def nothing_follows_the_end_record(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append([*facts.start(), *facts.end()])
        await lease.append(facts.made[-1:])
        late = facts.turn(9)
        with refused(EngineError, "a fact behind the end record"):
            await lease.append(late)


async def facts_of_others_are_refused(ground: Ground) -> None:
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        await engine.submit(SPEC, run="two")
        lease = await taken(engine)
        with refused(EngineError, "facts of another run"):
            await lease.append(Facts("two").start())
        with refused(EngineError, "facts of a run of nobody"):
            await lease.append(Facts("three", parent="two").start())
        assert (await engine.get("two")).n == 0


async def sub_agents_are_of_the_tree(ground: Ground) -> None:
    root, child, grandchild = Facts("one"), Facts("one.1", "one"), Facts("one.1.1", "one.1")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        spawned = root.make(ChildStarted, child="one.1", agent="scout")
        await lease.append([*root.made, *child.start("scout", "look"), *grandchild.start("scout", "look closer")])
        assert spawned.n == 1
        got = await engine.get("one.1")
        assert (got.parent, got.root, got.spec.agent, got.spec.task, got.n) == ("one", "one", "scout", "look", 2)
        await lease.append([*child.turn(1), *grandchild.end()])
    async with ground.worker() as engine:
        lease = await taken(engine)
        assert [one.run for one in await lease.children()] == ["one.1", "one.1.1"]
        assert await drained(lease, "one.1") == child.made
        assert await drained(lease, "one.1.1") == grandchild.made
        assert await drained(lease) == root.made
        assert (await engine.get("one.1.1")).state == "ended"


async def many_append_at_once(ground: Ground) -> None:
    async with ground.worker() as engine:
        runs = {f"run{n}": Facts(f"run{n}") for n in range(20)}
        for run in runs:
            await engine.submit(SPEC, run=run)
        leases = aiter(engine.leases(lambda: 1))
        held = [await anext(leases) for _ in runs]

        async with anyio.create_task_group() as tasks:
            for lease in held:
                facts = runs[lease.run]

                async def work(lease: object = lease, facts: Facts = facts) -> None:
                    for turn in range(5):
                        await lease.append(facts.start() if not turn else facts.turn(turn))  # type: ignore[attr-defined]

                tasks.start_soon(work)
        for lease in held:
            assert await drained(lease) == runs[lease.run].made


async def a_cancelled_append_is_made_again(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        batch = facts.start()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await lease.append(batch)
        await lease.append(batch)
        assert await drained(lease) == batch
        assert not lease.lost


async def the_status_follows_the_facts(ground: Ground) -> None:
    facts = Facts("one")
    async with ground.worker() as engine:
        await engine.submit(SPEC, run="one")
        lease = await taken(engine)
        await lease.append(
            [
                facts.make(RunStarted, agent="clerk", task="File the letters", turn=0),
                facts.make(UserMessage, text="File the letters", turn=0),
                facts.make(TurnStarted, turn=1),
                facts.make(ModelRequested, turn=1, model="m"),
            ]
        )
        got = await engine.get("one")
        assert (got.state, got.n, got.turn, got.doing, got.started) == ("running", 4, 1, "model", facts.made[0].at)
        reply = facts.make(ModelReplied, turn=1, text="", calls=(Call("c1", "file", "{}", 1),))
        await lease.append([reply, facts.make(CallStarted, turn=1, slot=1, call_id="c1", tool="file")])
        assert (await engine.get("one")).doing == "file"
    async with ground.worker() as engine:
        await taken(engine)
        again = await engine.get("one")
        assert (again.doing, again.attempt, again.n) == ("", 2, 6), "nothing is at work any more"


CHECKS: tuple[Check, ...] = (
    facts_come_back_as_they_were,
    large_values_come_back_as_they_were,
    a_fact_of_a_later_version_is_kept,
    no_fact_is_written_twice,
    no_fact_is_left_out,
    nothing_follows_the_end_record,
    facts_of_others_are_refused,
    sub_agents_are_of_the_tree,
    many_append_at_once,
    a_cancelled_append_is_made_again,
    the_status_follows_the_facts,
)
