"""Runs of an engine: submitted, executed, journaled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest

from support import BARE, scripted, supervised
from watchkeeper import Agent, tool
from watchkeeper.continuing import code_of
from watchkeeper.engine import Cancel, Lease, RunSpec
from watchkeeper.journal import MemoryEngine
from watchkeeper.messages import CallStarted, CancelRequested, Event, RunEnded, RunStarted
from watchkeeper.rush import MANY
from watchkeeper.testing import ScriptedModel, VirtualSeams, call, say
from watchkeeper.windup import DURABLE

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(place: str) -> str:
    """Look."""
    return f"seen {place}"


async def test_a_submitted_run_is_executed() -> None:
    agent = Agent(scripted(call(("look", {"place": "a"})), say("Done.")), [look], profile=BARE)
    async with MemoryEngine(seams=VirtualSeams()) as engine, supervised(engine=engine, agents={"one": agent}) as boss:
        status = await boss.submit(RunSpec(agent="one", task="Do it."))
        events = [event async for event in engine.watch(status.run)]
        assert [event.n for event in events] == list(range(1, len(events) + 1))
        status = await engine.get(status.run)
        assert status.outcome is not None
        assert status.outcome.answer == "Done."


async def test_a_started_run_is_journaled_too() -> None:
    agent = Agent(scripted(call(("look", {"place": "a"})), say("Done.")), [look], profile=BARE)
    async with MemoryEngine(seams=VirtualSeams()) as engine, supervised(engine=engine) as boss:
        run = await boss.start(agent, "Do it.")
        outcome = await run.wait()
        assert outcome.answer == "Done."
        assert (await engine.get(run.id)).n == run.log.n


async def test_an_agent_without_a_name_is_called_as_it_was_asked_for() -> None:
    def made(spec: RunSpec) -> Agent:
        return Agent(scripted(say("Done.")), [look], profile=BARE)

    named = Agent(scripted(say("Done.")), [look], name="clerk", profile=BARE)
    agents = {"one": made(RunSpec(agent="", task="")), "two": made, "three": named}
    async with MemoryEngine(seams=VirtualSeams()) as engine, supervised(engine=engine, agents=agents) as boss:
        called = []
        for name in agents:
            status = await boss.submit(
                RunSpec(agent=name, task="Do it.", code=code_of(named) if name == "three" else "")
            )
            events = [event async for event in engine.watch(status.run)]
            called += [event.agent for event in events if isinstance(event, RunStarted)]
    assert called == ["one", "two", "clerk"]


async def test_a_run_of_an_agent_that_had_no_name_is_still_its_own() -> None:
    agent = Agent(scripted(say("Done.")), [look], profile=BARE)
    spec = RunSpec(agent="one", task="Do it.", code=code_of(agent))
    async with MemoryEngine(seams=VirtualSeams()) as engine, supervised(engine=engine, agents={"one": agent}) as boss:
        status = await boss.submit(spec)
        with anyio.fail_after(100):
            async for _ in engine.watch(status.run):
                pass
        assert (await engine.get(status.run)).state == "ended"


async def test_of_many_that_are_cancelled_at_once_all_end_before_their_ends_are_told_of() -> None:
    """All is told nevertheless: each fact of each run, in order, and what became of each command."""

    @tool(effect="reads")
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    heard: list[Event] = []
    ended_when_first_heard: list[int] = []

    def observe(event: Event) -> None:
        heard.append(event)
        if isinstance(event, CancelRequested) and not ended_when_first_heard:
            ended_when_first_heard.append(sum(engine.tree(run).root.ended for run in ids))

    ids = [f"r{number:02}" for number in range(2 * MANY)]
    agent = Agent(ScriptedModel(lambda request, number: call(("wait", {}))), [wait], profile=BARE)
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        async with supervised(engine=engine, agents={"one": agent}, observers=[observe]) as boss:
            for run in ids:
                await boss.submit(RunSpec(agent="one", task="Do it."), run=run)
            while sum(isinstance(event, CallStarted) for event in heard) < len(ids):
                await anyio.sleep(0.01)
            async with anyio.create_task_group() as tasks:
                for run in ids:
                    tasks.start_soon(engine.send, run, Cancel(id=f"c-{run}", reason="enough"))
            with anyio.fail_after(1):
                for run in ids:
                    async for _ in engine.watch(run):
                        pass
            with anyio.fail_after(1):
                answers = [await engine.answered(run, f"c-{run}") for run in ids]
        for run in ids:
            assert [event.n for event in heard if event.run == run] == list(range(1, (await engine.get(run)).n + 1))
    assert all(answer.taken for answer in answers)
    assert ended_when_first_heard == [len(ids)]


class Appending(MemoryEngine):
    """Notes what becomes durable together; with ``hangs`` the append of an end takes long."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__(seams=VirtualSeams())
        self.appended: list[list[type[Event]]] = []
        self._hangs = hangs

    async def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        async for lease in super().leases(capacity, worker=worker):
            append = lease.append

            async def noted(events: Sequence[Event], charges: Any = None, append: Any = append) -> None:
                if self._hangs and isinstance(events[-1], RunEnded):
                    await anyio.sleep(10 * DURABLE)
                await append(events, charges)
                self.appended.append([type(event) for event in events])

            lease.append = noted  # type: ignore[method-assign]
            yield lease


@tool(effect="reads")
async def wait() -> str:
    """Wait."""
    await anyio.sleep_forever()
    return ""


async def test_what_a_cancelled_run_does_last_is_durable_together_with_its_end() -> None:
    agent = Agent(ScriptedModel(lambda request, number: call(("wait", {}))), [wait], profile=BARE)
    engine = Appending()
    async with engine, supervised(engine=engine) as boss:
        run = await boss.start(agent, "Do it.")
        while not any(CallStarted in together for together in engine.appended):
            await anyio.sleep(0.01)
        run.cancel()
        await run.wait()
        last = engine.appended[-1]
        assert last[0] is CancelRequested
        assert last[-1] is RunEnded


async def test_a_call_that_stops_slowly_keeps_nobody_from_reading_of_the_cancel() -> None:
    @tool(effect="reads")
    async def linger() -> str:
        """Take two seconds to stop."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2)
        return ""

    agent = Agent(ScriptedModel(lambda request, number: call(("linger", {}))), [linger], profile=BARE)
    engine = Appending()
    async with engine, supervised(engine=engine) as boss:
        run = await boss.start(agent, "Do it.")
        while not any(CallStarted in together for together in engine.appended):
            await anyio.sleep(0.01)
        run.cancel()
        await anyio.sleep(1)
        assert run.outcome is None
        assert engine.appended[-1] == [CancelRequested]


async def test_a_disk_that_does_not_answer_holds_an_end_up_for_so_long_and_no_longer() -> None:
    agent = Agent(scripted(say("Done.")), [look], profile=BARE)
    engine = Appending(hangs=True)
    async with engine, supervised(engine=engine) as boss:
        run = await boss.start(agent, "Do it.")
        began = anyio.current_time()
        outcome = await run.wait()
        assert outcome.answer == "Done."
        assert anyio.current_time() - began == pytest.approx(DURABLE, abs=1)
    assert anyio.current_time() - began < 2 * DURABLE  # so it is with the supervisor
