"""Checks of submitting runs."""

from __future__ import annotations

from ...engine import EngineError, Query, RunSpec, UnknownRun
from ...messages import Message
from .ground import SPEC, Check, Ground, refused


async def a_run_is_queued(ground: Ground) -> None:
    spec = RunSpec(
        agent="clerk",
        task="File — ✓ \x00 it",
        limits={"max_turns": 3},
        labels={"team": "a"},
        history=(Message("user", "before"),),
        mode="observe",
        code="v1",
        by="me",
    )
    async with ground.control() as engine:
        made = await engine.submit(spec, run="one")
        got = await engine.get("one")
    assert made == got
    assert (got.run, got.root, got.parent, got.state, got.attempt, got.n) == ("one", "one", "", "queued", 0, 0)
    assert got.spec == spec
    assert got.submitted > 0


async def the_engine_gives_ids(ground: Ground) -> None:
    async with ground.control() as engine:
        first, second = await engine.submit(SPEC), await engine.submit(SPEC)
        assert first.run
        assert first.run != second.run


async def an_id_is_an_idempotency_key(ground: Ground) -> None:
    async with ground.control() as engine:
        first = await engine.submit(SPEC, run="one")
        assert await engine.submit(SPEC, run="one") == first
        with refused(EngineError, "the same id with another spec"):
            await engine.submit(RunSpec(agent="clerk", task="Something else"), run="one")
        assert len((await engine.list(Query())).runs) == 1


async def what_is_submitted_stays(ground: Ground) -> None:
    async with ground.worker(), ground.control() as engine:
        await engine.submit(SPEC, run="one")
    async with ground.worker(), ground.control() as engine:
        assert (await engine.get("one")).spec == SPEC


async def unknown_runs_are_named(ground: Ground) -> None:
    async with ground.control() as engine:
        with refused(UnknownRun, "get"):
            await engine.get("nobody")
        with refused(UnknownRun, "cancel"):
            await engine.cancel("nobody")
        with refused(UnknownRun, "watch"):
            async for _ in engine.watch("nobody"):
                pass
        with refused(UnknownRun, "answered"):
            await engine.answered("nobody", "c")


async def hostile_ids_are_refused(ground: Ground) -> None:
    async with ground.control() as engine:
        for run in ("a b", "../up", "a/b", "x\n", "\x00", "\ud800", "n" * 201, "."):
            with refused(EngineError, f"the id {run[:20]!r}"):
                await engine.submit(SPEC, run=run)
        assert not (await engine.list(Query())).runs


async def a_closed_engine_says_so(ground: Ground) -> None:
    async with ground.control() as engine:
        pass
    with refused(EngineError, "submit after the engine was left"):
        await engine.submit(SPEC)


CHECKS: tuple[Check, ...] = (
    a_run_is_queued,
    the_engine_gives_ids,
    an_id_is_an_idempotency_key,
    what_is_submitted_stays,
    unknown_runs_are_named,
    hostile_ids_are_refused,
    a_closed_engine_says_so,
)
