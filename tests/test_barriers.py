"""What waits until the watchdog, or another that must see all, has come so far: a turn, a call, an end."""

from __future__ import annotations

import anyio
import pytest

from support import BARE, facts, scripted, supervised
from watchkeeper import Agent, tool
from watchkeeper.log import KEEP
from watchkeeper.messages import CallStarted, Event, Mode, ModelStreamed, RunEnding, TurnStarted
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


class Starts:
    """When calls were started."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.folds = {CallStarted: self.see}

    def see(self, event: Event) -> None:
        self.at.append(anyio.current_time())


async def test_no_call_starts_while_somebody_who_must_see_all_lags_too_far() -> None:
    starts = Starts()
    async with supervised() as boss:
        agent = Agent(scripted(call(("look", {}), delay=5.0), say("Done.")), [look], profile=BARE)
        run = await boss.start(agent, "task")
        run.log.attach(starts)
        await anyio.sleep(1)
        slow = run.log.reader("slow", must=True)
        for _ in range(KEEP + 1):
            run.log.append(ModelStreamed, channel="content", text="x")
        await anyio.sleep(60)
        assert not starts.at
        await slow.take(KEEP)
        slow.done()
        assert (await run.wait()).calls[0].kind == "finished"


@pytest.mark.parametrize("mode", ["now", "kill"])
async def test_the_watchdog_sees_the_last_fact_of_a_cancelled_run(mode: Mode) -> None:
    @tool(effect="reads")
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return ""

    async with supervised() as boss:
        run = await boss.start(Agent(scripted(call(("wait", {}))), [wait]), "task")
        await anyio.sleep(1)
        run.cancel(mode=mode)
        await run.wait()
        ending = next(event for event in await facts(run) if isinstance(event, RunEnding))
        assert run.reader is not None
        assert run.reader.passed == ending.n
