"""What hosts, models and tools do wrong stays within their run: it ends with an outcome, and no other notices."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from support import cancelled_error, facts, of, perform, scripted, supervised
from watchkeeper import Agent, Budget, ConfigurationError, Limits, Supervisor, ToolError, Transient, reports, tool
from watchkeeper.messages import CallEnded, ChildStarted, EvidenceFound, Reminded, RunEnded
from watchkeeper.model import Finished, Request, TextDelta
from watchkeeper.testing import ScriptedModel, call, say
from watchkeeper.wording import Told, Wording

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(n: int = 0) -> str:
    """Look."""
    await anyio.sleep(1)
    return f"saw {n}"


@tool
async def fail(n: int = 0) -> str:
    """Fail."""
    raise ToolError("broken")


async def beside_a_bystander(agent: Agent, **settings: Any) -> Any:
    """The outcome of the agent; a second run goes on beside it and must not notice."""
    async with supervised(**settings) as supervisor:
        bystander = await supervisor.start(Agent(scripted(call(("look", {})), say("fine", delay=80)), [look]), "other")
        run = await supervisor.start(agent, "task")
        outcome = await run.wait()
        assert (await bystander.wait()).answer == "fine"
        assert isinstance((await facts(run))[-1], RunEnded)
        return outcome


async def test_a_run_without_a_time_limit() -> None:
    outcome, _ = await perform(Agent(scripted(call(("look", {})), say("done")), [look], limits=Limits(seconds=None)))
    assert outcome.status == "completed"


class Raising:
    """A model whose stream raises."""

    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        raise self.error
        yield


@pytest.mark.parametrize("kind", ["cancelled", "SystemExit", "GeneratorExit", "group"])
async def test_whatever_a_model_raises_is_its_runs_failure(kind: str) -> None:
    errors: dict[str, BaseException] = {
        "SystemExit": SystemExit(3),
        "GeneratorExit": GeneratorExit(),
        "group": BaseExceptionGroup("group", [KeyError("x"), SystemExit(1)]),
    }
    error = await cancelled_error() if kind == "cancelled" else errors[kind]
    outcome = await beside_a_bystander(Agent(Raising(error)))
    assert outcome.status == "failed"


async def test_a_model_whose_cleanup_fails_under_a_cancel() -> None:
    class Untidy:
        name = "untidy"

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[Any]:
            async def child() -> None:
                try:
                    await anyio.sleep_forever()
                finally:
                    raise ValueError("in the cleanup")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(child)
                await anyio.sleep_forever()
            yield

    async with supervised() as supervisor:
        bystander = await supervisor.start(Agent(scripted(say("fine", delay=50))), "other")
        run = await supervisor.start(Agent(Untidy()), "task")
        await anyio.sleep(5)
        run.cancel("stop")
        assert (await run.wait()).status == "cancelled"
        assert (await bystander.wait()).answer == "fine"


class Speechless(Wording):
    def failed(self, *args: Any) -> Told:
        raise KeyError("no such translation")

    not_run = failed  # type: ignore[assignment]


async def test_a_wording_that_raises_wherever_it_is_asked() -> None:
    calls = [("look", {"n": n}) for n in range(20)]
    agent = Agent(scripted(call(*calls, ("fail", {}), ("look", {"n": 99}))), [look, fail])
    async with supervised(wording=Speechless()) as supervisor:
        bystander = await supervisor.start(Agent(scripted(say("fine", delay=80))), "other")
        run = await supervisor.start(agent, "task")
        outcome = await run.wait()
        assert (outcome.status, outcome.reason) == ("failed", "crash")
        assert "no such translation" in (outcome.cause or "")
        assert run.ledger.open == {}
        assert (await bystander.wait()).answer == "fine"


class Forgetful:
    """A guard of a third party whose fold raises at one kind of fact."""

    name = "forgetful"

    def __init__(self, at: type) -> None:
        self.folds = {at: self.broken}

    def broken(self, event: Any) -> None:
        raise LookupError("lost")

    def call(self, proposal: Any) -> None:
        return None


@pytest.mark.parametrize("kind", [CallEnded, RunEnded, ChildStarted])
async def test_a_guard_whose_fold_raises_refuses_from_then_on(kind: type) -> None:
    steps = [call(("look", {})), call(("look", {"n": 2})), say("done")]
    outcome, events = await perform(Agent(scripted(*steps), [look]), guards=[lambda: Forgetful(kind)])
    assert outcome.status == "completed"
    second = of(events, CallEnded)[1].result
    if kind is CallEnded:
        assert (second.kind, second.error, second.by) == ("refused", "guard_failed", "forgetful")
    else:
        assert second.kind == "finished"


async def test_the_deadline_of_one_call_does_not_cut_the_next() -> None:
    tries = 0

    @tool(effect="reads", timeout=10)
    async def flaky() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            await anyio.sleep(1)
            raise Transient("once")
        return "at once"

    @tool(effect="writes", timeout=None)
    async def long() -> str:
        await anyio.sleep(100)
        return "whole"

    outcome, _ = await perform(Agent(scripted(call(("flaky", {}), ("long", {})), say("done")), [flaky, long]))
    assert [record.kind for record in outcome.calls] == ["finished", "finished"]


async def test_a_tool_that_swallows_its_timeout_is_given_up_and_the_run_goes_on() -> None:
    release = anyio.Event()

    @tool(effect="reads", timeout=1)
    async def stubborn() -> str:
        with anyio.CancelScope(shield=True):
            await release.wait()
        return "late"

    steps = [call(("stubborn", {}), ("look", {})), call(("look", {"n": 1})), say("done")]
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(*steps), [stubborn, look], limits=Limits(parallel=1)), "task")
        try:
            outcome = await run.wait()
        finally:
            release.set()
    assert outcome.status == "completed"
    assert [record.kind for record in outcome.calls] == ["abandoned", "finished", "finished"]
    assert "stubborn" in (outcome.calls[0].frame or "")
    assert outcome.seconds == pytest.approx(1 + 5 + 2, abs=0.1)


async def test_a_crash_in_admission_leaves_no_call_without_a_result() -> None:
    class Untranslated(Wording):
        def unknown_tool(self, *args: Any) -> Told:
            raise KeyError("no such translation")

    async with supervised(wording=Untranslated()) as supervisor:
        run = await supervisor.start(Agent(scripted(call(("look", {}), ("nope", {}), ("look", {"n": 2}))), [look]), "t")
        outcome = await run.wait()
        ended = of(await facts(run), CallEnded)
    assert outcome.reason == "crash"
    assert sorted(event.result.call_id for event in ended) == ["call_1_1", "call_1_2", "call_1_3"]
    assert run.ledger.open == {}


async def test_time_stands_still_in_a_pause_and_the_pause_has_its_own_deadline() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("look", {})), say("done", delay=5)), [look]), "task")
        run.pause()
        outcome = await run.wait()
    assert (outcome.reason, round(outcome.seconds)) == ("pause_expired", 3600)
    async with supervised() as supervisor:
        agent = Agent(scripted(call(("look", {})), say("done", delay=5)), [look], limits=Limits(seconds=20))
        run = await supervisor.start(agent, "task")
        await anyio.sleep(0.5)
        run.pause()
        await anyio.sleep(1000)
        run.resume()
        assert (await run.wait()).status == "completed"


async def test_pause_and_resume_at_any_moment() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("look", {})), say("done")), [look]), "task")
        run.pause()
        async for _ in run.events():
            break
        run.resume()
        run.pause()
        run.cancel("stop", "after_turn")
        outcome = await run.wait()
    assert outcome.status == "cancelled"
    assert outcome.seconds < 5


async def test_time_inherited_from_a_parent_is_warned_of() -> None:
    counter = iter(range(10**6))
    worker_model = ScriptedModel(lambda request, n: call(("look", {"n": next(counter)}), delay=3))
    worker = Agent(worker_model, [look], name="worker")
    model = scripted(call(("worker", {"task": "x"})), say("done"))
    agent = Agent(model, [worker.as_tool()], limits=Limits(seconds=60))
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(agent, "task")
        await anyio.sleep(1)
        (child,) = run.children
        assert child.limits()["seconds"] == 60
        await run.wait()
        reminders = [event.about for event in of(await facts(child), Reminded)]
    assert "time" in reminders
    assert "finish_time" in reminders


async def test_after_turn_hands_its_deadline_to_sub_agents() -> None:
    @tool(effect="reads", timeout=300)
    async def long() -> str:
        await anyio.sleep(200)
        return "whole"

    worker = Agent(scripted(call(("long", {}))), [long], name="worker")
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("worker", {"task": "x"}))), [worker.as_tool()]), "task")
        await anyio.sleep(1)
        run.cancel("later", "after_turn", deadline=600)
        await run.wait()
        (child,) = run.children
        assert child.outcome is not None
        assert child.outcome.calls[0].kind == "finished"


@pytest.mark.parametrize("mode", ["now", "kill"])
async def test_evidence_is_a_fact_also_of_a_cancelled_batch(mode: Any) -> None:
    @tool(effect="reads")
    async def hang() -> None:
        await anyio.sleep_forever()

    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("look", {}), ("hang", {}))), [look, hang]), "task")
        await anyio.sleep(5)
        run.cancel("stop", mode)
        outcome = await run.wait()
        (found,) = of(await facts(run), EvidenceFound)
    assert found.calls == outcome.evidence == ("call_1_1",)


async def test_a_request_that_does_not_let_go_is_charged_at_its_hold() -> None:
    release = anyio.Event()

    class Stubborn:
        name = "stubborn"

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[Any]:
            async def chunks() -> AsyncIterator[Any]:
                with anyio.CancelScope(shield=True):
                    await release.wait()
                yield TextDelta("late")
                yield Finished("stop")

            yield chunks()

    budget = Budget(tokens=100_000)
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(Stubborn()), "task", budget=budget)
        await anyio.sleep(1)
        run.cancel("stop")
        outcome = await run.wait()
        assert budget.held == {}
        assert budget.spent["tokens"] == outcome.spent["tokens"] > 4000
        release.set()


async def test_a_tool_name_without_end_does_not_fill_the_memory() -> None:
    class Endless:
        name = "endless"
        sent = 0

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[Any]:
            from watchkeeper.model import CallDelta

            async def chunks() -> AsyncIterator[Any]:
                for _ in range(10_000):
                    self.sent += 1
                    yield CallDelta(0, tool="x" * 1000)

            yield chunks()

    model = Endless()
    outcome, _ = await perform(Agent(model))
    assert outcome.status == "failed"
    assert model.sent < 2100


async def test_a_wait_in_a_thread_that_times_out_leaves_nothing_behind() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("done", delay=5))), "task")

        def poll() -> None:
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    run.threadsafe.wait(0.01)

        with supervisor.seams.outside_work():
            await anyio.to_thread.run_sync(poll)
        while run._waiters:
            await anyio.sleep(0)
        await run.wait()


async def test_the_loop_monitor_speaks_while_the_loop_is_still_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = threading.Event()
    monkeypatch.setattr(reports, "report", lambda event, **fields: spoken.set() if event == "loop_blocked" else None)
    heard: list[bool] = []

    @tool(effect="reads")
    async def block() -> str:
        heard.append(spoken.wait(10))  # the loop is blocked all the while
        return "done"

    async with Supervisor(plugged=False) as supervisor:
        run = await supervisor.start(Agent(scripted(call(("block", {})), say("done")), [block]), "task")
        await run.wait()
    assert heard == [True]


@pytest.mark.parametrize("what", ["scope", "group"])
async def test_a_tool_that_leaves_a_scope_open_breaks_its_own_run_alone(what: str) -> None:
    kept: list[Any] = []

    @tool(effect="reads")
    async def leave_open() -> str:
        manager: Any = anyio.CancelScope() if what == "scope" else anyio.create_task_group()
        kept.append(manager)
        if what == "scope":
            manager.__enter__()
        else:
            await manager.__aenter__()
        await anyio.sleep(1)
        return "opened"

    outcome = await beside_a_bystander(Agent(scripted(call(("leave_open", {})), say("done")), [leave_open]))
    assert outcome.status in ("completed", "failed")


async def test_a_retry_gets_the_arguments_that_were_admitted() -> None:
    seen: list[list[str]] = []

    @tool(effect="reads")
    async def pop(names: list[str]) -> str:
        seen.append(list(names))
        names.pop()
        if len(seen) < 3:
            raise Transient("again")
        return "done"

    await perform(Agent(scripted(call(("pop", {"names": ["a", "b", "c"]})), say("done")), [pop]))
    assert seen == [["a", "b", "c"]] * 3


async def test_values_whose_own_methods_fail_are_results() -> None:
    class Hostile(list[int]):
        def __len__(self) -> int:
            raise SystemExit(1)

        __bool__ = __iter__ = __str__ = __repr__ = __len__  # type: ignore[assignment]

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    @tool(effect="reads")
    async def give() -> Any:
        return Hostile()

    @tool(effect="reads")
    async def throw() -> Any:
        raise Unspeakable

    @tool(effect="reads")
    async def nest() -> Any:
        error: Exception = ValueError("x")
        for _ in range(3000):
            error = ExceptionGroup("g", [error])
        raise error

    steps = [call(("give", {}), ("throw", {}), ("nest", {})), say("done")]
    outcome = await beside_a_bystander(Agent(scripted(*steps), [give, throw, nest]))
    assert [record.kind for record in outcome.calls] == ["finished", "failed", "failed"]


@pytest.mark.parametrize("usage", [(-5, 3), (10**40, 1), (0, 0)])
async def test_usage_that_cannot_be_is_not_believed(usage: tuple[int, int]) -> None:
    from watchkeeper.messages import Usage

    outcome, _ = await perform(Agent(scripted(say("done", usage=Usage(*usage)))))
    assert outcome.status == "completed"
    assert outcome.usage.estimated
    assert outcome.spent["tokens"] > 4000


async def test_bad_input_is_refused_where_it_is_given() -> None:
    async with supervised() as supervisor:
        agent = Agent(scripted(say("done", delay=5)))
        for task, history in ((None, ()), ("task", [{"role": "user"}]), ("task", "text")):
            with pytest.raises(ConfigurationError):
                await supervisor.start(agent, task, history=history)  # type: ignore[arg-type]
        run = await supervisor.start(agent, "task")
        for handle in (run, run.threadsafe):
            with pytest.raises(ValueError, match="after_turn"):
                handle.cancel(mode="bogus")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="seconds"):
                handle.pause(seconds=float("nan"))
            with pytest.raises(ValueError, match="str"):
                handle.steer(None)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="open already"):
            await supervisor.__aenter__()
        assert (await run.wait()).status == "completed"
