"""Runs that are cut off behind each of their facts and recovered: what the tests of recovery share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel

from support import of
from watchkeeper import Agent, Event, Outcome, Run, Supervisor, decode_event, encode_event
from watchkeeper.engine import Lease, RunSpec
from watchkeeper.journal import MemoryEngine
from watchkeeper.messages import (
    CallEnded,
    CallProposed,
    CallStarted,
    Held,
    ModelReplied,
    ModelRequested,
    RunEnded,
    Settled,
)
from watchkeeper.testing import ScriptedModel, VirtualSeams, check_conversation

TOKENS = 20
"""What a scripted reply costs."""
RUN = "r1"


class World:
    """What lies outside of the process: what was done to it, and how often the model was asked."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []
        self.keys: list[str] = []
        self.models: list[ScriptedModel] = []

    def do(self, tool: str, what: Any, key: str = "") -> None:
        self.done.append((tool, what))
        if key:
            self.keys.append(key)

    def model(self, script: Callable[..., Any], **settings: Any) -> ScriptedModel:
        model = ScriptedModel(script, **settings)
        self.models.append(model)
        return model


Making = Callable[[World], Agent]
Person = Callable[[Run], Awaitable[None]]


class Recording(MemoryEngine):
    """Keeps the facts of all runs in the order in which they became durable."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.kept: list[Event] = []

    async def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        async for lease in super().leases(capacity, worker=worker):
            append = lease.append

            async def recorded(
                events: Sequence[Event],
                charges: Mapping[str, float] | None = None,
                append: Callable[..., Awaitable[None]] = append,
            ) -> None:
                await append(events, charges)
                self.kept += events

            lease.append = recorded  # type: ignore[method-assign]
            yield lease


async def seed(facts: Sequence[Event], spec: RunSpec, **settings: Any) -> MemoryEngine:
    """An engine of which an attempt died behind these facts."""
    engine = MemoryEngine(seams=VirtualSeams(), **settings)
    async with engine:
        await engine.submit(spec, run=RUN)
        lease = await first(engine)
        if facts:
            await lease.append([decode_event(encode_event(event)) for event in facts])
    return engine


async def first(engine: MemoryEngine) -> Lease:
    async for lease in engine.leases(lambda: 1):
        return lease
    raise AssertionError("no lease was given")


async def perform(
    engine: MemoryEngine, agent: Agent, person: Person | None = None, *, seed: int = 1, **settings: Any
) -> Outcome:
    """Execute the run of an engine to its end. Another process makes other ids: it has another ``seed``."""
    agents, seams = {agent.name: agent}, VirtualSeams(seed=seed)
    async with (
        engine,
        Supervisor(engine=engine, agents=agents, keep=100_000, seams=seams, plugged=False, **settings) as boss,
    ):
        run = await handle(boss)
        async with anyio.create_task_group() as tasks:
            if person is not None:
                tasks.start_soon(person, run)
            outcome = await run.wait()
            tasks.cancel_scope.cancel()
        return outcome


async def handle(boss: Supervisor) -> Run:
    for _ in range(1000):  # a run may be over before any time has passed
        if RUN in boss.runs:
            return boss.runs[RUN]
        await anyio.lowlevel.checkpoint()
    raise AssertionError(f"run {RUN} was not taken up: {boss.worker and boss.worker.refused}")


async def uncut(making: Making, person: Person | None = None, **spec: Any) -> tuple[list[Event], Outcome, RunSpec]:
    """The facts of a run that nothing cuts off, in the order in which they became durable."""
    agent = making(World())
    engine = Recording(seams=VirtualSeams())
    whole = RunSpec(agent=agent.name, task="Do it.", **spec)
    async with engine:
        await engine.submit(whole, run=RUN)
    outcome = await perform(engine, agent, person)
    return engine.kept, outcome, whole


@asynccontextmanager
async def recovered(
    making: Making, facts: Sequence[Event], spec: RunSpec, person: Person | None = None
) -> AsyncIterator[tuple[World, list[Event], Outcome]]:
    """A run that is taken up behind these facts: what was done then, all facts, the outcome."""
    world = World()
    engine = await seed(facts, spec)
    outcome = await perform(engine, making(world), person, seed=2)
    async with engine:
        yield world, [event async for event in engine.watch(RUN) if isinstance(event, Event)], outcome


def check(facts: Sequence[Event], outcome: Outcome, world: World) -> None:
    """What holds of each run, cut off or not."""
    assert [event.n for event in facts] == list(range(1, len(facts) + 1))
    pairs = list(pairwise(facts))
    assert all(later.t >= event.t - 1e-6 and later.at >= event.at - 1e-6 for event, later in pairs)
    assert [type(event) for event in facts].count(RunEnded) == 1
    assert isinstance(facts[-1], RunEnded)
    proposed = [event.call_id for event in of(facts, CallProposed)]
    ended = [event.result.call_id for event in of(facts, CallEnded)]
    assert len(set(proposed)) == len(proposed)
    assert sorted(proposed) == sorted(ended)
    assert {call.id for reply in of(facts, ModelReplied) if reply.stored for call in reply.calls} <= set(proposed)
    assert check_conversation(outcome.history) is None
    for model in world.models:
        for request in model.requests:
            assert check_conversation([one for one in request.messages if one.role != "system"]) is None
    open_holds: set[str] = set()
    for event in facts:
        if isinstance(event, Held):
            open_holds.add(event.held)
        elif isinstance(event, Settled):
            open_holds.discard(event.held)
    assert not open_holds


def finished(facts: Sequence[Event]) -> list[str]:
    return [event.result.call_id for event in of(facts, CallEnded)]


def is_asking(facts: Sequence[Event]) -> bool:
    """A request to the model was under way, or its reply is lost."""
    held, replied = 0, True
    for event in facts:
        if isinstance(event, Held) and not event.slot:
            held, replied = held + 1, False
        elif isinstance(event, ModelReplied):
            replied = True
    return bool(held) and not replied


def started_again(before: Sequence[Event], after: Sequence[Event]) -> set[str]:
    """Calls that had their result and were started all the same."""
    return set(finished(before)) & {event.call_id for event in of(after, CallStarted)}


def requests(facts: Sequence[Event]) -> int:
    return len(of(facts, ModelRequested))
