"""Budgets that runs share through an engine: what is spent of them together, and what comes back, on both back ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import BARE, of, scripted
from watchkeeper import Agent, ConfigurationError, Event, Limits, Outcome, Price, Supervisor, current_call, tool
from watchkeeper.engine import Engine, EngineError, Lease, RunSpec, Slice, UnknownBudget
from watchkeeper.journal import MemoryEngine, SqliteEngine
from watchkeeper.journal.memorylease import MemoryLease
from watchkeeper.messages import (
    Held,
    ModelRequested,
    Overrun,
    Recovered,
    RunEnded,
    RunStarted,
    Settled,
    Usage,
)
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, VirtualSeams, call, forever, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LIMITS = Limits(reply_tokens=40)


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    await anyio.sleep(0.5)
    return f"saw {what}"


@tool(effect="reads", cost=0.25)
async def paid(what: str) -> str:
    """Look at something for money."""
    await anyio.sleep(0.5)
    return f"saw {what}"


@tool(effect="writes", irreversible=True)
async def send(text: str) -> str:
    """Send a letter."""
    return "sent"


def looking(request: Request, n: int) -> Step:
    return call(("look", {"what": f"page {n}"}), delay=0.2, usage=Usage(200, 20))


def agent(script: Any = looking, *tools: Any, limits: Limits = LIMITS, **more: Any) -> Agent:
    more.setdefault("profile", BARE)
    return Agent(ScriptedModel(script), tools or (look,), name="clerk", limits=limits, **more)


def spec(**more: Any) -> RunSpec:
    return RunSpec(agent="clerk", task="Look at everything.", budget="team", **more)


def supervisor(engine: Engine, made: Agent | Callable[[RunSpec], Agent], **more: Any) -> Supervisor:
    return Supervisor(engine=engine, agents={"clerk": made}, seams=VirtualSeams(), plugged=False, keep=100_000, **more)


async def outcomes(engine: Engine, runs: Sequence[str]) -> list[Outcome]:
    return [event.outcome for run in runs async for event in engine.watch(run) if isinstance(event, RunEnded)]


async def facts(engine: Engine, run: str) -> list[Event]:
    return [event async for event in engine.watch(run) if isinstance(event, Event)]


async def given_back(engine: Engine, budget: str, dimension: str, left: float) -> None:
    """Wait until so much is left, which is when the last lease has come back."""
    with anyio.fail_after(60):
        while (await engine.limits.left(budget))[dimension] != pytest.approx(left):
            await anyio.sleep(0.01)


def engine_of(kind: str, folder: Path) -> MemoryEngine | SqliteEngine:
    if kind == "memory":
        return MemoryEngine(seams=VirtualSeams())
    return SqliteEngine(folder, worker="w1", seams=VirtualSeams())


KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite"])


# -- together ----------------------------------------------------------------------------------------------------------


@KINDS
async def test_runs_spend_no_more_together_than_their_budget_holds(kind: str, tmp_path: Path) -> None:
    runs = [f"r{n}" for n in range(4)]
    async with engine_of(kind, tmp_path) as engine:
        await engine.limits.define("team", {"tokens": 8000.0})
        async with supervisor(engine, lambda spec: agent()):
            for run in runs:
                await engine.submit(spec(), run=run)
            ended = await outcomes(engine, runs)
            spent = sum(one.spent["tokens"] for one in ended)
            assert 5000 < spent <= 8000
            assert {(one.status, one.reason) for one in ended} == {("stopped", "tokens")}
            assert all(one.turns > 2 for one in ended)
            for run in runs:
                own = await facts(engine, run)
                assert not of(own, Overrun)
                assert of(own, RunStarted)[0].limits["tokens"] == 8000
            await given_back(engine, "team", "tokens", 8000 - spent)


async def test_turns_and_money_are_shared_too() -> None:
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", {"turns": 7.0, "money": 10.0})
        made = agent(forever(call(("paid", {"what": "it"}))), paid, limits=Limits(reply_tokens=40, finish_turns=0))
        price = Price(input=0.0, output=0.0)
        async with supervisor(engine, made, prices={"scripted": price}) as boss:
            runs = [await boss.start(made, budget="team", task=f"Look {n}.") for n in range(3)]
            ended = [await run.wait() for run in runs]
        assert sum(one.spent["turns"] for one in ended) == 7
        assert sum(one.spent["money"] for one in ended) == 1.75
        assert {one.reason for one in ended} == {"turns"}
        assert await engine.limits.left("team") == {"turns": 0, "money": 8.25}


async def test_a_run_that_gets_nothing_ends_before_it_asks_anything() -> None:
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", {"tokens": 10.0})
        async with supervisor(engine, agent()) as boss:
            run = await boss.start(agent(), "Look.", budget="team")
            outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("stopped", "tokens")
        assert not of(await facts(engine, run.id), ModelRequested)
        assert await engine.limits.left("team") == {"tokens": 10}


async def test_sub_agents_draw_from_the_budget_of_their_root() -> None:
    inner = Agent(scripted(call(("look", {"what": "a"})), say("done")), (look,), name="inner", limits=LIMITS)

    @tool(effect="reads")
    async def delegate() -> str:
        """Have somebody look."""
        here = current_call()
        run = await here.run.supervisor.start(inner, "Look.", parent=here.run)
        with pytest.raises(ConfigurationError, match="a sub-agent draws from what its parent does"):
            await here.run.supervisor.start(inner, "Look.", parent=here.run, budget="team")
        return str((await run.wait()).answer)

    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", {"tokens": 5000.0, "calls": 50.0})
        made = agent([call(("delegate", {})), say("all done")], delegate)
        async with supervisor(engine, made) as boss:
            outcome = await (await boss.start(made, "Look.", budget="team")).wait()
        assert outcome.answer == "all done"
        assert outcome.spent["calls"] == 2
        left = await engine.limits.left("team")
        assert left == {"tokens": 5000 - outcome.spent["tokens"], "calls": 48}


@pytest.mark.breaks_invariants("a run's facts say how much there was when it began, and here that grows")
async def test_more_in_the_budget_is_there_for_runs_that_go_on() -> None:
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", {"calls": 1.0})
        steps = [call(("look", {"what": str(n)})) for n in range(3)]
        made = agent([*steps, say("done")])

        async def grow() -> None:
            while (await engine.limits.left("team"))["calls"]:
                await anyio.sleep(0.1)
            await engine.limits.define("team", {"calls": 10.0})

        async with supervisor(engine, made) as boss, anyio.create_task_group() as tasks:
            tasks.start_soon(grow)
            outcome = await (await boss.start(made, "Look.", budget="team")).wait()
        assert (outcome.answer, outcome.forced, outcome.spent["calls"]) == ("done", False, 3)
        assert await engine.limits.left("team") == {"calls": 7}


async def test_a_call_that_was_not_approved_gives_its_place_back() -> None:
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", {"calls": 5.0})
        made = agent([call(("send", {"text": "hello"})), say("done")], send)
        async with supervisor(engine, made, approver=lambda approval: False) as boss:
            outcome = await (await boss.start(made, "Send it.", budget="team")).wait()
        assert [record.kind for record in outcome.calls] == ["denied"]
        assert await engine.limits.left("team") == {"calls": 5}


async def test_a_reply_above_its_hold_is_made_up_for_or_is_an_overrun() -> None:
    big = Usage(input_tokens=900, output_tokens=100)
    for limit, status, left in ((3000.0, "completed", 1990), (700.0, "stopped", -300)):
        async with MemoryEngine(seams=VirtualSeams()) as engine:
            await engine.limits.define("team", {"tokens": limit})
            steps = [call(("look", {"what": "it"}), usage=big), say("done", usage=Usage(5, 5))]
            made = agent(steps)
            async with supervisor(engine, made) as boss:
                run = await boss.start(made, "Look.", budget="team")
                outcome = await run.wait()
            over = of(await facts(engine, run.id), Overrun)
            assert outcome.status == status
            assert [(one.dimension, one.over) for one in over] == ([] if status == "completed" else [("tokens", 300)])
            assert await engine.limits.left("team") == {"tokens": left}


# -- where it is said --------------------------------------------------------------------------------------------------


@KINDS
async def test_a_budget_that_nobody_has_defined_is_refused_where_the_run_is_submitted(
    kind: str, tmp_path: Path
) -> None:
    async with engine_of(kind, tmp_path) as engine, supervisor(engine, agent()) as boss:
        with pytest.raises(UnknownBudget, match=r"no shared budget 'team'.*\[budgets"):
            await boss.submit(spec())
        with pytest.raises(UnknownBudget, match="no shared budget 'team'"):
            await boss.start(agent(), "Look.", budget="team")
        assert not boss.runs
    async with Supervisor(seams=VirtualSeams(), plugged=False) as boss:
        with pytest.raises(ConfigurationError, match="shared through an engine"):
            await boss.start(agent(), "Look.", budget="team")


# -- what comes back ---------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Event], dict[str, float]]]:
    found: list[tuple[list[Event], dict[str, float]]] = []
    append = MemoryLease.append

    async def keeping(lease: MemoryLease, events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
        await append(lease, events, charges)
        found.append((list(events), dict(charges or {})))

    monkeypatch.setattr(MemoryLease, "append", keeping)
    return found


def mixed() -> Agent:
    steps = [
        call(("look", {"what": "a"}), ("paid", {"what": "b"}), delay=0.3),
        call(("paid", {"what": "c"})),
        say("done"),
    ]
    return agent(lambda request, n: steps[sum(one.role == "assistant" for one in request.messages)], look, paid)


async def test_a_run_that_is_cut_off_anywhere_has_taken_what_its_facts_say(
    kept: list[tuple[list[Event], dict[str, float]]],
) -> None:
    holds = {"tokens": 5000.0, "money": 10.0, "calls": 50.0, "turns": 30.0}
    prices = {"scripted": Price(input=100.0, output=100.0)}
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", holds)
        await engine.submit(spec(), run="r1")
        async with supervisor(engine, mixed(), prices=prices):
            assert (await outcomes(engine, ["r1"]))[0].answer == "done"
    batches = list(kept)
    assert len(batches) > 8
    for cut in range(len(batches)):
        engine = MemoryEngine(seams=VirtualSeams())
        async with engine:
            await engine.limits.define("team", holds)
            await engine.submit(spec(), run="r1")
            lease: Lease = await anext(aiter(engine.leases(lambda: 1)))
            slice = await lease.grant("team", holds)
            assert slice.left == dict.fromkeys(holds, 0)
            for events, charges in batches[:cut]:
                await lease.append(events, charges)
        async with engine, supervisor(engine, mixed(), prices=prices):
            outcome = (await outcomes(engine, ["r1"]))[0]
            own = await facts(engine, "r1")
            assert outcome.answer == "done"
            assert len(of(own, Recovered)) == (1 if cut else 0)
            left = await _left(engine, holds, outcome)
            assert left == pytest.approx({name: holds[name] - outcome.spent.get(name, 0) for name in holds}), cut


async def _left(engine: Engine, holds: Mapping[str, float], outcome: Outcome) -> dict[str, float]:
    await given_back(engine, "team", "tokens", holds["tokens"] - outcome.spent["tokens"])
    return await engine.limits.left("team")


async def test_what_a_dead_attempt_held_is_nobody_elses_until_it_is_settled() -> None:
    engine = MemoryEngine(seams=VirtualSeams())
    async with engine:
        await engine.limits.define("team", {"tokens": 1000.0})
        made = agent([Step(stall=True)])
        async with supervisor(engine, made, drain=0.0) as boss:
            run = await boss.start(made, "Look.", budget="team")
            async for event in engine.watch(run.id):
                if isinstance(event, ModelRequested):
                    break
            held = of(await _so_far(engine, run.id), Held)[0].amounts["tokens"]
        # suspended: its request is charged at its hold
        assert await engine.limits.left("team") == {"tokens": 1000 - held}
        async with supervisor(engine, agent([say("done", usage=Usage(5, 5))])):
            outcome = (await outcomes(engine, [run.id]))[0]
            assert outcome.answer == "done"
            assert outcome.spent["tokens"] == held + 10
            assert [one.estimated for one in of(await facts(engine, run.id), Settled)] == [True, False]
            await given_back(engine, "team", "tokens", 1000 - held - 10)


async def _so_far(engine: Engine, run: str) -> list[Event]:
    found: list[Event] = []
    last = (await engine.get(run)).n
    async for event in engine.watch(run):
        assert isinstance(event, Event)
        found.append(event)
        if event.n >= last:
            break
    return found


async def test_where_the_engine_cannot_be_asked_a_run_waits_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    grant, failed = MemoryLease.grant, []

    async def failing(lease: MemoryLease, budget: str, amounts: Mapping[str, float]) -> Slice:
        if amounts and len(failed) < 3:
            failed.append(amounts)
            raise EngineError("the disk is full")
        return await grant(lease, budget, amounts)

    monkeypatch.setattr(MemoryLease, "grant", failing)
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", {"tokens": 1000.0})
        made = agent([call(("look", {"what": "it"})), say("done")])
        async with supervisor(engine, made) as boss:
            outcome = await (await boss.start(made, "Look.", budget="team")).wait()
        assert outcome.answer == "done"
        assert len(failed) == 3


async def test_a_cancel_ends_a_run_that_waits_for_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, grant = anyio.Event(), MemoryLease.grant

    async def hanging(lease: MemoryLease, budget: str, amounts: Mapping[str, float]) -> Slice:
        if "calls" in amounts:
            asked.set()
            await anyio.sleep_forever()
        return await grant(lease, budget, amounts)

    monkeypatch.setattr(MemoryLease, "grant", hanging)
    async with MemoryEngine(seams=VirtualSeams()) as engine:
        await engine.limits.define("team", {"calls": 10.0, "tokens": 1000.0})
        made = agent()
        async with supervisor(engine, made) as boss:
            run = await boss.start(made, "Look.", budget="team")
            await asked.wait()
            run.cancel("enough")
            outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("cancelled", "enough")
        assert [record.kind for record in outcome.calls] == ["not_run"]
        assert outcome.cancel_seconds is not None
        assert outcome.cancel_seconds < 1
