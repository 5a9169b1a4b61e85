"""Cancelling and deadlines, in virtual time: who is stopped, who is told, what is kept."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import anyio
import pytest
from stage import ended, play, stage

from support import cancelled_error, scripted
from watchkeeper import Agent, Limits, Run, RunEndedError, current_call, tool, writes
from watchkeeper.messages import CallStarted, RunEnded, RunStarted
from watchkeeper.model import Request, Timeouts
from watchkeeper.testing import ScriptedModel, Step, call, fail, say
from watchkeeper.wording import Wording

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(effect="reads")
async def hang() -> str:
    """Wait for what never comes."""
    await anyio.Event().wait()
    return ""


async def started(run: Run, calls: int) -> None:
    """Wait until so many calls have been started."""
    async for event in run.events():
        calls -= isinstance(event, CallStarted)
        if not calls:
            return
    raise AssertionError("the run ended before that")


@tool(effect="reads")
async def odd(wait: bool) -> str:
    """Raise the cancelled class, at once or in place of the cancel that comes."""
    error = await cancelled_error()
    if wait:
        try:
            await anyio.sleep_forever()
        except BaseException:
            raise error from None
    raise error


async def test_canc_01_raised_by_the_tool_itself_it_is_the_tools_error() -> None:
    ran = await play(Agent(scripted(call(("odd", {"wait": False}), ("look", {"what": "a"})), say("done")), [odd, look]))
    assert ran.kinds == ["failed", "finished"]
    assert ran.end == ("completed", "answer")


async def test_canc_01_under_a_real_cancel_it_is_a_cancel() -> None:
    async with stage() as supervisor:
        run = await supervisor.start(
            Agent(scripted(call(("odd", {"wait": True}), ("look", {"what": "a"}))), [odd, look]), "t"
        )
        await started(run, 2)
        run.cancel("enough")
        await run.wait()
        ran = await ended(run)
    assert ran.kinds == ["cancelled", "finished"]
    assert ran.end == ("cancelled", "enough")
    assert ran.outcome.cancel_seconds == 0


async def test_canc_02_who_follows_a_run_is_let_go_when_it_is_cancelled() -> None:
    ends: list[float] = []

    async def follow(stream: Any) -> None:
        async for _ in stream:
            pass
        ends.append(anyio.current_time())

    async with stage() as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "task")
        tasks.start_soon(follow, run.events())
        tasks.start_soon(follow, run.deltas())
        await started(run, 1)
        await anyio.sleep(3)
        cancelled_at = anyio.current_time()
        run.cancel()
        await run.wait()
        with anyio.fail_after(1):  # it looks at the tasks again after 0.1 s if one of them was still about to end
            await anyio.wait_all_tasks_blocked()
    assert len(ends) == 2
    assert max(ends) - cancelled_at < 0.1


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_canc_07_an_outer_deadline_is_reported_although_the_run_is_cancelled_then(cancel_first: bool) -> None:
    async def cancel(run: Run) -> None:
        await anyio.sleep_until(due)
        run.cancel("at the same time")

    async with stage() as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "task")
        await started(run, 1)
        due = anyio.current_time() + 5
        if cancel_first:
            tasks.start_soon(cancel, run)
            await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(due - anyio.current_time()) as outer:
            if not cancel_first:
                tasks.start_soon(cancel, run)
            await run.wait()
            await anyio.sleep_forever()
        assert outer.cancelled_caught
        outcome = await run.wait()
    assert (outcome.status, outcome.reason) == ("cancelled", "at the same time")


async def test_canc_07_an_outer_deadline_with_the_runs_own() -> None:
    runs: list[Run] = []
    with anyio.move_on_after(5) as scope:
        async with stage() as supervisor:
            runs.append(
                await supervisor.start(Agent(scripted(call(("hang", {}))), [hang], limits=Limits(seconds=5)), "t")
            )
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    ran = await ended(runs[0])
    assert ran.end in (("stopped", "time"), ("cancelled", "supervisor_closed"))
    assert ran.kinds == ["cancelled"]


async def test_canc_08_a_tool_that_waits_for_what_never_comes() -> None:
    async with stage() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "task")
        await started(run, 1)
        run.cancel()
        await run.wait()
        ran = await ended(run)
    assert ran.kinds == ["cancelled"]
    assert ran.outcome.cancel_seconds == 0


async def test_race_01_cancelled_before_it_has_begun() -> None:
    async with stage() as supervisor:
        model = scripted(say("never"))
        run = await supervisor.start(Agent(model), "task")
        assert supervisor.runs[run.id] is run
        run.cancel("at once")
        await run.wait()
        ran = await ended(run)
    assert ran.end == ("cancelled", "at once")
    assert model.asked == 0
    assert ran.of(RunStarted) == []


async def test_race_02_cancelled_in_the_queue() -> None:
    async with stage(max_runs=1) as supervisor:
        first = await supervisor.start(Agent(scripted(call(("hang", {}))), [hang]), "first")
        model = scripted(say("never"))
        second = await supervisor.start(Agent(model), "second")
        await started(first, 1)
        second.cancel("not needed")
        await second.wait()
        ran = await ended(second)
        assert first.state == "running"
    assert ran.end == ("cancelled", "not needed")
    assert model.asked == 0
    assert len(ran.of(RunEnded)) == 1


async def test_race_04_what_a_dispatched_tool_did_after_the_cancel_is_named() -> None:
    sent: list[str] = []

    @tool(effect=writes("mail"))
    async def send(to: str) -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
        sent.append(to)
        return f"sent to {to}"

    async with stage() as supervisor:
        calls = call(("look", {"what": "a"}), ("send", {"to": "a"}), ("send", {"to": "b"}))
        run = await supervisor.start(Agent(scripted(calls), [look, send]), "task")
        await started(run, 2)
        run.cancel("too late")
        await run.wait()
        ran = await ended(run)
    assert sent == ["a"]
    assert ran.kinds == ["finished", "finished", "not_run"]
    assert ran.end == ("cancelled", "too late")
    assert ran.outcome.after_cancel == (ran.outcome.calls[1].id,)
    assert ran.outcome.not_executed == (ran.outcome.calls[2].id,)


async def test_time_01_a_tool_that_never_returns_has_a_deadline_by_default() -> None:
    ran = await play(Agent(scripted(call(("hang", {}), ("look", {"what": "a"})), say("done")), [hang, look]))
    assert hang.timeout == 60
    assert ran.kinds == ["timed_out", "finished"]
    assert "did not end within 60 seconds" in ran.seen[0]
    assert ran.outcome.seconds == pytest.approx(60)
    assert ran.end == ("completed", "answer")


class LibraryTimeout(Exception):
    """What many libraries call theirs."""


LibraryTimeout.__name__ = "TimeoutException"


@pytest.mark.parametrize(
    "failure",
    [
        TimeoutError("slow"),
        concurrent.futures.TimeoutError("slow"),
        LibraryTimeout("slow"),
        ExceptionGroup("group", [ExceptionGroup("inner", [TimeoutError("slow")])]),
    ],
    ids=["builtin", "futures", "library", "group"],
)
async def test_time_02_every_timeout_is_one_kind_of_result(failure: Exception) -> None:
    @tool(effect="reads")
    async def slow() -> str:
        raise failure

    ran = await play(Agent(scripted(call(("slow", {}), ("look", {"what": "a"})), say("done")), [slow, look]))
    assert ran.kinds == ["timed_out", "finished"]
    assert [result.error for result in ran.results] == ["timeout", None]
    assert ran.end == ("completed", "answer")


@tool(effect="reads", timeout=3600)
async def train(minutes: float) -> str:
    """Work for a long time without a word."""
    await anyio.sleep(minutes * 60)
    return "trained"


async def test_wdog_01_a_long_call_with_a_deadline_of_its_own_is_no_silence() -> None:
    limits = Limits(seconds=3 * 3600)
    ran = await play(Agent(scripted(call(("train", {"minutes": 30})), say("done")), [train], limits=limits))
    assert ran.end == ("completed", "answer")
    assert ran.outcome.seconds == pytest.approx(1800)


async def test_wdog_01_nor_is_a_slow_model_or_a_pause() -> None:
    model = scripted(say("done", delay=500), timeouts=Timeouts(first_chunk=600, total=700))
    assert (await play(Agent(model))).end == ("completed", "answer")
    async with stage() as supervisor:
        run = await supervisor.start(Agent(scripted(call(("look", {"what": "a"})), say("done")), [look]), "task")
        run.pause()
        await anyio.sleep(1000)
        run.resume()
        assert (await run.wait()).status == "completed"


async def test_wdog_01_nor_is_waiting_for_a_provider_that_holds_everybody_back() -> None:
    """One run is told to come back in 200 s; another one that asks the same provider waits with it."""
    async with stage() as supervisor:
        first_model, second_model = scripted(fail("rate_limited", retry_after=200), say("a")), scripted(say("b"))
        first_model.provider = second_model.provider = "one"  # type: ignore[attr-defined]  # models may have one
        first = await supervisor.start(Agent(first_model), "first")
        await anyio.sleep(1)
        second = await supervisor.start(Agent(second_model), "second")
        outcomes = await first.wait(), await second.wait()
    assert [outcome.answer for outcome in outcomes] == ["a", "b"]
    assert outcomes[1].seconds >= 199


async def test_wdog_02_of_a_call_past_its_time_only_the_call_is_ended_and_named() -> None:
    model = scripted(call(("train", {"minutes": 61})), call(("look", {"what": "a"})), say("done"))
    ran = await play(Agent(model, [train, look], limits=Limits(seconds=3 * 3600)))
    assert ran.kinds == ["timed_out", "finished"]
    assert ran.executed == 2
    assert ran.outcome.calls[0].ran == pytest.approx(3600)
    assert "Check the state before you try again" in ran.seen[0]
    assert ran.end == ("completed", "answer")


async def test_dead_01_agents_that_ask_each_other_end_at_the_depth() -> None:
    seen: list[str] = []
    agents: dict[str, Agent] = {}

    def asker(name: str, other: str) -> Agent:
        @tool(effect="nothing")
        async def ask(question: str) -> str:
            answer = await agents[other].as_tool().function(task=question)
            seen.append(f"{name} heard: {answer.content}")
            return seen[-1]

        def script(request: Request, n: int) -> Step:
            return say(f"{name} has asked") if request.messages[-1].role == "tool" else call(("ask", {"question": "?"}))

        return Agent(ScriptedModel(script), [ask], name=name)

    for second in ("b", "a"):  # A asks B and B asks A; A asks A
        seen.clear()
        agents.update(a=asker("a", second), b=asker("b", "a"))
        ran = await play(agents["a"])
        assert ran.end == ("completed", "answer")
        innermost, deep = ran.run, 0
        while innermost.children:
            (innermost,) = innermost.children
            deep += 1
        if second == "b":  # the tool of A would reach itself for the third time
            assert deep == 2
            assert [record.kind for record in innermost.outcome.calls] == ["refused"]
            assert seen == ["b heard: a has asked", "a heard: b has asked"]
        else:  # so would A itself
            assert deep == 1
            assert "No sub-agent was started" in seen[0]
            assert "for the 3rd time" in seen[0]
            assert seen[1:] == ["a heard: a has asked"]


async def test_dead_01_such_agents_can_still_be_stopped() -> None:
    inner = Agent(scripted(call(("hang", {}))), [hang], name="inner")
    outer = Agent(scripted(call(("inner", {"task": "?"}))), [inner.as_tool()], name="outer")
    async with stage() as supervisor:
        run = await supervisor.start(outer, "task")
        await started(run, 1)
        await anyio.wait_all_tasks_blocked()
        (child,) = run.children
        assert child.state == "running"
        run.cancel("stop")
        outcome = await run.wait()
        ran = await ended(child)
    assert (outcome.status, outcome.cancel_seconds) == ("cancelled", 0)
    assert ran.end[0] == "cancelled"


async def test_dead_02_a_cancel_from_inside_passes_a_flood() -> None:
    """A tool floods its own run with messages and ends it: the stop does not queue behind the flood."""

    @tool
    async def flood() -> str:
        run = current_call().run
        for n in range(5000):
            run.steer(f"message {n}")
        run.cancel("from inside")
        await anyio.sleep_forever()
        return ""

    async with stage() as supervisor:
        model = scripted(call(("flood", {}), ("look", {"what": "a"})))
        run = await supervisor.start(Agent(model, [flood, look]), "task")
        await run.wait()
        ran = await ended(run)
        with pytest.raises(RunEndedError):
            run.steer("too late")
    assert ran.end == ("cancelled", "from inside")
    assert ran.kinds == ["cancelled", "not_run"]
    assert model.asked == 1


async def test_errg_02_whoever_waits_for_a_run_that_crashes_is_told_at_once() -> None:
    class Bad(Wording):
        """A host's own, with a defect."""

        def failed(self, *args: Any, **more: Any) -> Any:
            raise LookupError("no such text")

    @tool
    async def boom() -> str:
        await anyio.sleep(1)
        raise ValueError("x")

    outcomes: list[Any] = []

    async def wait(run: Run) -> None:
        outcomes.append((await run.wait(), anyio.current_time()))

    async with stage(wording=Bad()) as supervisor, anyio.create_task_group() as tasks:
        began = anyio.current_time()
        run = await supervisor.start(Agent(scripted(call(("look", {"what": "a"}), ("boom", {}))), [boom, look]), "task")
        other = await supervisor.start(Agent(scripted(call(("look", {"what": "b"})), say("fine")), [look]), "other")
        for _ in range(10):
            tasks.start_soon(wait, run)
        assert (await other.wait()).status == "completed"
        await run.wait()
        ran = await ended(run)
    assert len(outcomes) == 10
    assert {(outcome.status, outcome.reason) for outcome, _ in outcomes} == {("failed", "crash")}
    assert max(at for _, at in outcomes) - began == pytest.approx(1)
    assert "no such text" in (ran.outcome.cause or "")
    assert ran.kinds == ["finished", "abandoned"]
