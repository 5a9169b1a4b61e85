"""Runs of an engine: submitted, executed, journaled."""

from __future__ import annotations

import pytest

from support import BARE, scripted, supervised
from watchkeeper import Agent, tool
from watchkeeper.engine import RunSpec
from watchkeeper.journal import MemoryEngine
from watchkeeper.testing import VirtualSeams, call, say

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
