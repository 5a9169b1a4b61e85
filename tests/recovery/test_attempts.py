"""A supervisor as the worker of an engine: leases, commands, and the ways in which an attempt comes to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from sys import getrefcount
from typing import Any

import anyio
import pytest
from cuts import RUN, World, check, first, handle, perform, recovered, seed, uncut
from test_cuts import ASKING, WORK, hands, root, script

from support import BARE, of
from watchkeeper import Agent, ConfigurationError, Event, Limits, Run, Supervisor, tool, writes
from watchkeeper.engine import (
    AddBudget,
    Answered,
    AnyCommand,
    Approve,
    Cancel,
    Deny,
    Engine,
    EngineError,
    Fenced,
    HandOver,
    Lease,
    Pause,
    Query,
    Resume,
    RunSpec,
    RunStatus,
    Steer,
)
from watchkeeper.journal import MemoryEngine, SqliteEngine
from watchkeeper.journal.memorylease import MemoryLease
from watchkeeper.messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallProposed,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildEnded,
    Finding,
    LimitsRaised,
    ModelReplied,
    ModelRequested,
    Paused,
    Recovered,
    Resumed,
    RunEnded,
    RunEnding,
    RunStarted,
    Suspended,
    TurnStarted,
    UserMessage,
    Verdict,
    decode_event,
    encode_event,
)
from watchkeeper.testing import VirtualSeams, call, say
from watchkeeper.wording import Wording

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@asynccontextmanager
async def working(engine: Engine, agent: Agent, *, seeded: int = 1, **settings: Any) -> AsyncIterator[Supervisor]:
    seams = VirtualSeams(seed=seeded)
    settings = {"agents": {agent.name: agent}, "plugged": False, "keep": 100_000, **settings}
    async with engine, Supervisor(engine=engine, seams=seams, **settings) as boss:
        yield boss


def memory() -> MemoryEngine:
    return MemoryEngine(seams=VirtualSeams())


class Slow:
    """An agent with one call that takes as long as it is told to."""

    def __init__(self, **settings: Any) -> None:
        self.began = 0
        self.ended = 0
        self.going = anyio.Event()

        @tool(effect=writes("desk"), idempotent=True, timeout=None)
        async def work(what: str) -> str:
            """Work."""
            self.began += 1
            await self.going.wait()
            self.ended += 1
            return "worked"

        self.world = World()
        steps = script(call(("work", {"what": "a"})), say("Done."))
        self.agent = Agent(self.world.model(steps), [work], **{"profile": BARE, **settings})

    async def begun(self, times: int = 1) -> None:
        while self.began < times:
            await anyio.sleep(0.01)


async def kept(engine: MemoryEngine, run: str = RUN) -> list[Event]:
    return [event async for event in engine.watch(run) if isinstance(event, Event)]


async def until(engine: MemoryEngine, kind: type[Event], run: str = RUN) -> Event:
    async for event in engine.watch(run):
        if isinstance(event, kind):
            return event
    raise AssertionError(f"the run ended without {kind.__name__}")


# -- commands ----------------------------------------------------------------------------------------------------------


async def test_commands_are_obeyed_and_answered() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await slow.begun()
        pause = await engine.send(RUN, Pause(reason="think", seconds=50))
        assert (await engine.answered(RUN, pause)).taken
        assert run.is_paused
        raised = await engine.send(RUN, AddBudget(amounts={"turns": 5, "seconds": 100}, by="me"))
        assert (await engine.answered(RUN, raised)).taken
        bad = await engine.send(RUN, AddBudget(amounts={"money": 1}))
        assert "no limit of money" in (await engine.answered(RUN, bad)).why
        said = await engine.send(RUN, Steer(text="Be quick."))
        resume = await engine.send(RUN, Resume())
        assert (await engine.answered(RUN, resume)).taken
        nothing = await engine.send(RUN, Approve(approval="a9", arguments_hash="x"))
        assert "no call of run r1 waits" in (await engine.answered(RUN, nothing)).why
        slow.going.set()
        assert await engine.answered(RUN, said) == Answered(id=said, taken=True)
        await run.wait()
        facts = await kept(engine)
        assert [event.text for event in of(facts, UserMessage)] == ["Do it.", "Be quick."]
        assert of(facts, LimitsRaised)[0].amounts == {"turns": 5, "seconds": 100}
        assert run.limits()["turns"] == 25
        assert run.limits()["seconds"] == 1900


async def test_a_cancel_reaches_a_run_and_its_answer_says_so() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        sent = await engine.send(RUN, Cancel(reason="enough"))
        assert (await engine.answered(RUN, sent)).taken
        facts = await kept(engine)
        outcome = of(facts, RunEnded)[0].outcome
        assert (outcome.status, outcome.reason) == ("cancelled", "enough")
        assert [event.result.kind for event in of(facts, CallEnded)] == ["cancelled"]


class Failing(MemoryEngine):
    """One of which commands cannot be read, nor answers be written, for a while."""

    def __init__(self, reads: int = 0, settles: int = 0) -> None:
        super().__init__(seams=VirtualSeams())
        self.reads = reads
        self.settles = settles

    async def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        async for lease in super().leases(capacity, worker=worker):
            commands, settle = lease.commands, lease.settle

            async def read(commands: Callable[[], AsyncIterator[AnyCommand]] = commands) -> AsyncIterator[AnyCommand]:
                async for command in commands():
                    yield command
                    if self.reads > 0:
                        self.reads -= 1
                        raise EngineError("a read error")

            async def settled(
                command: AnyCommand, answer: Answered, settle: Callable[..., Awaitable[None]] = settle
            ) -> None:
                if self.settles > 0:
                    self.settles -= 1
                    raise EngineError("the disk is full")
                await settle(command, answer)

            lease.commands, lease.settle = read, settled  # type: ignore[method-assign]
            yield lease


@pytest.mark.parametrize("trouble", [{"reads": 3}, {"settles": 3}, {"settles": 2, "reads": 3}])
async def test_trouble_with_commands_makes_no_run_deaf(trouble: dict[str, int]) -> None:
    slow, engine = Slow(), Failing(**trouble)
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        raised = await engine.send(RUN, AddBudget(amounts={"turns": 5}))
        said = await engine.send(RUN, Steer(text="Be quick."))
        with anyio.fail_after(20):
            assert (await engine.answered(RUN, raised)).taken
        await anyio.sleep(5)
        slow.going.set()
        with anyio.fail_after(20):
            assert (await engine.answered(RUN, said)).taken
        facts = await kept(engine)
        assert len(of(facts, LimitsRaised)) == 1
        assert [event.text for event in of(facts, UserMessage)] == ["Do it.", "Be quick."]


async def test_what_nobody_reads_any_more_is_refused() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        said = await engine.send(RUN, Steer(text="Be quick."))
        over = await engine.send(RUN, HandOver(mode="now"))
        assert (await engine.answered(RUN, over)).taken
        answer = await engine.answered(RUN, said)
        assert not answer.taken
        assert of(await kept(engine), RunEnded)[0].outcome.status == "handed_over"


async def test_a_run_that_is_raised_goes_on_beyond_its_turns() -> None:
    engine = memory()
    looks = [call(("look", {"place": f"p{n}"})) for n in range(3)]
    agent = Agent(World().model(script(*looks, say("Done."))), hands(World()), profile=BARE, limits=Limits(max_turns=2))
    raised = False

    async def person(run: Run) -> None:
        nonlocal raised
        while True:
            if run.log.turn == 3 and not raised:
                raised = True
                run.add_budget({"turns": 2})
            await run.changed()

    async with engine:
        await engine.submit(RunSpec(agent="agent", task="Do it."), run=RUN)

    @tool(effect="reads")
    async def look(place: str) -> str:
        """Look."""
        from watchkeeper import current_call

        if place == "p1":
            current_call().run.add_budget({"turns": 2})
        return f"seen {place}"

    agent = Agent(agent.model, [look], profile=BARE, limits=Limits(max_turns=2))
    outcome = await perform(engine, agent, person)
    assert (outcome.status, outcome.forced, outcome.turns) == ("completed", False, 4)


# -- approvals ---------------------------------------------------------------------------------------------------------


async def waiting() -> tuple[list[Event], RunSpec]:
    """The facts of a run whose only calls wait for a yes."""
    facts: list[Event] = []

    async def watch(run: Run) -> None:
        async for event in run.events():
            facts.append(event)  # type: ignore[arg-type]  # no gap: it keeps up
            if len(of(facts, ApprovalRequested)) == 2 and len(of(facts, CallEnded)) == 1:
                run.cancel()
                return

    _, _, spec = await uncut(ASKING, watch)
    return facts, spec


async def test_an_approval_survives_a_restart_under_its_old_id() -> None:  # APPR-01
    facts, spec = await waiting()
    asked = of(facts, ApprovalRequested)[0]
    world = World()
    engine = await seed(facts, spec)
    async with working(engine, ASKING(world), seeded=2) as boss:
        run = await handle(boss)
        while not run.approvals:
            await run.changed()
        approval = run.approvals[0]
        assert (approval.id, approval.arguments_hash) == (asked.approval, asked.arguments_hash)
        assert (await engine.get(RUN)).approvals == 2
        sent = await engine.send(RUN, Approve(approval=asked.approval, arguments_hash=asked.arguments_hash, by="me"))
        assert (await engine.answered(RUN, sent)).taken
        other = of(facts, ApprovalRequested)[1]
        await engine.send(RUN, Deny(approval=other.approval, reason="not that one"))
        while not run.approvals or run.approvals[0].id == other.approval:
            await run.changed()
        last = run.approvals[0]
        run.approve(last.id, last.arguments_hash)
        outcome = await run.wait()
        after = await kept(engine)
        check(after, outcome, world)
        assert world.done.count(("close", "a")) == 1
        assert ("close", "b") not in world.done
        assert [event.approval for event in of(after, ApprovalRequested)][:2] == [asked.approval, other.approval]


async def test_a_disconnect_is_neither_yes_nor_no_and_the_deadline_stands() -> None:  # APPR-02
    facts, spec = await waiting()
    asked = of(facts, ApprovalRequested)[0]
    world = World()
    engine = await seed(facts, spec)
    async with working(engine, ASKING(world), seeded=2) as boss:
        run = await handle(boss)
        while not run.approvals:
            await run.changed()
        left = run.approvals[0].seconds
        assert left == pytest.approx(asked.seconds - (facts[-1].t - asked.t), abs=0.01)
        with anyio.move_on_after(left - 1):
            await run.wait()
        assert len(run.approvals) == 2
        resolved = await until(engine, ApprovalResolved)
        assert isinstance(resolved, ApprovalResolved)
        # All that were asked for at once are over at once, in any order.
        assert resolved.how == "timed_out"
        assert resolved.approval in {one.approval for one in of(facts, ApprovalRequested)}
        run.cancel()
        await run.wait()
    assert ("close", "a") not in world.done


async def test_an_answer_that_was_lost_is_given_again() -> None:
    facts, spec = await waiting()
    asked = of(facts, ApprovalRequested)[0]
    yes = ApprovalResolved(
        n=len(facts) + 1, run=RUN, at=facts[-1].at, t=facts[-1].t, turn=1, slot=asked.slot, user_turn=1,
        approval=asked.approval, call_id=asked.call_id, tool=asked.tool, how="once", by="me",
    )  # fmt: skip
    engine = await seed([*facts, yes], spec)
    world = World()
    async with working(engine, ASKING(world), seeded=2) as boss:
        await handle(boss)
        again = await engine.send(RUN, Approve(approval=asked.approval, arguments_hash=asked.arguments_hash))
        assert (await engine.answered(RUN, again)).taken
        otherwise = await engine.send(RUN, Deny(approval=asked.approval))
        assert not (await engine.answered(RUN, otherwise)).taken
        while ("close", "a") not in world.done:
            await anyio.sleep(0.01)
        await engine.cancel(RUN)
    assert world.done.count(("close", "a")) == 1


async def test_a_word_that_was_read_is_not_said_twice() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        said = await engine.send(RUN, Steer(text="Be quick.", id="c1"))
        slow.going.set()
        assert (await engine.answered(RUN, said)).taken
        facts = await kept(engine)
    place = next(place for place, event in enumerate(facts, 1) if getattr(event, "command", "") == "c1")
    engine = await seed(facts[:place], RunSpec(agent="agent", task="Do it."))
    async with engine:
        await engine.send(RUN, Steer(text="Be quick.", id="c1"))
    again = Slow()
    again.going.set()
    async with working(engine, again.agent, seeded=2):
        assert (await engine.answered(RUN, "c1")).taken
        after = await kept(engine)
    assert [event.text for event in of(after, UserMessage)] == ["Do it.", "Be quick."]


class Unanswered(MemoryEngine):
    """One whose worker dies before it can say what became of a command."""

    async def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        async for lease in super().leases(capacity, worker=worker):

            async def settle(command: AnyCommand, answer: Answered) -> None:
                await anyio.sleep_forever()

            lease.settle = settle  # type: ignore[method-assign]
            yield lease


async def test_a_word_that_was_read_and_not_answered_is_answered_by_the_next_attempt() -> None:
    slow, engine = Slow(), Unanswered(seams=VirtualSeams())
    async with working(engine, slow.agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        await engine.send(RUN, Steer(text="Be quick.", id="c1"))
        slow.going.set()
        async for event in engine.watch(RUN):
            if isinstance(event, UserMessage) and event.command:
                break
        for lease in list(engine.leases_given):
            lease.die()  # nothing more of this attempt counts
    sound, again = memory(), Slow()
    sound.__dict__.update(engine.__dict__)
    again.going.set()
    async with working(sound, again.agent, seeded=2):
        assert (await sound.answered(RUN, "c1")).taken
        after = await kept(sound)
    assert [event.text for event in of(after, UserMessage)] == ["Do it.", "Be quick."]
    assert len(of(after, Recovered)) == 1


async def test_a_word_that_a_sub_agent_of_a_dead_attempt_has_read_was_taken() -> None:
    from test_cuts import delegating

    whole, _, spec = await uncut(delegating)
    child = next(event.run for event in whole if event.run != RUN)
    place = next(place for place, event in enumerate(whole, 1) if event.run == child and isinstance(event, CallEnded))
    last = next(event for event in reversed(whole[:place]) if event.run == child)
    word = UserMessage(
        n=last.n + 1, run=child, parent=RUN, at=last.at, t=last.t, text="Be quick.", source="steer", command="c1"
    )
    engine = await seed([*whole[:place], word], spec)
    async with engine:
        await engine.send(child, Steer(text="Be quick.", id="c1"))
        await engine.send(child, Steer(text="Be slow.", id="c2"))
    async with working(engine, delegating(World()), seeded=2):
        assert (await engine.answered(child, "c1")).taken
        assert not (await engine.answered(child, "c2")).taken
        await kept(engine)


async def test_what_was_taken_before_the_end_of_an_attempt_is_answered_by_it() -> None:
    slow, engine, may_write = Slow(), memory(), anyio.Event()
    async with working(engine, slow.agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await slow.begun()
        assert run.attempt.lease is not None
        sound = run.attempt.lease.append

        async def late(events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
            await may_write.wait()
            await sound(events, charges)

        run.attempt.lease.append = late  # type: ignore[method-assign]
        sent = [await engine.send(RUN, Pause(reason="to think")), await engine.send(RUN, Steer(text="Wait.", id="c2"))]
        sent += [await engine.send(RUN, AddBudget(amounts={"turns": 5})) for _ in range(2)]
        while run.limits()["turns"] != 30:
            await run.changed()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(boss.drain, 0)
            while run.attempt.keeps(run.log.n):
                await run.changed()
            may_write.set()
        commands = engine.tree(RUN).commands
        with anyio.fail_after(1):  # nothing is waited for that does not come; leaving would cut short what does
            while any(one.answer is None for one in commands.values() if one.command.id != "c2"):
                await anyio.sleep(0.01)
    async with engine:
        answers = {one.command.id: one.answer for one in engine.tree(RUN).commands.values()}
        assert [answer is not None and answer.taken for answer in answers.values()] == [True, False, True, True]
        assert answers["c2"] is None  # nobody has read it: it is for the next attempt


# -- the end of an attempt ---------------------------------------------------------------------------------------------


async def test_leaving_suspends_after_the_turn_and_the_next_one_goes_on() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent, drain=100) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await slow.begun()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(boss.drain, 50)
            await anyio.sleep(1)
            slow.going.set()
        outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("cancelled", "suspended")
    again = Slow()
    async with working(engine, again.agent, seeded=2):
        facts = await kept(engine)
    check(facts, of(facts, RunEnded)[0].outcome, again.world)
    assert (slow.ended, again.began) == (1, 0)
    assert len(of(facts, Suspended)) == len(of(facts, Recovered)) == 1
    assert of(facts, CallEnded)[0].result.kind == "finished"


async def test_what_does_not_end_in_time_is_broken_off_and_run_again() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        await boss.drain(3)
    again = Slow()
    again.going.set()
    async with working(engine, again.agent, seeded=2):
        facts = await kept(engine)
    check(facts, of(facts, RunEnded)[0].outcome, again.world)
    assert [event.result.kind for event in of(facts, CallEnded)] == ["finished"]
    assert (slow.ended, again.ended) == (0, 1)


async def test_a_run_taken_up_during_a_drain_is_left_to_another_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, engine, sound = Slow(), memory(), MemoryLease.facts

    async def facts(lease: MemoryLease, run: str | None = None) -> AsyncIterator[Event]:
        await anyio.sleep(5)
        async for event in sound(lease, run):
            yield event

    async with working(engine, slow.agent, drain=20) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        monkeypatch.setattr(MemoryLease, "facts", facts)
        await boss.submit(RunSpec(agent="agent", task="Do it."), run="r2")
        await anyio.sleep(1)
    monkeypatch.undo()
    assert slow.began == 1
    again = Slow()
    again.going.set()
    async with working(engine, again.agent, seeded=2):
        outcomes = [of(await kept(engine, run), RunEnded)[0].outcome for run in (RUN, "r2")]
    assert [outcome.answer for outcome in outcomes] == ["Done.", "Done."]


class Stubborn(Slow):
    """One whose call needs a second to stop."""

    def __init__(self) -> None:
        super().__init__()

        @tool(effect=writes("desk"), idempotent=True, timeout=None)
        async def work(what: str) -> str:
            """Work."""
            self.began += 1
            try:
                await self.going.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(1)
            return "worked"

        self.agent = Agent(self.agent.model, [work], profile=BARE)


async def test_what_is_sent_while_an_attempt_breaks_off_is_for_the_next_one() -> None:
    stubborn, engine = Stubborn(), memory()
    async with working(engine, stubborn.agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await stubborn.begun()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(boss.drain, 0)
            await anyio.sleep(0.5)
            assert run.attempt.broken == "suspended"
            raised = await engine.send(RUN, AddBudget(amounts={"turns": 5}))
            said = await engine.send(RUN, Steer(text="Be quick."))
    again = Slow()
    again.going.set()
    async with working(engine, again.agent, seeded=2):
        assert (await engine.answered(RUN, raised)).taken
        assert (await engine.answered(RUN, said)).taken
        assert of(await kept(engine), LimitsRaised)[0].amounts == {"turns": 5}


async def test_a_fence_that_is_seen_at_the_end_is_one() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await slow.begun()
        assert run.attempt.lease is not None
        append = run.attempt.lease.append

        async def fenced(events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
            if any(isinstance(event, RunEnded) for event in events):
                raise Fenced("another attempt has it")
            await append(events, charges)

        run.attempt.lease.append = fenced  # type: ignore[method-assign]
        await anyio.sleep(1)
        asked = run.seams.clock()
        run.cancel("enough")
        await run.wait()
        assert run.attempt.broken == "fenced"
        assert run.seams.clock() - asked < 1
        facts = await kept(engine)  # the end is another attempt's, whether the cancel was durable by then or not
        assert (len(of(facts, Recovered)), len(of(facts, RunEnded))) == (1, 1)


async def test_a_run_that_ends_already_is_not_suspended() -> None:
    stubborn, engine = Stubborn(), memory()
    async with working(engine, stubborn.agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await stubborn.begun()
        run.cancel("enough")
        await anyio.sleep(0.1)
    async with engine:
        status = await engine.get(RUN)
    assert run.outcome is not None
    assert status.outcome is not None
    assert (status.outcome.status, status.outcome.reason) == ("cancelled", "enough")


async def test_a_fenced_attempt_touches_nothing_more() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await slow.begun()
        n = (await engine.get(RUN)).n
        assert run.attempt.lease is not None
        run.attempt.lease.die()  # type: ignore[attr-defined]  # of the engine in memory
        slow.going.set()
        outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("failed", "fenced")
        assert slow.world.models[0].asked == 1
        facts = await kept(engine)  # the same supervisor has taken it again, maybe before this wait was over
        assert slow.began == 2  # once an attempt
        assert len(of(facts, RunEnded)) == 1
        assert facts[n].n == n + 1
        assert isinstance(facts[n], Recovered)


@pytest.mark.parametrize(("kind", "look"), [("memory", "take"), ("sqlite", "claim")])
async def test_a_failed_look_for_leases_costs_no_run_its_lease(tmp_path: Path, kind: str, look: str) -> None:
    slow = Slow()
    engine: Engine = memory()
    if kind == "sqlite":
        engine = SqliteEngine(tmp_path, worker="main", seams=VirtualSeams())
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await slow.begun()
        run, sound = boss.runs[RUN], getattr(engine, look)

        def locked(*_: Any) -> None:
            setattr(engine, look, sound)
            raise EngineError("another process has kept it locked")

        setattr(engine, look, locked)
        await boss.submit(RunSpec(agent="agent", task="Do it."), run="r2")
        await slow.begun(2)
        assert set(boss.runs) == {RUN, "r2"}
        assert boss.runs[RUN] is run
        slow.going.set()
        assert (await run.wait()).answer == "Done."
        assert (await engine.get(RUN)).attempt == 1


def tasks_of(name: str) -> int:
    """How many tasks have this in their names."""
    return sum(name in (task.name or "") for task in anyio.get_running_tasks())


async def test_an_answer_that_waits_for_a_journal_that_is_gone_is_given_up() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        await slow.begun()
        assert run.attempt.lease is not None

        async def fenced(events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
            raise Fenced("another attempt has it")

        run.attempt.lease.append = fenced  # type: ignore[method-assign]
        await engine.send(RUN, Pause(reason="to think"))
        assert (await run.wait()).reason == "fenced"
        await slow.begun(2)
        assert boss.runs[RUN] is not run
        assert (tasks_of("Obedience.run"), tasks_of(f"lease {RUN}")) == (1, 1)  # those of the second attempt


async def test_calls_that_wait_for_a_journal_that_is_gone_are_given_up() -> None:
    slow, engine = Slow(), memory()
    many = script(call(*(("work", {"what": str(n)}) for n in range(600))), say("Done."))
    agent = Agent(slow.world.model(many), slow.agent.tools.values(), profile=BARE)
    async with working(engine, agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        assert run.attempt.lease is not None
        append = run.attempt.lease.append

        async def fenced(events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
            if any(isinstance(event, CallProposed) for event in events):
                await anyio.sleep(1)
                raise Fenced("another attempt has it")
            await append(events, charges)

        run.attempt.lease.append = fenced  # type: ignore[method-assign]
        assert (await run.wait()).reason == "fenced"
        await slow.begun()
        assert boss.runs[RUN] is not run
        assert tasks_of("wiring._execute") == 1  # that of the second attempt


async def test_leaving_by_a_cancel_waits_for_nobody() -> None:
    slow, engine = Slow(), memory()
    async with engine:
        with anyio.CancelScope() as scope:
            async with Supervisor(
                engine=engine, seams=VirtualSeams(), agents={"agent": slow.agent}, plugged=False
            ) as boss:
                await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
                await slow.begun()
                left = anyio.current_time()
                scope.cancel()
                await anyio.sleep(1)
        assert anyio.current_time() - left < 1


class Full(MemoryEngine):
    """A disk that is full for a while."""

    def __init__(self, at: type[Event], failures: float) -> None:
        super().__init__(seams=VirtualSeams())
        self.at = at
        self.failures = failures

    async def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        async for lease in super().leases(capacity, worker=worker):
            append = lease.append

            async def full(
                events: Sequence[Event],
                charges: Mapping[str, float] | None = None,
                append: Callable[..., Awaitable[None]] = append,
            ) -> None:
                if self.failures > 0 and any(isinstance(event, self.at) for event in events):
                    self.failures -= 1
                    raise EngineError("the disk is full")
                await append(events, charges)

            lease.append = full  # type: ignore[method-assign]
            yield lease


async def test_a_full_disk_pauses_the_run_and_loses_nothing() -> None:
    world, engine = World(), Full(CallStarted, 4)
    async with working(engine, WORK(world)) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        outcome = await (await handle(boss)).wait()
        facts = await kept(engine)
    check(facts, outcome, world)
    assert outcome.answer == "Done."
    assert of(facts, Paused)[0].reason == "journal: the disk is full"
    assert len(of(facts, Resumed)) == 1
    assert world.done.count(("put", "c")) == 2


@pytest.mark.parametrize("before", [True, False])
async def test_a_kill_does_not_wait_for_a_full_disk_and_is_kept_once_there_is_room(before: bool) -> None:
    """The disk was full already, or only the facts of the end found it so."""
    world, engine = World(), Full(CallStarted if before else CancelRequested, float("inf"))
    async with working(engine, WORK(world)) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        while not (run.is_paused if before else run.ledger.entries):
            await run.changed()
        asked = anyio.current_time()
        run.cancel("enough", mode="kill")
        outcome = await run.wait()
        assert anyio.current_time() - asked < 0.2
        assert (outcome.status, outcome.reason) == ("cancelled", "enough")
        assert (await engine.get(RUN)).state != "ended"
        await anyio.sleep(3)
        engine.failures = 0
        facts = await kept(engine)
    check(facts, outcome, world)
    assert of(facts, RunEnded)[0].outcome.reason == "enough"


async def test_a_cancel_that_waits_for_a_full_disk_is_published_when_it_becomes_a_kill() -> None:
    world, engine = World(), Full(CallStarted, float("inf"))
    async with working(engine, WORK(world)) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        while not run.is_paused:
            await run.changed()
        run.cancel("enough")
        await anyio.sleep(7)
        assert run.outcome is None
        run.cancel("at once", mode="kill")
        with anyio.fail_after(0.1):
            assert (await run.wait()).reason == "enough"


STUCK = Verdict("pause", Finding("equal", "repeat", 9), "Stop that.")


@pytest.mark.parametrize("who", ["person", "watchdog", "journal's namesake"])
async def test_a_pause_while_the_disk_is_full_lasts_when_it_is_not_any_more(who: str) -> None:
    world, engine = World(), Full(CallStarted, float("inf"))
    async with working(engine, WORK(world), drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        while not run.is_paused:
            await run.changed()
        if who == "watchdog":
            run.rule(STUCK, run.log.n)
        else:
            run.pause("to think" if who == "person" else "journal: I write one", seconds=100)
        engine.failures = 0
        await anyio.sleep(50)
        assert run.is_paused
        assert (await engine.get(RUN)).state == "paused"
    async with working(engine, WORK(world), seeded=2) as boss:
        run = await handle(boss)
        await anyio.sleep(20)
        assert run.is_paused
        run.resume()
        assert (await run.wait()).status == "completed"
        facts = await kept(engine)
    assert [event.journal for event in of(facts, Paused)] == [True, False]
    assert len(of(facts, Resumed)) == 1


async def test_a_full_disk_does_not_end_a_pause_nor_does_its_end_make_up_for_the_disk() -> None:
    world, engine = World(), Full(CallStarted, float("inf"))
    async with working(engine, WORK(world), drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        while not run.is_paused:
            await run.changed()
        run.pause("to think", seconds=100)
        due = run.paused_until
        await anyio.sleep(20)
        assert run.paused_until == due
        run.resume("thought")
        assert run.is_paused
        await anyio.sleep(200)
        assert run.is_paused
        engine.failures = 0
        assert (await run.wait()).status == "completed"
        facts = await kept(engine)
        told = [event for event in facts if isinstance(event, Paused | Resumed)]
    assert [getattr(event, "journal", None) for event in told] == [True, False, None, True, None]
    assert [event.reason for event in of(told, Resumed)] == ["thought", "the journal can be written again"]


async def test_no_writer_starts_while_the_disk_is_full() -> None:
    slow, engine = Slow(), Full(CallStarted, float("inf"))
    async with working(engine, slow.agent, drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        while not run.is_paused:
            await run.changed()
        await anyio.sleep(100)
        assert slow.began == 0
        engine.failures = 0
        await slow.begun()
        slow.going.set()
        assert (await run.wait()).status == "completed"


async def test_an_end_that_cannot_be_written_holds_nobody_up_for_ever() -> None:
    world, engine = World(), Full(RunEnded, float("inf"))
    async with working(engine, WORK(world)) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        assert (await run.wait()).answer == "Done."
        engine.failures = 0
    async with engine:
        assert (await engine.get(RUN)).state != "ended"
    async with working(engine, WORK(world), seeded=2):
        assert of(await kept(engine), RunEnded)[0].outcome.answer == "Done."


# -- who may execute it ------------------------------------------------------------------------------------------------


def other(**settings: Any) -> Agent:
    return Agent(
        World().model(lambda request, asked: say("Done.")), [], instructions="Otherwise.", profile=BARE, **settings
    )


async def test_another_version_of_the_code_is_refused_and_the_run_stays() -> None:
    facts, _, spec = await uncut(WORK)
    engine = await seed(facts[:12], spec)
    async with working(engine, other(), seeded=2) as boss:
        assert boss.worker is not None
        while RUN not in boss.worker.refused:
            await anyio.sleep(0.01)
        assert "not those that the run was begun with" in boss.worker.refused[RUN]
        said = await engine.send(RUN, Steer(text="Go on."))
        assert "not those" in (await engine.answered(RUN, said)).why
        assert boss.worker.capacity() == 1000
    async with engine:
        assert (await engine.get(RUN)).n == 12
    async with working(engine, WORK(World()), seeded=2):
        assert of(await kept(engine), RunEnded)[0].outcome.answer == "Done."


class Copying(MemoryEngine):
    """One that gives copies of its facts, and keeps an eye on them."""

    def __init__(self) -> None:
        super().__init__(seams=VirtualSeams())
        self.given: list[Event] = []

    async def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        async for lease in super().leases(capacity, worker=worker):
            facts = lease.facts

            async def copies(run: str | None = None, facts: Callable[..., Any] = facts) -> AsyncIterator[Event]:
                async for event in facts(run):
                    self.given.append(decode_event(encode_event(event)))
                    yield self.given[-1]

            lease.facts = copies  # type: ignore[method-assign]
            yield lease


async def test_the_facts_of_the_attempts_before_are_let_go() -> None:
    slow, engine = Slow(), Copying()
    for attempt in (1, 2):
        async with working(engine, slow.agent, seeded=attempt, drain=0, keep=1) as boss:
            if attempt == 1:
                await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
            await slow.begun(attempt)
            if attempt == 2:
                place = next(place for place, event in enumerate(engine.given) if isinstance(event, TurnStarted))
                count = getrefcount(engine.given[place])
                assert count == 2  # that of the list, and that of the call


async def test_any_code_lets_it_go_on() -> None:
    facts, _, spec = await uncut(WORK)
    async with working(await seed(facts[:12], spec), other(), seeded=2, any_code=True) as boss:
        outcome = await (await handle(boss)).wait()
    assert outcome.status == "completed"


async def test_a_run_of_an_unknown_agent_can_be_cancelled() -> None:
    engine = memory()
    async with working(engine, other()) as boss:
        await boss.submit(RunSpec(agent="nobody", task="Do it."), run=RUN)
        assert boss.worker is not None
        while RUN not in boss.worker.refused:
            await anyio.sleep(0.01)
        assert "there is no agent 'nobody'" in boss.worker.refused[RUN]
        await engine.cancel(RUN, "never mind")
        assert of(await kept(engine), RunEnded)[0].outcome.reason == "never mind"


async def test_what_fails_before_its_first_fact_is_tried_once_and_held() -> None:
    engine, made = memory(), 0

    def broken() -> Any:
        nonlocal made
        made += 1
        raise RuntimeError("no such guard")

    async with working(engine, WORK(World()), guards=[broken]) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        for _ in range(200):  # no time would pass if it were tried again and again
            await anyio.lowlevel.checkpoint()
        assert made == 1
        assert boss.worker is not None
        assert "no such guard" in boss.worker.refused[RUN]
        assert (await engine.get(RUN)).attempt == 1
        await engine.cancel(RUN, "never mind")
        assert of(await kept(engine), RunEnded)[0].outcome.reason == "never mind"


async def test_a_run_that_cannot_be_taken_up_or_ended_takes_no_other_along() -> None:
    from test_cuts import delegating

    class Broken(Wording):
        def outcome(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no words")

    whole, _, spec = await uncut(delegating)
    child = next(event.run for event in whole if event.run != RUN)
    place = next(place for place, event in enumerate(whole, 1) if event.run == child and isinstance(event, CallStarted))
    engine = await seed(whole[:place], spec)
    async with working(engine, delegating(World()), seeded=2, wording=Broken()) as boss:
        assert boss.worker is not None
        while RUN not in boss.worker.refused:
            await anyio.sleep(0.01)
        assert "no words" in boss.worker.refused[RUN]
        sent = await engine.send(RUN, Cancel(reason="never mind"))
        answer = await engine.answered(RUN, sent)
        assert not answer.taken
        assert "no words" in answer.why
        assert RUN in boss.worker.refused


async def test_facts_that_cannot_be_read_are_asked_for_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, engine, sound = Slow(), memory(), MemoryLease.facts
    slow.going.set()
    asked = 0

    async def facts(lease: MemoryLease, run: str | None = None) -> AsyncIterator[Event]:
        nonlocal asked
        asked += 1
        if asked < 10:
            raise EngineError("the file cannot be read")
        async for event in sound(lease, run):
            yield event

    monkeypatch.setattr(MemoryLease, "facts", facts)
    async with working(engine, slow.agent) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        await anyio.sleep(5.5)
        assert asked == 6
        assert of(await kept(engine), RunEnded)[0].outcome.answer == "Done."


@pytest.mark.parametrize("steps", range(4))
async def test_a_run_that_is_cancelled_when_it_has_its_lease_is_executed_by_nobody(steps: int) -> None:
    slow, engine = Slow(), memory()
    slow.going.set()
    async with working(engine, slow.agent) as boss:
        run = await boss.start(slow.agent, "Do it.")
        while run.attempt.lease is None:
            await anyio.lowlevel.checkpoint()
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        run.cancel("never mind")
        assert (await run.wait()).reason == "never mind"
        facts = await kept(engine, run.id)
        assert of(facts, RunEnded)[0].outcome.reason == "never mind"
        assert not of(facts, Recovered)
    assert slow.began == 0


async def test_limits_of_a_spec_hold_and_wrong_ones_are_refused() -> None:
    engine = memory()
    async with working(engine, WORK(World())) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it.", limits={"max_turns": 7}), run=RUN)
        run = await handle(boss)
        assert run.limits()["turns"] == 7
        await engine.submit(RunSpec(agent="agent", task="Do it.", limits={"max_turn": 7}), run="r2")
        assert boss.worker is not None
        while "r2" not in boss.worker.refused:
            await anyio.sleep(0.01)
        assert "no limits named max_turn" in boss.worker.refused["r2"]
        for limits in ({"max_turn": 7}, {"max_turns": 0}, {"tokens": "many"}):
            with pytest.raises(ConfigurationError, match="limits"):
                await boss.submit(RunSpec(agent="agent", task="Do it.", limits=limits), run="r3")


async def test_the_status_says_why_a_run_is_refused_and_other_agents_are_tried() -> None:
    engine = memory()
    async with working(engine, other()) as boss:
        assert boss.worker is not None
        await boss.submit(RunSpec(agent="nobody", task="Do it."), run=RUN)
        while not (await engine.get(RUN)).refused:
            await anyio.sleep(0.01)
        assert "there is no agent 'nobody'" in (await engine.get(RUN)).refused
        boss.worker.offer({"agent": other()})
        while (await engine.get(RUN)).attempt == 1 or not (await engine.get(RUN)).refused:
            await anyio.sleep(0.01)
        boss.worker.offer({"nobody": other()})
        ended = of(await kept(engine), RunEnded)
        assert ended[0].outcome.status == "completed"
        assert (await engine.get(RUN)).refused == ""
        assert boss.worker.refused == {}


async def test_agents_need_an_engine() -> None:
    with pytest.raises(ConfigurationError, match="engine"):
        Supervisor(agents={"one": other()})
    async with Supervisor(plugged=False, monitor=False) as boss:
        with pytest.raises(ConfigurationError, match="nowhere"):
            await boss.submit(RunSpec(agent="one", task="Do it."))


async def test_three_attempts_that_die_without_a_record_hand_the_run_over() -> None:
    facts, _, spec = await uncut(WORK)
    place = next(place for place, event in enumerate(facts, 1) if isinstance(event, CallStarted))
    engine = await seed(facts[:place], spec)
    for attempt in range(2, 5):  # each begins a call, and dies in it
        slow = [*(await _kept(engine)), *()]
        async with engine:
            lease = await first(engine)
            last = slow[-1]
            more = Recovered(
                n=last.n + 1, run=RUN, at=last.at, t=last.t, turn=1, user_turn=1, attempt=attempt, again=("call_0_0",)
            )
            await lease.append([more])
    world = World()
    async with working(engine, WORK(world), seeded=2):
        after = await kept(engine)
    outcome = of(after, RunEnded)[0].outcome
    assert (outcome.status, outcome.reason) == ("handed_over", "crashing")
    assert not world.done
    assert not world.models[0].asked
    check(after, outcome, world)


async def _kept(engine: MemoryEngine) -> list[Event]:
    async with engine:
        return [event async for event in (await first(engine)).facts()]


async def test_a_run_that_only_waits_for_a_person_is_no_suspect() -> None:
    facts, spec = await waiting()
    engine = await seed(facts, spec)
    for _ in range(5):
        async with engine:
            await first(engine)
    async with working(engine, ASKING(World()), seeded=2) as boss:
        run = await handle(boss)
        while not run.approvals:
            await run.changed()
        await engine.cancel(RUN)


# -- a tree ------------------------------------------------------------------------------------------------------------


async def test_the_sub_agents_of_a_dead_attempt_get_their_end() -> None:
    from test_cuts import delegating

    whole, _, spec = await uncut(delegating)
    child = next(event.run for event in whole if event.run != RUN)
    place = next(place for place, event in enumerate(whole, 1) if event.run == child and isinstance(event, CallStarted))
    async with recovered(delegating, whole[:place], spec) as (world, facts, outcome):
        ended = of(facts, ChildEnded)
        assert [event.reason for event in ended] == ["orphaned", "answer"]
        assert ended[0].child == child
        assert ended[0].spent["turns"] == 1
        replies = len(of(whole[:place], ModelReplied)) + sum(model.asked for model in world.models)
        assert outcome.spent["tokens"] == replies * 20
        check(root(facts), outcome, world)


async def test_a_sub_agent_that_was_ending_ends_as_it_was_to() -> None:
    from test_cuts import delegating

    whole, _, spec = await uncut(delegating)
    child = next(event.run for event in whole if event.run != RUN)
    ending = next(place for place, event in enumerate(whole, 1) if event.run == child and isinstance(event, RunEnding))
    engine = await seed(whole[:ending], spec)
    async with working(engine, delegating(World()), seeded=2):
        facts, own = await kept(engine), await kept(engine, child)
    outcome = of(own, RunEnded)[0].outcome
    assert (outcome.status, outcome.reason, outcome.answer, outcome.partial) == ("completed", "answer", "Helped.", None)
    first_end = of(facts, ChildEnded)[0]
    assert (first_end.child, first_end.status) == (child, "completed")
    assert not of(own, CancelRequested)


async def test_of_a_sub_agent_that_was_being_cancelled_the_first_reason_counts() -> None:
    from test_cuts import delegating

    whole, _, spec = await uncut(delegating)
    child = next(event.run for event in whole if event.run != RUN)
    place = next(place for place, event in enumerate(whole, 1) if event.run == child and isinstance(event, CallStarted))
    last = whole[place - 1]
    asked = CancelRequested(
        n=last.n + 1, run=child, parent=RUN, at=last.at, t=last.t, mode="after_turn", reason="enough"
    )
    engine = await seed([*whole[:place], asked], spec)
    async with working(engine, delegating(World()), seeded=2):
        facts, own = await kept(engine), await kept(engine, child)
    outcome = of(own, RunEnded)[0].outcome
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")
    assert [event.reason for event in of(own, CancelRequested)] == ["enough"]
    assert [event.abandoned for event in of(own, CancelConfirmed)] == [("look",)]
    assert of(facts, ChildEnded)[0].reason == "enough"


async def test_what_a_sub_agent_of_a_dead_attempt_has_called_counts_by_tool_too() -> None:
    from test_cuts import delegating

    def limited(world: World) -> Agent:
        agent = delegating(world)
        agent.limits = Limits(calls_per_tool={"look": 10})
        return agent

    whole, _, spec = await uncut(limited)
    child = next(event.run for event in whole if event.run != RUN)
    place = next(place for place, event in enumerate(whole, 1) if event.run == child and isinstance(event, CallEnded))
    async with recovered(limited, whole[:place], spec) as (_, facts, outcome):
        orphan, again = of(facts, ChildEnded)
        assert orphan.reason == "orphaned"
        assert orphan.spent["calls:look"] == again.spent["calls:look"] == 1
        assert outcome.spent["calls:look"] == 3  # one each, and one of the root


async def test_a_sub_agent_that_does_not_stop_has_its_end_before_its_parent() -> None:
    at_work, engine = anyio.Event(), memory()

    @tool(effect="reads", timeout=None)
    async def stubborn() -> str:
        """Take no end for an answer, for a minute."""
        at_work.set()
        end = anyio.current_time() + 60
        while anyio.current_time() < end:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
        return ""

    world = World()
    model = world.model(script(call(("stubborn", {})), say("x")))
    helper = Agent(model, [stubborn], name="helper", profile=BARE, limits=Limits(grace=10))
    asks = script(call(("helper", {"task": "Help."})), say("Done."))
    agent = Agent(world.model(asks), [helper.as_tool()], profile=BARE, limits=Limits(grace=5))
    async with working(engine, agent) as boss:
        await boss.submit(RunSpec(agent=agent.name, task="Do it."), run=RUN)
        await at_work.wait()
        await engine.cancel(RUN, "enough")
        assert (await until(engine, RunEnded)).t == pytest.approx(5, abs=2)
        assert [one.state for one in (await engine.list(Query(parent=RUN))).runs] == ["ended"]


async def test_a_started_run_that_is_cancelled_before_its_lease_is_executed_by_nobody() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent, max_runs=1, drain=0) as boss:
        await boss.start(slow.agent, "Do it.")
        await slow.begun()
        second = await boss.start(slow.agent, "Do it.")
        second.cancel("never mind")
        assert (await second.wait()).reason == "never mind"
        slow.going.set()
        status = await engine.get(second.id)
        while status.state != "ended":
            await anyio.sleep(0.01)
            status = await engine.get(second.id)
        assert slow.began == 1


async def test_a_started_run_that_was_cancelled_keeps_its_end_when_the_worker_drains() -> None:
    slow, engine = Slow(), memory()
    async with working(engine, slow.agent, max_runs=1, drain=0) as boss:
        await boss.start(slow.agent, "Do it.")
        await slow.begun()
        second = await boss.start(slow.agent, "Do it.")
        second.cancel("never mind")
        await boss.drain(0)
        assert (await second.wait()).reason == "never mind"
    again = Slow()
    async with working(engine, again.agent, seeded=2):
        again.going.set()
        assert of(await kept(engine, second.id), RunEnded)[0].outcome.reason == "never mind"
        assert again.began <= 1  # the first one


class Late(MemoryEngine):
    """One whose leases are on their way for a while, as those of a file are."""

    def __init__(self) -> None:
        super().__init__(seams=VirtualSeams())
        self.arrive = anyio.Event()

    async def leases(self, capacity: Callable[[], int], *, worker: str = "") -> AsyncIterator[Lease]:
        async for lease in super().leases(capacity, worker=worker):
            await self.arrive.wait()
            yield lease


async def test_a_lease_that_comes_after_the_end_of_its_run_closes_it() -> None:
    slow, engine = Slow(), Late()
    slow.going.set()
    async with working(engine, slow.agent) as boss:
        run = await boss.start(slow.agent, "Do it.")
        while not engine.leases_given:
            await anyio.lowlevel.checkpoint()
        run.cancel("never mind")
        assert (await run.wait()).reason == "never mind"
        await anyio.sleep(1)
        engine.arrive.set()
        facts = await kept(engine, run.id)
        assert of(facts, RunEnded)[0].outcome.reason == "never mind"
        assert not of(facts, RunStarted)
        assert (await engine.get(run.id)).attempt == 1
        other = await boss.start(slow.agent, "Do it.")  # its place is free
        assert (await other.wait()).answer == "Done."
    assert slow.began == 1


async def test_a_start_that_fails_leaves_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, engine = Slow(), memory()

    async def submit(spec: RunSpec, *, run: str = "") -> RunStatus:
        raise EngineError("the disk is full")

    async with working(engine, slow.agent) as boss:
        monkeypatch.setattr(engine, "submit", submit)
        with pytest.raises(EngineError, match="the disk is full"):
            await boss.start(slow.agent, "Do it.")
        assert not boss.runs


async def test_a_paused_run_is_paused_after_a_restart_and_its_deadline_stands() -> None:
    world, engine = World(), memory()
    async with working(engine, WORK(world), drain=0) as boss:
        await boss.submit(RunSpec(agent="agent", task="Do it."), run=RUN)
        run = await handle(boss)
        run.pause("to think", seconds=100)
        while run.state != "paused":
            await run.changed()
        await anyio.sleep(40)
    async with working(engine, WORK(world), seeded=2) as boss:
        run = await handle(boss)
        while run.state != "paused":
            await run.changed()
        began = run.seams.clock()
        outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("stopped", "pause_expired")
        assert run.seams.clock() - began == pytest.approx(60, abs=1)


async def test_a_cancel_that_was_asked_for_is_carried_out_after_a_restart() -> None:
    facts, _, spec = await uncut(WORK)
    place = next(place for place, event in enumerate(facts, 1) if isinstance(event, CallStarted))
    last = facts[place - 1]
    asked = CancelRequested(
        n=place + 1, run=RUN, at=last.at, t=last.t, turn=1, user_turn=1, mode="now", reason="enough"
    )
    async with recovered(WORK, [*facts[:place], asked], spec) as (world, after, outcome):
        check(after, outcome, world)
        assert (outcome.status, outcome.reason) == ("cancelled", "enough")
        assert not world.done
        assert not of(after[place + 1 :], ModelRequested)
