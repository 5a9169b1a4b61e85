"""The supervisor: handles, pause, steer, sub-agents, shared limits, and that one crash touches no other run."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anyio
import pytest

from support import BARE, facts, of, perform, scripted, supervised
from watchkeeper import (
    Agent,
    Budget,
    ConfigurationError,
    Limits,
    Run,
    RunEndedError,
    Supervisor,
    SupervisorClosed,
    tool,
    writes,
)
from watchkeeper.messages import (
    CallEnded,
    CallStarted,
    ChildEnded,
    ChildStarted,
    DetectorFailed,
    Gap,
    ModelRequested,
    Nudged,
    Paused,
    Resumed,
    RunEnded,
    UserMessage,
)
from watchkeeper.testing import ScriptedModel, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(n: int = 0) -> str:
    """Look."""
    return f"saw {n}"


@tool(effect="reads")
async def hang() -> None:
    """Hang."""
    await anyio.sleep_forever()


def looking(last: str = "done", *, turns: int = 10**6, delay: float = 1.0) -> ScriptedModel:
    """A model that looks at something new each turn."""
    return ScriptedModel(lambda request, n: call(("look", {"n": n}), delay=delay) if n <= turns else say(last))


# -- the handle --------------------------------------------------------------------------------------------------------


async def test_pause_and_resume() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(looking(turns=3), [look]), "task")
        await anyio.sleep(1.5)
        run.pause("lunch")
        run.pause("again")
        await anyio.sleep(1000)
        assert run.state == "paused"
        turn = run.log.turn
        run.resume()
        outcome = await run.wait()
        events = await facts(run)
    assert outcome.status == "completed"
    (paused,), (resumed,) = of(events, Paused), of(events, Resumed)
    assert not [event for event in of(events, ModelRequested) if paused.n < event.n < resumed.n and event.turn > turn]


async def test_a_pause_has_a_deadline() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(looking(turns=3), [look]), "task")
        run.pause(seconds=50)
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("stopped", "pause_expired")
    assert outcome.seconds == pytest.approx(50, abs=2)


async def test_steer_is_read_before_the_next_turn_and_keeps_an_answer_from_ending_the_run() -> None:
    model = scripted(call(("look", {})), say("first answer", delay=5), say("second answer"))
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model, [look], profile=BARE), "task")
        await anyio.sleep(1)
        run.steer("And look at the other one.")
        outcome = await run.wait()
        events = await facts(run)
    assert outcome.answer == "second answer"
    assert [event.text for event in of(events, UserMessage)] == ["task", "And look at the other one."]
    assert [event.user_turn for event in of(events, UserMessage)] == [1, 2]
    assert model.requests[-1].messages[-1].content == "And look at the other one."


async def test_the_handle_of_an_ended_run() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("done"))), "task")
        await run.wait()
        for act in (run.pause, run.resume, lambda: run.steer("x")):
            with pytest.raises(RunEndedError):
                act()
        assert run.snapshot()["outcome"] == {"status": "completed", "reason": "answer"}


async def test_snapshot_says_what_it_is_doing() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("look", {}), ("hang", {}))), [look, hang]), "a task")
        await anyio.sleep(7)
        shot = run.snapshot()
        assert shot["state"] == "running"
        assert [doing["tool"] for doing in shot["doing"]] == ["hang"]
        assert shot["doing"][0]["seconds"] == 7
        limited = {name: limit for name, limit in shot["limits"].items() if limit is not None}
        assert limited == {"turns": 20, "calls": 1000, "tokens": 2_000_000, "seconds": 1800.0}
        assert shot["spent"]["calls"] == 2
        assert shot["watchdog"]["window"] == 30


async def test_deltas_are_lossy_and_events_are_not() -> None:
    text = " ".join(map(str, range(2000)))
    model = ScriptedModel([say(text)], pieces=5)
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model), "task")
        got: list[str] = []

        async def read() -> None:
            got.extend([getattr(delta, "text", "") async for delta in run.deltas()])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            outcome = await run.wait()
        streamed = "".join(event.text for event in await facts(run) if type(event).__name__ == "ModelStreamed")
    assert outcome.answer == streamed == text
    assert got
    assert "".join(got) in streamed


async def test_a_slow_viewer_does_not_hold_the_run_up() -> None:
    async with supervised(keep=50) as supervisor:
        run = await supervisor.start(Agent(looking(turns=19), [look]), "task")
        viewer = run.events()
        first = await anext(viewer)
        outcome = await run.wait()
        rest = [event async for event in viewer]
    assert outcome.status == "completed"
    assert not isinstance(first, Gap)
    assert first.n == 1
    assert any(isinstance(event, Gap) for event in rest)
    assert isinstance(rest[-1], RunEnded)


async def test_starting_outside_of_an_open_supervisor() -> None:
    supervisor = Supervisor()
    with pytest.raises(SupervisorClosed, match="async with"):
        await supervisor.start(Agent(scripted()), "task")
    async with supervised() as supervisor:
        pass
    with pytest.raises(SupervisorClosed):
        await supervisor.start(Agent(scripted()), "task")


# -- apart from each other ---------------------------------------------------------------------------------------------


class Broken:
    """A detector that raises in its third round."""

    name = "broken"

    def __init__(self, thresholds: Any, polls: Any) -> None:
        self.rounds = 0

    def round(self, round: Any, ring: Any) -> Any:
        self.rounds += 1
        if self.rounds == 3:
            raise ZeroDivisionError("third round")
        return ()


async def test_a_detector_that_raises_is_switched_off_and_the_run_goes_on() -> None:
    outcome, events = await perform(Agent(looking(turns=6), [look]), detectors=[Broken])
    assert outcome.status == "completed"
    (failed,) = of(events, DetectorFailed)
    assert (failed.detector, failed.error) == ("broken", "ZeroDivisionError: third round")


@pytest.mark.parametrize("part", ["watchdog", "executor", "agent"])
async def test_a_crash_of_an_actor_ends_its_run_and_no_other(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchkeeper.actors.executor import Executor
    from watchkeeper.detect.judge import Judge

    def crash(self: Any, *args: Any, **named: Any) -> Any:
        if self_run(self) == victim:
            raise MemoryError("boom")
        return real(self, *args, **named)

    def self_run(owner: Any) -> Any:
        if isinstance(owner, Executor):
            return owner._run.task
        if isinstance(owner, Judge):
            return judged.get(id(owner))
        return owner._run.task

    victim = "victim"
    judged: dict[int, str] = {}
    if part == "watchdog":
        real: Any = Judge.observe
        monkeypatch.setattr(Judge, "observe", crash)
    elif part == "executor":
        real = Executor._admit
        monkeypatch.setattr(Executor, "_admit", crash)
    else:
        from watchkeeper.actors.agent import AgentActor

        real = AgentActor._decide
        monkeypatch.setattr(AgentActor, "_decide", crash)
    async with supervised() as supervisor:
        runs = {task: await supervisor.start(Agent(looking(turns=3), [look]), task) for task in ("victim", "bystander")}
        if part == "watchdog":
            while runs["victim"].judge is None:
                await anyio.sleep(0.001)
            judged[id(runs["victim"].judge)] = "victim"
        outcome = await runs["victim"].wait()
        other = await runs["bystander"].wait()
        events = await facts(runs["victim"])
    assert (outcome.status, outcome.reason) == ("failed", "crash")
    assert "MemoryError: boom" in (outcome.cause or "")
    assert other.status == "completed"
    assert isinstance(events[-1], RunEnded)
    assert runs["victim"].ledger.open == {}


async def test_hundreds_of_runs_share_nothing_they_should_not() -> None:
    async with supervised() as supervisor:
        runs = [
            await supervisor.start(Agent(looking(f"answer {n}", turns=3, delay=n % 7), [look]), f"task {n}")
            for n in range(200)
        ]
        outcomes = [await run.wait() for run in runs]
        assert supervisor.runs == {}
    assert [outcome.answer for outcome in outcomes] == [f"answer {n}" for n in range(200)]
    assert {len(outcome.calls) for outcome in outcomes} == {3}
    assert len({outcome.run for outcome in outcomes}) == 200


async def test_what_a_run_held_is_let_go() -> None:
    class Big:
        pass

    alive: list[Any] = []
    async with supervised() as supervisor:
        for n in range(30):
            big = Big()
            alive.append(weakref.ref(big))

            @tool(effect="reads")
            async def use(_big: str = "", *, n: int = n, kept: Any = None) -> str:
                return f"{kept}{n}"

            use.function.__kwdefaults__["kept"] = big
            run = await supervisor.start(Agent(scripted(call(("use", {})), say("done")), [use]), "task")
            await run.wait()
            del big, use, run
        for _ in range(3):
            await anyio.sleep(0)
        gc.collect()
        assert sum(reference() is not None for reference in alive) <= 1


# -- limits that are shared --------------------------------------------------------------------------------------------


async def test_a_budget_shared_by_runs() -> None:
    budget = Budget(calls=10)
    async with supervised() as supervisor:
        runs = [await supervisor.start(Agent(looking(), [look]), "task", budget=budget) for _ in range(4)]
        outcomes = [await run.wait() for run in runs]
    assert sum(1 for outcome in outcomes for record in outcome.calls if record.kind == "finished") == 10
    assert budget.spent["calls"] == 10
    assert {outcome.reason for outcome in outcomes} == {"calls"}


async def test_the_supervisors_budget_is_the_root_of_all() -> None:
    async with supervised(budget=Budget(turns=5)) as supervisor:
        runs = [
            await supervisor.start(Agent(looking(), [look], limits=Limits(finish_turns=0)), "task") for _ in range(3)
        ]
        outcomes = [await run.wait() for run in runs]
    assert sum(outcome.turns for outcome in outcomes) == 5


async def test_time_is_a_limit() -> None:
    outcome, _ = await perform(Agent(scripted(call(("hang", {}))), [hang], limits=Limits(seconds=30)))
    assert (outcome.status, outcome.reason) == ("stopped", "time")
    assert outcome.seconds == pytest.approx(30, abs=0.1)
    assert outcome.calls[0].kind == "cancelled"


# -- sub-agents --------------------------------------------------------------------------------------------------------


def boss(model: ScriptedModel, *workers: Agent, **settings: Any) -> Agent:
    return Agent(model, [worker.as_tool() for worker in workers], name="boss", **settings)


async def test_a_sub_agent_answers_through_a_tool() -> None:
    worker = Agent(looking("the worker's answer", turns=2), [look], name="worker")
    outcome, events = await perform(boss(scripted(call(("worker", {"task": "look"})), say("done")), worker))
    assert outcome.answer == "done"
    (ended,) = of(events, CallEnded)
    assert (ended.result.content, ended.result.productive) == ("the worker's answer", True)
    (started,), (child,) = of(events, ChildStarted), of(events, ChildEnded)
    assert (started.agent, child.status, child.calls) == ("worker", "completed", 2)
    assert outcome.spent["turns"] == 2 + 3


async def test_a_sub_agent_that_is_stopped_is_an_unproductive_result() -> None:
    worker = Agent(ScriptedModel(lambda request, n: call(("look", {}))), [look], name="worker")
    outcome, events = await perform(boss(scripted(call(("worker", {"task": "look"})), say("done")), worker))
    (ended,) = of(events, CallEnded)
    assert (ended.result.kind, ended.result.productive, ended.result.error) == ("finished", False, "stopped_loop")
    assert outcome.status == "completed"


async def test_the_cancel_of_the_parent_ends_its_children() -> None:
    worker = Agent(scripted(call(("hang", {}))), [hang], name="worker")
    async with supervised() as supervisor:
        run = await supervisor.start(boss(scripted(call(("worker", {"task": "x"}))), worker), "task")
        await anyio.sleep(3)
        (child,) = run.children
        assert child.state == "running"
        run.cancel("stop")
        outcome = await run.wait()
        assert child.outcome is not None
        assert (child.outcome.status, child.outcome.reason) == ("cancelled", "parent_cancelled")
        assert outcome.calls[0].kind == "cancelled"
        assert outcome.cancel_seconds == pytest.approx(0, abs=0.01)


async def test_cancelling_a_child_does_not_touch_its_parent() -> None:
    worker = Agent(scripted(call(("hang", {}))), [hang], name="worker")
    async with supervised() as supervisor:
        run = await supervisor.start(boss(scripted(call(("worker", {"task": "x"})), say("done")), worker), "task")
        await anyio.sleep(3)
        run.children[0].cancel("not you")
        outcome = await run.wait()
    assert outcome.answer == "done"


async def test_depth_and_number_of_children_are_limited() -> None:
    spawned: list[Run] = []

    @tool(effect="nothing", timeout=None)
    async def spawn(level: int) -> str:
        from watchkeeper import current_call

        here = current_call()
        model = scripted(call(*[("spawn", {"level": level + 1})] * 1), say(f"level {level}"))
        child = await here.run.supervisor.start(Agent(model, [spawn], name=f"level{level}"), "go", parent=here.run)
        spawned.append(child)
        return (await child.wait()).answer or ""

    outcome, events = await perform(Agent(scripted(call(("spawn", {"level": 1})), say("root done")), [spawn]))
    assert outcome.status == "completed"
    assert [run.depth for run in spawned] == [1, 2]

    worker = Agent(ScriptedModel(lambda request, n: say("done")), name="worker")
    calls = [("worker", {"task": str(n)}) for n in range(12)]
    outcome, events = await perform(boss(scripted(call(*calls), say("root done")), worker))
    errors = [event.result.error for event in sorted(of(events, CallEnded), key=lambda event: event.slot)]
    assert sorted(map(str, errors)) == ["None"] * 10 + ["spawn_refused"] * 2


async def test_the_tree_never_exceeds_the_roots_limits() -> None:
    worker = Agent(looking(), [look], name="worker", limits=Limits(max_turns=50, finish_turns=0))
    calls = [("worker", {"task": str(n)}) for n in range(3)]
    agent = boss(scripted(call(*calls), say("root done")), worker, limits=Limits(max_turns=6))
    async with supervised() as supervisor:
        run = await supervisor.start(agent, "task")
        outcome = await run.wait()
        turns = [child.outcome.turns for child in run.children if child.outcome]
    assert sum(turns) == 5
    assert outcome.spent["turns"] == 6
    assert outcome.forced


async def test_eight_parallel_children_share_a_limit_of_three() -> None:
    worker = Agent(
        ScriptedModel(lambda request, n: call(("look", {"n": n})) if n % 2 else say("done")), [look], name="worker"
    )
    calls = [("worker", {"task": str(n)}) for n in range(8)]
    outcome, _ = await perform(boss(scripted(call(*calls), say("root done")), worker, limits=Limits(max_calls=8 + 3)))
    assert outcome.spent["calls"] == 8 + 3


async def test_writes_of_parent_and_children_do_not_overlap() -> None:
    inside = most = 0

    @tool(effect=writes("file"))
    async def write(who: str) -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await anyio.sleep(1)
        inside -= 1
        return who

    worker = Agent(
        ScriptedModel(lambda request, n: call(("write", {"who": str(n)})) if n <= 6 else say("done")),
        [write],
        name="worker",
    )
    model = scripted(
        call(("worker", {"task": "a"}), ("write", {"who": "boss"}), ("worker", {"task": "b"})), say("done")
    )
    agent = Agent(model, [worker.as_tool(), write], name="boss")
    outcome, _ = await perform(agent)
    assert outcome.status == "completed"
    assert most == 1


async def test_shared_names_are_kept_apart_across_runs() -> None:
    inside = most = 0

    @tool(effect=writes("shared:/tmp/one"))
    async def write() -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await anyio.sleep(1)
        inside -= 1
        return "written"

    async with supervised() as supervisor:
        runs = [
            await supervisor.start(Agent(scripted(call(("write", {})), say("done")), [write]), "t") for _ in range(5)
        ]
        outcomes = [await run.wait() for run in runs]
    assert {outcome.status for outcome in outcomes} == {"completed"}
    assert most == 1
    assert max(outcome.seconds for outcome in outcomes) == pytest.approx(5, abs=0.1)


# -- silence -----------------------------------------------------------------------------------------------------------


async def test_silence_is_noticed_and_a_call_with_a_deadline_is_not_silence() -> None:
    @tool(effect="reads", timeout=3600)
    async def long() -> str:
        await anyio.sleep(1000)
        return "done"

    outcome, _ = await perform(Agent(scripted(call(("long", {})), say("done")), [long]))
    assert outcome.status == "completed"

    async def never(name: str, n: int) -> None:
        await anyio.sleep_forever()

    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("look", {})), say("done")), [look]), "task")
        run.log.passed = never  # type: ignore[method-assign]
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("stopped", "silence")
    assert 120 <= outcome.seconds < 130


async def test_a_nudge_is_a_marked_user_message_after_the_results() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {})) if n <= 3 else say("all right"))
    outcome, events = await perform(Agent(model, [look]))
    (nudged,) = of(events, Nudged)
    last = model.requests[3].messages
    assert [message.role for message in last[-2:]] == ["tool", "user"]
    assert last[-1].content.startswith("[watchkeeper] ")
    assert last[-1].content.count("\n") >= 2
    assert nudged.by == "equal"
    assert outcome.status == "completed"
    assert len(of(events, CallStarted)) == 3


def test_configuration_errors_name_the_thing_and_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"required tool 'nope'.*look"):
        Agent(scripted(), [look], required=["nope"])
    with pytest.raises(ConfigurationError, match="two tools are named 'look'"):
        Agent(scripted(), [look, look])
    with pytest.raises(ConfigurationError, match=r"no profile 'fast'; the profiles are .*default"):
        Agent(scripted(), profile="fast")
    with pytest.raises(ConfigurationError, match="max_turns must be at least 1"):
        Agent(scripted(), limits=Limits(max_turns=0))
    with pytest.raises(ConfigurationError, match="max_runs"):
        Supervisor(max_runs=0)
