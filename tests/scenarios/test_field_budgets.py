"""Limits: of a run, of a tree of runs, of several that share one; and runs that start runs."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from stage import ended, play, stage, varying

from support import scripted
from watchkeeper import Agent, Budget, Limits, ModelError, Run, current_call, tool
from watchkeeper.budget import Hold, Short
from watchkeeper.messages import ChildEnded, ChildStarted, ModelReplied, RunStarted, Usage
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def looping() -> ScriptedModel:
    return varying(lambda n: [("look", {"what": str(n)})])


async def test_budg_01_five_ask_for_what_is_left_for_one() -> None:
    root = Budget(money=10.0)
    assert root.take({"money": 9.9}) is None
    holds: list[Hold | Short] = []

    async def ask() -> None:
        child = root.child(money=None)
        await anyio.lowlevel.checkpoint()
        holds.append(child.hold({"money": 0.08}))
        assert root.spent["money"] + root.held.get("money", 0) <= 10.0
        await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert sorted(type(hold).__name__ for hold in holds) == ["Hold"] + ["Short"] * 4
    assert root.left("money") == pytest.approx(0.02)


async def test_budg_01_runs_that_share_a_budget_stay_below_it_together() -> None:
    shared = Budget(tokens=10_000)
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), delay=1.0))
    most = 0.0
    async with stage() as supervisor:
        agent = Agent(model, [look], limits=Limits(reply_tokens=500, max_turns=1000))
        runs = [await supervisor.start(agent, "task", budget=shared) for _ in range(5)]
        while any(run.outcome is None for run in runs):
            used = shared.spent.get("tokens", 0) + shared.held.get("tokens", 0)
            assert used <= 10_000
            most = max(most, used)
            await anyio.sleep(0.5)
        ends = {(await ended(run)).end for run in runs}
    assert ends == {("stopped", "tokens")}
    assert most > 5_000
    assert shared.held == {}


@pytest.mark.parametrize("way", ["cancel", "exception", "retry"])
async def test_budg_02_what_was_held_is_settled_whatever_way_the_request_ends(way: str) -> None:
    steps: dict[str, list[Step]] = {
        "cancel": [say("x", stall=True)],
        "exception": [Step(error=ModelError("auth", "no"))],
        "retry": [Step(error=ModelError("connection", "reset")), say("done")],
    }
    async with stage() as supervisor:
        run = await supervisor.start(Agent(scripted(*steps[way])), "task")
        await anyio.sleep(0.1)
        if way == "cancel":
            assert run.budget.held["tokens"] > 0
            run.cancel()
        await run.wait()
        ran = await ended(run)
    assert run.budget.held == supervisor.budget.held == {}
    assert ran.outcome.spent["tokens"] > 0
    hold = Budget(tokens=10).hold({"tokens": 5})
    assert isinstance(hold, Hold)
    hold.budget.settle(hold, {"tokens": 5})
    with pytest.raises(ValueError, match="settled already"):
        hold.budget.settle(hold, {"tokens": 5})


async def test_budg_05_no_limit_of_ones_own_means_the_one_above() -> None:
    unlimited = Limits(tokens=None, max_calls=None, seconds=None)
    child = Agent(scripted(call(("look", {"what": "a"})), say("seen")), [look], name="child", limits=unlimited)
    parent = Agent(
        scripted(call(("child", {"task": "?"})), say("done")),
        [child.as_tool()],
        limits=Limits(tokens=50_000, max_calls=7, seconds=100),
    )
    async with stage() as supervisor:
        run = await supervisor.start(parent, "task")
        await run.wait()
        below = await ended(run.children[0])
    (started,) = below.of(RunStarted)
    assert (started.limits["tokens"], started.limits["calls"]) == (50_000, 7)
    limited = {name: limit for name, limit in run.limits().items() if limit is not None}
    assert limited == {"turns": 20, "calls": 7, "tokens": 50_000, "seconds": 100}
    alone = await play(
        Agent(looping(), [look], limits=Limits(tokens=None, max_turns=10**6)), budget=Budget(tokens=9_000)
    )
    assert alone.end == ("stopped", "tokens")


def spawning(spawns: int) -> Agent:
    """An agent that answers every task by giving so many tasks to one of its kind, by another name: the very same one
    would be refused as its own grandchild."""
    agents: list[Agent]

    @tool(effect="nothing", timeout=None)
    async def spawn(task: str) -> str:
        answer = await agents[current_call().run.depth + 1].as_tool().function(task=task)
        return str(answer.content)

    def script(request: Request, n: int) -> Step:
        if any(message.role == "tool" for message in request.messages):
            return say("that is all")
        return call(*[("spawn", {"task": f"{n} {k}"}) for k in range(spawns)])

    agents = [Agent(ScriptedModel(script), [spawn], name=f"spawner_{level}") for level in range(4)]
    return agents[0]


async def test_suba_01_five_spawns_for_every_task() -> None:
    async with stage() as supervisor:
        run = await supervisor.start(spawning(5), "task")
        outcome = await run.wait()
        assert list(supervisor.runs) == []
    assert outcome.status == "completed"
    assert run.descendants == 10
    told = [message.content for message in outcome.history if message.role == "tool"]
    assert len(told) == 5
    # The root's five have the five that are left for theirs; the 11th is refused, and so is the third level.
    histories = [child.outcome.history for child in run.children if child.outcome is not None]
    below = [message.content for history in histories for message in history if message.role == "tool"]
    assert sum("started 10 sub-agents already" in text for text in below) == 20
    assert sum(text == "that is all" for text in below) == 5


async def test_suba_01_nothing_survives_the_root() -> None:
    hanging: list[str] = []

    @tool(effect="nothing")
    async def hang() -> str:
        try:
            hanging.append("in")
            await anyio.sleep_forever()
        finally:
            hanging.append("out")
        return ""

    leaf = Agent(ScriptedModel(lambda request, n: call(("hang", {}))), [hang], name="leaf")
    middle = Agent(
        ScriptedModel(lambda r, n: call(*[("leaf", {"task": str(k)}) for k in range(4)])),
        [leaf.as_tool()],
        name="middle",
    )
    root = Agent(
        ScriptedModel(lambda r, n: call(*[("middle", {"task": str(k)}) for k in range(2)])), [middle.as_tool()]
    )
    async with stage() as supervisor:
        run = await supervisor.start(root, "task")
        while hanging.count("in") < 8:
            await anyio.sleep(0.1)
        run.cancel("enough")
        outcome = await run.wait()
        assert list(supervisor.runs) == []
        await ended(run)
    assert hanging.count("out") == 8
    assert (outcome.status, outcome.cancel_seconds) == ("cancelled", 0)
    family = [*run.children, *(child for one in run.children for child in one.children)]
    assert len(family) == 10
    assert {one.outcome.status for one in family if one.outcome} == {"cancelled"}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(max_turns=6, finish_turns=0), "turns"),
        (Limits(tokens=20_000, reply_tokens=1000, max_turns=1000), "tokens"),
        (Limits(max_calls=12, max_turns=1000), "calls"),
        (Limits(seconds=20, max_turns=1000), "time"),
    ],
    ids=["turns", "tokens", "calls", "time"],
)
async def test_suba_02_loop_08_the_tree_stays_within_the_limits_of_its_root(limits: Limits, reason: str) -> None:
    """Two agents that answer each other with questions, under limits of their own that are far away."""
    cost = Usage(400, 20)
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), delay=1.0, usage=cost))
    far = Limits(max_turns=10**6, tokens=None, max_calls=None, seconds=None)
    other = Agent(model, [look], name="other", limits=far)
    asking = ScriptedModel(lambda request, n: call(*[("other", {"task": f"{n} {k}?"}) for k in range(3)]))
    async with stage() as supervisor:
        run = await supervisor.start(Agent(asking, [other.as_tool()], name="root", limits=limits), "task")
        outcome = await run.wait()
        assert list(supervisor.runs) == []
        tree = [await ended(one) for one in (run, *run.children)]
    assert (outcome.status, outcome.reason) == ("stopped", reason)
    assert all(below.outcome.status in ("stopped", "cancelled") for below in tree[1:])
    replies = sum(len(below.of(ModelReplied)) for below in tree)
    assert replies == asking.asked + model.asked or reason == "time"
    assert outcome.spent["turns"] <= limits.max_turns
    assert outcome.spent["tokens"] <= (limits.tokens or 0)
    assert outcome.spent["calls"] <= (limits.max_calls or 0)
    assert outcome.seconds <= (limits.seconds or 0)
    assert outcome.spent["calls"] == sum(below.executed for below in tree)
    assert len(run.children) <= 10


async def test_suba_04_one_child_after_the_other_for_ever() -> None:
    child = Agent(ScriptedModel(lambda request, n: say(f"answer {n}")), name="child")
    model = varying(lambda n: [("child", {"task": str(n)})])
    async with stage() as supervisor:
        run = await supervisor.start(Agent(model, [child.as_tool()], limits=Limits(max_turns=25)), "task")
        await run.wait()
        ran = await ended(run)
    assert len(ran.of(ChildStarted)) == len(ran.of(ChildEnded)) == 10
    assert ran.seen[:10] == [f"answer {n}" for n in range(1, 11)]
    assert all("started 10 sub-agents already" in text for text in ran.seen[10:15])
    assert ran.end[0] == "stopped"


async def test_suba_04_a_child_that_was_started_in_vain_counts_too() -> None:
    """The cap is on those that were ever started, not on those that are alive."""
    runs: list[Run] = []
    async with stage() as supervisor:
        root = await supervisor.start(Agent(scripted(say("x", stall=True))), "task")
        for _ in range(10):
            runs.append(await supervisor.start(Agent(scripted(say("ok"))), "task", parent=root))
            assert (await runs[-1].wait()).status == "completed"
        refused: Any = None
        try:
            await supervisor.start(Agent(scripted(say("ok"))), "task", parent=root)
        except Exception as error:
            refused = error
        assert type(refused).__name__ == "SpawnRefused"
        root.cancel()
