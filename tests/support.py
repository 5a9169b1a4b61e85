"""What the tests of the actors share: a supervisor in virtual time, small tools, and the facts of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import msgspec

from watchkeeper import Agent, Event, Outcome, Run, Supervisor
from watchkeeper.profiles import PROFILES, Profile
from watchkeeper.testing import ScriptedModel, VirtualSeams

BARE: Profile = msgspec.structs.replace(
    PROFILES["default"],
    goal_rules=False,
    status_line=False,
    restate_goal=None,
    drift=None,
    thought_alert=None,
    thought_force=None,
)
"""The default profile without what is said of goal and thought: requests hold what the test says, and nothing else."""

E = TypeVar("E", bound=Event)


@asynccontextmanager
async def supervised(**settings: Any) -> AsyncIterator[Supervisor]:
    async with Supervisor(seams=VirtualSeams(), plugged=False, **settings) as supervisor:
        yield supervisor


async def perform(agent: Agent, task: str = "Do it.", **settings: Any) -> tuple[Outcome, list[Event]]:
    """Run an agent to its end; the outcome and all facts."""
    async with supervised(keep=100_000, **settings) as supervisor:
        run = await supervisor.start(agent, task)
        outcome = await run.wait()
        return outcome, await facts(run)


async def facts(run: Run) -> list[Event]:
    """All facts of a run that has ended."""
    return [event async for event in run.events() if isinstance(event, Event)]


def of(events: Iterable[Event], kind: type[E]) -> list[E]:
    return [event for event in events if type(event) is kind]


def scripted(*steps: Any, **settings: Any) -> ScriptedModel:
    return ScriptedModel(steps, **settings)


async def cancelled_error() -> BaseException:
    """An instance of the back end's cancelled class that comes from nobody's cancel."""
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        return asyncio.CancelledError()
    import trio

    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            return error
    raise AssertionError("the scope was cancelled")
