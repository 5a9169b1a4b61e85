"""Cancelling a run from outside: it always ends the run, in time, and never discards finished work."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from support import BARE, cancelled_error, facts, of, scripted, supervised
from watchkeeper import Agent, Limits, Run, RunEndedError, tool, writes
from watchkeeper.messages import (
    CallEnded,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    LimitsRaised,
    Mode,
    ModelRequested,
    RunEnded,
    RunEnding,
    RunStarted,
)
from watchkeeper.model import ModelError
from watchkeeper.models.dialect import messages as to_messages
from watchkeeper.testing import Step, call, fail, forever, say
from watchkeeper.testing.strict import check_request

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def quick(n: int = 0) -> str:
    """Return at once."""
    return f"quick {n}"


@tool(effect="reads")
async def hang(n: int = 0) -> str:
    """Never return."""
    await anyio.sleep_forever()
    return ""


@tool(effect=writes("x"))
async def write_slowly() -> str:
    """Finish in spite of a cancel."""
    with anyio.CancelScope(shield=True):
        await anyio.sleep(1)
    return "written"


@tool(effect="reads", timeout=None)
async def swallow() -> str:
    """Swallow every cancel for ever."""
    while not RELEASE.is_set():
        try:
            await anyio.sleep(0.5)
        except BaseException:
            if RELEASE.is_set():
                raise
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.5)
    return ""


RELEASE = threading.Event()


async def started(run: Run, calls: int) -> None:
    """Wait until so many calls have been started."""
    async for event in run.events():
        if isinstance(event, CallStarted):
            calls -= 1
            if not calls:
                return
    raise AssertionError("the run ended before that")


def accepted_by_a_strict_server(run: Run) -> None:
    assert run.outcome is not None
    messages = list(run.outcome.history)
    if not messages:
        return  # it never began
    if messages[-1].role == "assistant":
        messages.append(type(messages[0])("user", "Go on."))
    problem = check_request({"model": "m", "stream": True, "messages": to_messages(messages)})
    assert problem is None, problem


def check_end(run: Run, events: list[Any]) -> None:
    """What holds of every run that has ended."""
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert len(of(events, RunEnded)) == 1
    assert type(events[-1]) is RunEnded
    assert run.ledger.open == {}
    ended = [event.result.call_id for event in of(events, CallEnded)]
    assert len(ended) == len(set(ended)) == len(run.ledger.entries)
    accepted_by_a_strict_server(run)


async def test_before_it_has_begun() -> None:
    async with supervised() as supervisor:
        model = scripted(say("never"))
        run = await supervisor.start(Agent(model), "task")
        assert run.cancel("at once")
        outcome = await run.wait()
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("cancelled", "at once")
    assert model.asked == 0
    assert of(events, RunStarted) == []
    check_end(run, events)


async def test_while_queued() -> None:
    async with supervised(max_runs=1) as supervisor:
        first = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "first")
        second = await supervisor.start(Agent(scripted(say("second"))), "second")
        third = await supervisor.start(Agent(scripted(say("third"))), "third")
        await started(first, 1)
        assert second.state == "queued"
        second.cancel("not needed")
        outcome = await second.wait()
        assert (outcome.status, outcome.reason) == ("cancelled", "not needed")
        assert third.state == "queued"
        first.cancel()
        assert (await third.wait()).answer == "third"


async def test_in_the_middle_of_a_batch_keeps_what_is_finished() -> None:
    async with supervised() as supervisor:
        model = scripted(call(("quick", {"n": 1}), ("hang", {}), ("quick", {"n": 2})))
        run = await supervisor.start(Agent(model, [quick, hang]), "task")
        await started(run, 3)
        await anyio.wait_all_tasks_blocked()
        run.cancel("enough")
        outcome = await run.wait()
        events = await facts(run)
    assert [record.kind for record in outcome.calls] == ["finished", "cancelled", "finished"]
    assert next(message.content for message in outcome.history if message.role == "tool") == "quick 1"
    assert "not ask" in outcome.history[-2].content  # it was not the user
    assert outcome.cancel_seconds == 0
    check_end(run, events)


async def test_what_waits_for_another_is_not_run() -> None:
    async with supervised() as supervisor:
        model = scripted(call(("hang", {}), ("write_slowly", {}), ("quick", {})))
        run = await supervisor.start(Agent(model, [quick, hang, write_slowly]), "task")
        await started(run, 1)
        run.cancel()
        outcome = await run.wait()
        check_end(run, await facts(run))
    # quick reads everything, so it waits for the writer, which waits for hang
    assert [record.kind for record in outcome.calls] == ["cancelled", "not_run", "not_run"]
    assert outcome.not_executed == (outcome.calls[1].id, outcome.calls[2].id)


@pytest.mark.parametrize("window", ["stall", "backoff", "first byte"])
async def test_while_the_model_is_asked(window: str) -> None:
    steps = {
        "stall": [say("some text", stall=True)],
        "backoff": [fail("overloaded", retry_after=25.0), say("too late")],
        "first byte": [say("late", delay=50)],
    }
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(*steps[window])), "task")
        await anyio.sleep(5)
        run.cancel("stop")
        outcome = await run.wait()
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("cancelled", "stop")
    assert outcome.cancel_seconds == 0
    check_end(run, events)


async def test_between_reply_and_execution() -> None:
    """The reply is in the log, its calls have not come to the executor: they are settled all the same."""

    class Canceller:
        name = "canceller"

        def __init__(self) -> None:
            self.folds = {}

        def call(self, proposal: Any) -> None:
            runs[0].cancel("now")

    runs: list[Run] = []
    async with supervised(guards=[Canceller]) as supervisor:
        runs.append(await supervisor.start(Agent(scripted(call(("quick", {}), ("quick", {"n": 2}))), [quick]), "task"))
        outcome = await runs[0].wait()
        check_end(runs[0], await facts(runs[0]))
    assert [record.kind for record in outcome.calls] == ["not_run", "not_run"]


async def test_a_tool_that_finishes_after_the_cancel_is_named() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("write_slowly", {}))), [write_slowly]), "task")
        await started(run, 1)
        run.cancel()
        outcome = await run.wait()
        check_end(run, await facts(run))
    assert outcome.status == "cancelled"
    assert outcome.calls[0].kind == "finished"
    assert outcome.after_cancel == (outcome.calls[0].id,)
    assert outcome.cancel_seconds == pytest.approx(1.0)


@asynccontextmanager
async def let_go() -> AsyncIterator[None]:
    """The tool that swallows cancels lets go in the end, whatever the test finds: else nobody could leave."""
    RELEASE.clear()
    try:
        yield
    finally:
        RELEASE.set()


async def test_a_tool_that_swallows_the_cancel_is_abandoned_at_the_grace_period() -> None:
    async with supervised() as supervisor, let_go():
        model = scripted(call(("quick", {}), ("swallow", {})))
        run = await supervisor.start(Agent(model, [quick, swallow]), "task")
        await started(run, 2)
        run.cancel("stop")
        outcome = await run.wait()
        events = await facts(run)
        check_end(run, events)
        assert [record.kind for record in outcome.calls] == ["finished", "abandoned"]
        assert "swallow" in (outcome.calls[1].frame or "")
        assert outcome.cancel_seconds == pytest.approx(5.0, abs=0.01)
        (confirmed,) = of(events, CancelConfirmed)
        assert len(confirmed.abandoned) == 1


async def test_kill_does_not_wait_for_the_grace_period() -> None:
    async with supervised() as supervisor, let_go():
        run = await supervisor.start(Agent(scripted(call(("swallow", {}), ("hang", {}))), [swallow, hang]), "task")
        await started(run, 2)
        run.cancel("stop")
        await anyio.sleep(1)
        assert run.outcome is None
        run.cancel("stop harder", "kill")
        outcome = await run.wait()
    assert outcome.reason == "stop"  # the first reason wins
    assert outcome.cancel_seconds == pytest.approx(1.0, abs=0.01)
    assert [record.kind for record in outcome.calls] == ["abandoned", "cancelled"]


async def test_one_that_comes_when_the_run_ends_by_itself_says_so_and_a_kill_hurries_it() -> None:
    async with supervised() as supervisor, let_go():
        agent = Agent(scripted(call(("swallow", {}))), [swallow], limits=Limits(seconds=10, grace=5))
        run = await supervisor.start(agent, "task")
        await anyio.sleep(11)
        assert (run.outcome, run.ending and run.ending.reason) == (None, "time")
        assert not run.cancel("too late")
        await anyio.sleep(1)
        assert run.outcome is None
        assert not run.cancel("too late", "kill")
        with anyio.fail_after(0.1):
            outcome = await run.wait()
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("stopped", "time")
    assert not of(events, CancelRequested)


async def test_after_turn_lets_the_calls_finish() -> None:
    @tool(effect="reads")
    async def slow() -> str:
        await anyio.sleep(10)
        return "slow but done"

    async with supervised() as supervisor:
        model = scripted(call(("slow", {})), say("never"))
        run = await supervisor.start(Agent(model, [slow]), "task")
        await started(run, 1)
        run.cancel("later", "after_turn")
        outcome = await run.wait()
        check_end(run, await facts(run))
    assert (outcome.status, outcome.reason) == ("cancelled", "later")
    assert outcome.calls[0].kind == "finished"
    assert model.asked == 1
    assert outcome.cancel_seconds == pytest.approx(10, abs=0.01)


async def test_after_turn_becomes_now_at_its_deadline() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "task")
        await started(run, 1)
        run.cancel("later", "after_turn", deadline=7)
        outcome = await run.wait()
    assert outcome.calls[0].kind == "cancelled"
    assert outcome.cancel_seconds == pytest.approx(7, abs=0.01)


async def test_idempotent_and_the_first_reason_wins() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "task")
        await started(run, 1)
        assert [run.cancel("one"), run.cancel("two"), run.cancel("three", "after_turn")] == [True, True, True]
        outcome = await run.wait()
        assert outcome.reason == "one"
        before = run.log.n
        assert run.cancel("late") is False
        assert run.log.n == before
        with pytest.raises(RunEndedError):
            run.steer("hello?")
        assert len(of(await facts(run), CancelRequested)) == 1


async def test_a_paused_run_can_be_cancelled() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("quick", {})), say("done")), [quick]), "task")
        run.pause()
        await anyio.sleep(100)
        assert run.state == "paused"
        run.cancel("stop", "after_turn")
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("cancelled", "stop")


async def test_own_raised_cancelled_class_is_the_tools_error() -> None:
    """CANC-01: told apart by whether anybody cancelled, not by the type of the exception."""

    @tool(effect="reads")
    async def odd() -> str:
        raise await cancelled_error()

    async with supervised() as supervisor:
        run = await supervisor.start(
            Agent(scripted(call(("odd", {}), ("quick", {})), say("done")), [odd, quick]), "task"
        )
        outcome = await run.wait()
        check_end(run, await facts(run))
    assert outcome.status == "completed"
    assert [record.kind for record in outcome.calls] == ["failed", "finished"]


async def test_outer_cancel_ends_all_runs_with_outcomes() -> None:
    runs: list[Run] = []
    with anyio.CancelScope() as scope:
        async with supervised() as supervisor:
            agent = Agent(scripted(*[call(("quick", {}), ("hang", {}))] * 3), [quick, hang])
            runs += [await supervisor.start(agent, "t") for _ in range(3)]
            for run in runs:
                await started(run, 2)
            scope.cancel()
            await anyio.sleep_forever()
    for run in runs:
        assert run.outcome is not None
        assert run.outcome.status == "cancelled"
        assert [record.kind for record in run.outcome.calls] == ["finished", "cancelled"]
        check_end(run, await facts(run))


async def test_leaving_the_supervisor_cancels_what_is_left() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "task")
        await started(run, 1)
    assert run.outcome is not None
    assert (run.outcome.status, run.outcome.reason) == ("cancelled", "supervisor_closed")


async def test_the_bodys_error_leaves_the_supervisor_as_it_is() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with supervised():
            raise LookupError("mine")


async def test_from_another_thread() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "task")
        await started(run, 1)
        seen: list[Any] = []

        def other() -> None:
            seen.append(run.threadsafe.snapshot()["state"])
            run.threadsafe.cancel("from a thread")
            seen.append(run.threadsafe.wait(5).reason)

        with supervisor.seams.outside_work():
            await anyio.to_thread.run_sync(other)
    assert seen == ["running", "from a thread"]


async def test_more_budget_from_another_thread_counts_when_it_returns() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang], limits=Limits(max_turns=3)), "task")
        await started(run, 1)

        def other() -> None:
            run.threadsafe.add_budget({"turns": 2}, by="ann")
            assert run.threadsafe.snapshot()["limits"]["turns"] == 5
            with pytest.raises(ValueError, match="no limit of money"):
                run.threadsafe.add_budget({"money": 1})
            run.threadsafe.cancel()
            run.threadsafe.wait(5)
            with pytest.raises(RunEndedError, match="be granted more"):
                run.threadsafe.add_budget({"turns": 2})

        with supervisor.seams.outside_work():
            await anyio.to_thread.run_sync(other)
        raised = of(await facts(run), LimitsRaised)
    assert [(event.amounts, event.by) for event in raised] == [({"turns": 2}, "ann")]


async def test_each_number_of_tools_is_cancelled() -> None:
    async with supervised() as supervisor:
        calls = [("hang", {"n": n}) for n in range(100)]
        agent = Agent(scripted(call(*calls)), [hang], limits=Limits(parallel=100))
        run = await supervisor.start(agent, "task")
        await started(run, 100)
        run.cancel()
        outcome = await run.wait()
        check_end(run, await facts(run))
    assert {record.kind for record in outcome.calls} == {"cancelled"}
    assert len(outcome.calls) == 100


async def test_continue_after_a_cancel() -> None:
    async with supervised() as supervisor:
        first = await supervisor.start(Agent(scripted(call(("quick", {}), ("hang", {}))), [quick, hang]), "task")
        await started(first, 2)
        first.cancel()
        outcome = await first.wait()
        model = scripted(say("resumed"))
        again = Agent(model, [quick, hang], profile=BARE)
        second = await supervisor.start(again, "Go on.", history=outcome.history)
        assert (await second.wait()).answer == "resumed"
    asked = model.requests[0]
    assert [message.role for message in asked.messages] == ["user", "assistant", "tool", "tool", "user"]
    assert check_request({"model": "m", "stream": True, "messages": to_messages(asked.messages)}) is None


async def test_a_model_that_swallows_the_cancel_does_not_hold_the_run_up() -> None:
    class Stubborn:
        name = "stubborn"
        released = anyio.Event()

        def stream(self, request: Any) -> Any:
            return self

        async def __aenter__(self) -> Any:
            with anyio.CancelScope(shield=True):
                await self.released.wait()
            raise ModelError("unknown", "released")

        async def __aexit__(self, *args: object) -> None:
            return None

    model = Stubborn()
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model), "task")
        await anyio.sleep(1)
        run.cancel()
        outcome = await run.wait()
        model.released.set()
    assert outcome.cancel_seconds == pytest.approx(5.0, abs=0.01)


async def test_runs_end_whatever_the_moment() -> None:
    """Cancel after each fact in turn: the run ends, each call has one result, the history can be sent."""
    total = 0
    position = 1
    while True:
        async with supervised() as supervisor:
            model = scripted(
                call(("quick", {}), ("write_slowly", {}), ("quick", {"n": 2})), call(("quick", {})), say("done")
            )
            run = await supervisor.start(Agent(model, [quick, write_slowly]), "task")
            async for event in run.events():
                if event.n >= position:
                    break
            mode: Mode = ("now", "kill", "after_turn")[position % 3]  # type: ignore[assignment]  # of its three
            running = run.outcome is None and run.cancel("here", mode)
            outcome = await run.wait()
            events = await facts(run)
            check_end(run, events)
            assert len(of(events, RunEnding)) == 1
            if not running:
                assert outcome.status == "completed"
                break
            assert outcome.status == "cancelled" or (mode, outcome.status) == ("after_turn", "completed")
            total += 1
            position += 1
    assert total > 20


async def test_no_model_request_after_a_cancel() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(*[call(("quick", {"n": n})) for n in range(9)]), [quick]), "task")
        async for event in run.events():
            if isinstance(event, CallEnded):
                run.cancel("now")
                break
        await run.wait()
        events = await facts(run)
    asked_at = [event.n for event in of(events, ModelRequested)]
    cancelled_at = of(events, CancelRequested)[0].n
    assert all(n < cancelled_at for n in asked_at)


async def test_forever_is_ended_by_the_defaults() -> None:
    """LOOP-10: nothing is unlimited by default."""
    counter = iter(range(10**6))
    async with supervised() as supervisor:
        from watchkeeper.testing import ScriptedModel

        model = ScriptedModel(lambda request, n: call(("quick", {"n": next(counter)})))
        run = await supervisor.start(Agent(model, [quick]), "task")
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("stopped", "turns")
    assert outcome.turns == 23
    assert forever


@pytest.mark.parametrize("ask", ["cancel", "hand_over"])
@pytest.mark.parametrize("before", [True, False])
async def test_after_turn_ends_a_wait_for_the_provider(ask: str, before: bool) -> None:
    """What would come after it is one more request; a person would wait a minute for an end, and get another turn."""
    model = scripted(Step(error=ModelError("rate_limited", "later", retry_after=60), delay=2), say("late"))
    async with supervised(keep=1000) as supervisor:
        run = await supervisor.start(Agent(model), "x")
        await anyio.sleep(1 if before else 5)
        getattr(run, ask)("enough", "after_turn")
        outcome = await run.wait()
    status = "cancelled" if ask == "cancel" else "handed_over"
    assert (outcome.status, outcome.reason, model.asked) == (status, "enough", 1)
    assert outcome.seconds == pytest.approx(2 if before else 5)
    assert not any(run.budget.held.values())
