"""What waits until the watchdog has come so far: a turn."""

from __future__ import annotations

import pytest

from support import scripted, supervised
from watchkeeper import Agent, tool
from watchkeeper.messages import Event, TurnStarted
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


class Behind:
    """By how many facts the watchdog is behind when each turn begins."""

    def __init__(self) -> None:
        self.by: list[int] = []
        self.folds = {TurnStarted: self.see}

    def see(self, event: Event) -> None:
        assert self.run.reader is not None
        self.by.append(event.n - 1 - self.run.reader.passed)


async def test_a_turn_begins_when_all_facts_before_it_are_judged() -> None:
    behind = Behind()
    async with supervised() as boss:
        run = behind.run = await boss.start(
            Agent(scripted(*[call(("look", {"n": n})) for n in range(3)], say("Done.")), [look]), "task"
        )
        run.log.attach(behind)
        await run.wait()
    assert behind.by == [0, 0, 0, 0]
