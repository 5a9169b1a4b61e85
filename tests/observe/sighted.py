"""Runs that the tests of observers look at: parallel calls, a sub-agent, failures, stops, cancels, an approval."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import anyio

from support import facts, scripted, supervised
from watchkeeper import Agent, Event, Price, Run, tool
from watchkeeper.observers import Observer
from watchkeeper.testing import backend, call, say
from watchkeeper.testing import fail as failing


@tool(effect="reads", cost=0.25)
async def look(at: str) -> str:
    """Look at something."""
    await anyio.sleep(1)
    return f"{at} is there"


@tool(effect="writes")
async def put(at: str) -> str:
    """Put something somewhere."""
    await anyio.sleep(2)
    return "done"


@tool(effect="reads")
async def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool(effect="reads", timeout=None)
async def hang() -> str:
    """Do not come back."""
    await anyio.sleep_forever()
    return ""


@tool(effect="writes", irreversible=True)
async def launch() -> str:
    """Something that cannot be undone."""
    return "launched"


def with_sub_agent() -> Agent:
    """Two calls side by side and a writer after them, a failure, and a sub-agent within a call."""
    sub = Agent(scripted(call(("look", {"at": "deep"})), say("It is deep.")), [look], name="sub")
    model = scripted(
        call(("look", {"at": "a"}), ("look", {"at": "b"}), ("put", {"at": "c"})),
        call(("fail", {"why": "bad luck"})),
        call(("ask_sub", {"task": "Dig."})),
        say("All is there."),
    )
    return Agent(model, [look, put, fail, sub.as_tool(name="ask_sub", description="Ask the other one.")], name="top")


def with_retries() -> Agent:
    return Agent(
        scripted(failing("rate_limited", "come again"), call(("launch", {})), say("Launched.")), [launch], name="retry"
    )


def in_a_loop() -> Agent:
    return Agent(scripted(*(call(("look", {"at": "same"})) for _ in range(12)), say("Nothing.")), [look], name="loop")


def hanging() -> Agent:
    return Agent(scripted(call(("hang", {}), ("look", {"at": "a"})), say("Never.")), [hang, look], name="hang")


def broken() -> Agent:
    return Agent(scripted(failing("bad_request", "the request is wrong")), name="broken")


async def see(agent: Agent, *observers: Observer, cancel_after: float | None = None, **settings: Any) -> list[Event]:
    """Run an agent to its end under the eyes of observers; the facts of it and its sub-agents."""
    prices = {"scripted": Price(input=1.0, output=2.0)}
    async with supervised(keep=100_000, prices=prices, observers=observers, **settings) as supervisor:
        run = await supervisor.start(agent, "Look at it all.")
        if cancel_after is not None:
            await anyio.sleep(cancel_after)
            run.cancel("enough of this")
        await run.wait()
        return await facts_of_tree(run)


async def facts_of_tree(run: Run) -> list[Event]:
    return [event for one in tree(run) for event in await facts(one)]


def tree(run: Run) -> Iterable[Run]:
    yield run
    for child in run.children:
        yield from tree(child)


async def permit(approval: Any) -> bool:
    return True


async def see_all(*observers: Observer) -> dict[str, list[Event]]:
    """Every kind of run once; their facts, by the name of the agent."""
    return {
        "top": await see(with_sub_agent(), *observers),
        "retry": await see(with_retries(), *observers, approver=permit),
        "loop": await see(in_a_loop(), *observers),
        "hang": await see(hanging(), *observers, cancel_after=5.0),
        "broken": await see(broken(), *observers),
    }


@cache
def recorded() -> dict[str, tuple[Event, ...]]:
    """The same, once and for all tests that only read facts."""
    name, options = backend("asyncio")
    found = anyio.run(see_all, backend=name, backend_options=options)
    return {agent: tuple(events) for agent, events in found.items()}
