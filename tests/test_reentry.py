"""Tools and agents that reach themselves again are refused at depth 3; scopes hold for sub-agents too."""

from __future__ import annotations

from typing import Any

import pytest

from support import facts, of, supervised
from watchkeeper import Agent, Profile, Tool, current_call, reads, tool, writes
from watchkeeper.guards.scope import Scope
from watchkeeper.messages import CallEnded, WouldRefuse
from watchkeeper.testing import ScriptedModel, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def calling(*steps: Any) -> ScriptedModel:
    """A model that makes these steps in each run anew."""
    return ScriptedModel(lambda request, n: steps[sum(message.role == "assistant" for message in request.messages)])


async def tree(agent: Agent) -> list[list[tuple[str, str, str | None]]]:
    """What became of the calls of a run and its sub-agents, a list for each level."""
    levels: list[list[tuple[str, str, str | None]]] = []
    async with supervised() as supervisor:
        run = await supervisor.start(agent, "Do it.")
        outcome = await run.wait()
        assert outcome.status == "completed"
        runs = [run]
        while runs:
            ends = [event.result for one in runs for event in of(await facts(one), CallEnded)]
            levels.append([(end.tool, end.kind, end.error) for end in ends])
            runs = [child for one in runs for child in one.children]
    return levels


async def test_an_agent_within_itself_is_refused_the_third_time() -> None:
    def agent() -> Agent:
        """Made anew each time: it is the same one all the same."""

        @tool
        async def again(task: str) -> str:
            here = current_call()
            sub = await here.run.supervisor.start(agent(), task, parent=here.run)
            return (await sub.wait()).answer or ""

        return Agent(calling(call(("again", {"task": "x"})), say("Done.")), [again], name="worker")

    levels = await tree(agent())
    assert levels == [[("again", "finished", None)], [("again", "failed", "SpawnRefused")]]


async def test_a_tool_within_itself_is_refused_the_third_time_whichever_agents_are_between() -> None:
    made: list[Agent]
    reached: list[int] = []

    @tool
    async def delegate(task: str) -> str:
        here = current_call()
        reached.append(here.run.depth)
        sub = await here.run.supervisor.start(made[here.run.depth + 1], task, parent=here.run)
        return (await sub.wait()).answer or ""

    steps = call(("delegate", {"task": "x"})), say("Done.")
    made = [Agent(calling(*steps), [delegate], name=name) for name in ("first", "second", "third")]
    levels = await tree(made[0])
    assert levels == [
        [("delegate", "finished", None)],
        [("delegate", "finished", None)],
        [("delegate", "refused", "reached_itself")],
    ]
    assert reached == [0, 1]


async def test_where_it_only_observes_it_goes_on() -> None:
    made: list[Agent]

    @tool
    async def delegate(task: str) -> str:
        here = current_call()
        if here.run.depth == 2:
            return "deep"
        sub = await here.run.supervisor.start(made[here.run.depth + 1], task, parent=here.run)
        return (await sub.wait()).answer or ""

    steps = call(("delegate", {"task": "x"})), say("Done.")
    observing = Profile(observe=("reentry",))
    made = [Agent(calling(*steps), [delegate], name=name) for name in ("first", "second")]
    made.append(Agent(calling(*steps), [delegate], name="third", profile=observing))
    async with supervised() as supervisor:
        run = await supervisor.start(made[0], "Do it.")
        await run.wait()
        third = run.children[0].children[0]
        (fact,) = of(await facts(third), WouldRefuse)
        assert (fact.by, fact.would, fact.error) == ("reentry", "refuse", "reached_itself")
        assert [event.result.kind for event in of(await facts(third), CallEnded)] == ["finished"]


async def test_another_tool_of_the_same_name_is_another_one() -> None:
    def delegate(agent: Agent) -> Tool:
        return agent.as_tool(name="delegate")

    @tool(name="delegate")
    async def plain(task: str) -> str:
        return "the work itself"

    steps = call(("delegate", {"task": "x"})), say("Done.")
    third = Agent(calling(*steps), [plain], name="third")
    second = Agent(calling(*steps), [delegate(third)], name="second", instructions="b")
    first = Agent(calling(*steps), [delegate(second)], name="first", instructions="a")
    assert await tree(first) == [[("delegate", "finished", None)]] * 3


async def test_a_scope_holds_for_those_below() -> None:
    @tool(effect=lambda name: reads(name))
    async def look(name: str) -> str:
        return name

    calls = call(("look", {"name": "docs/a"}), ("look", {"name": "secrets/a"}), ("look", {"name": "docs/private/a"}))
    below = Agent(
        calling(calls, say("Done.")), [look], name="below", profile=Profile(scope=Scope(reads=("docs/private",)))
    )
    above = Agent(
        calling(call(("below", {"task": "x"})), say("Done.")),
        [below.as_tool()],
        profile=Profile(scope=Scope(reads=("docs",), writes=())),
    )
    levels = await tree(above)
    assert levels[0] == [("below", "finished", None)]
    assert sorted(levels[1]) == [
        ("look", "denied", "out_of_scope"),
        ("look", "denied", "out_of_scope"),
        ("look", "finished", None),
    ]


async def test_a_profile_that_runs_writers_alone_does_not_widen_what_they_write() -> None:
    @tool(effect=lambda name: writes(name))
    async def save(name: str) -> str:
        return name

    profile = Profile(writers_alone=True, scope=Scope(writes=("notes",)))
    agent = Agent(
        calling(call(("save", {"name": "notes/a"}), ("save", {"name": "src/a"})), say("Done.")), [save], profile=profile
    )
    (ends,) = await tree(agent)
    assert sorted(ends) == [("save", "denied", "out_of_scope"), ("save", "finished", None)]
