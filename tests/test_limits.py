"""Every dimension of a run's limits, each by itself: what it counts, what happens at it, where its default stands."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from support import facts, of, perform, scripted, supervised
from watchkeeper import Agent, Budget, ConfigurationError, Limits, ModelError, tool
from watchkeeper.messages import CallEnded, CallStarted, Held, ModelRequested, Settled, Usage
from watchkeeper.profiles import DIMENSIONS
from watchkeeper.testing import ScriptedModel, Step, call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FAR: dict[str, Any] = {"max_turns": 10**6, "max_calls": None, "tokens": None, "seconds": None}


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(effect="reads")
async def search(query: str, seconds: float = 0.0) -> str:
    """Search for something."""
    await anyio.sleep(seconds)
    return f"found {query}"


def looking(**step: Any) -> ScriptedModel:
    """A model that looks at something new for ever, whatever it is told."""
    return ScriptedModel(lambda request, n: call(("look", {"what": str(n)}), **step))


def test_each_default_is_stated_where_limits_are() -> None:
    assert {name: limit for name, limit in Limits().amounts().items() if limit is not None} == {
        "turns": 20,
        "calls": 1000,
        "tokens": 2_000_000,
    }
    assert (Limits().seconds, Limits().working_seconds, Limits().reply_tokens) == (1800.0, None, 4096)
    assert tuple(Limits().amounts()) == DIMENSIONS


@pytest.mark.parametrize(
    ("limits", "reason", "most"),
    [
        (Limits(**FAR | {"max_turns": 4}), "turns", {"turns": 4}),
        (Limits(**FAR | {"max_calls": 4}), "calls", {"calls": 4}),
        (Limits(**FAR | {"tokens": 9000}, reply_tokens=500), "tokens", {"tokens": 9000}),
        (Limits(**FAR, input_tokens=9000, reply_tokens=500), "input_tokens", {"input_tokens": 9000}),
        (Limits(**FAR, output_tokens=900, reply_tokens=500), "output_tokens", {"output_tokens": 900}),
    ],
    ids=["turns", "calls", "tokens", "input_tokens", "output_tokens"],
)
async def test_a_run_ends_at_its_limit_and_never_beyond(limits: Limits, reason: str, most: dict[str, float]) -> None:
    outcome, _ = await perform(Agent(looking(usage=Usage(200, 20)), [look], limits=limits))
    assert (outcome.status, outcome.reason) == ("stopped", reason)
    for name, limit in most.items():
        assert 0 < outcome.spent[name] <= limit
    assert outcome.spent["tokens"] == outcome.spent["input_tokens"] + outcome.spent["output_tokens"]


async def test_tokens_in_and_out_are_held_and_settled_apart() -> None:
    step = call(("look", {"what": "a"}), usage=Usage(321, 12))
    outcome, events = await perform(Agent(scripted(step, say("done", usage=None)), [look]))
    asked, held, settled = of(events, ModelRequested), of(events, Held), of(events, Settled)
    for request, one in zip(asked, held, strict=True):
        assert one.amounts == {
            "tokens": request.input_estimate + 4096,
            "input_tokens": request.input_estimate,
            "output_tokens": request.max_tokens,
        }
    assert settled[0].amounts == {"tokens": 333, "input_tokens": 321, "output_tokens": 12}
    # Nobody says what the second one took: it is charged at its hold, and that is said.
    assert (settled[1].amounts, settled[1].estimated) == (held[1].amounts, True)
    assert outcome.usage == Usage(321 + asked[1].input_estimate, 12 + 4096, estimated=True)


async def test_the_reply_is_cut_to_what_is_left_of_any_dimension() -> None:
    for limits, most in (
        (Limits(reply_tokens=700), 700),
        (Limits(output_tokens=300), 300),
        (Limits(tokens=600), 600),
    ):
        model = scripted(say("done"))
        _, events = await perform(Agent(model, limits=limits))
        (request,) = of(events, ModelRequested)
        taken = request.input_estimate if limits.tokens == 600 else 0
        assert request.max_tokens == model.requests[0].max_tokens == most - taken


# -- calls of one tool ------------------------------------------------------------------------------------------------


async def test_calls_of_one_tool_beyond_its_limit_are_not_run_and_the_run_goes_on() -> None:
    batch = call(*[("search", {"query": str(n)}) for n in range(4)], ("look", {"what": "a"}))
    agent = Agent(scripted(batch, call(("search", {"query": "x"})), say("done")), [look, search])
    agent.limits = Limits(calls_per_tool={"search": 3})
    outcome, events = await perform(agent)
    results = {event.result.call_id: event.result for event in of(events, CallEnded)}
    kinds = [results[record.id].kind for record in outcome.calls]
    assert kinds == ["finished"] * 3 + ["not_run", "finished", "not_run"]
    told = results[outcome.calls[3].id]
    assert (told.error, told.by) == ("too_many_calls", "calls:search")
    assert "the limit of 3 calls of search is reached" in told.content
    assert (outcome.status, outcome.answer) == ("completed", "done")
    assert (outcome.spent["calls:search"], outcome.spent["calls"]) == (3, 4)


async def test_calls_of_one_tool_are_shared_by_runs_and_sub_agents() -> None:
    child = Agent(
        scripted(call(*[("search", {"query": f"c{n}"}) for n in range(3)]), say("done")), [search], name="child"
    )
    steps = [call(("search", {"query": "p"})), call(("child", {"task": "?"})), say("done")]
    async with supervised(keep=1000, budget=Budget(**{"calls:search": 3})) as supervisor:
        run = await supervisor.start(Agent(scripted(*steps), [search, child.as_tool()]), "task")
        await run.wait()
        below = await facts(run.children[0])
    assert len(of(below, CallStarted)) == 2
    assert supervisor.budget.spent["calls:search"] == 3
    assert run.limits()["calls:search"] == 3


async def test_what_a_limit_must_be() -> None:
    for wrong in ({"tokens": -1}, {"input_tokens": -1}, {"working_seconds": -1.0}, {"calls_per_tool": {"look": -1}}):
        with pytest.raises(ConfigurationError, match="must be 0 or more, or None for no limit; not -1"):
            Agent(scripted(), [look], limits=Limits(**wrong))  # type: ignore[arg-type]


# -- wall time and working time ---------------------------------------------------------------------------------------


async def test_wall_time_ends_a_run_to_the_second() -> None:
    outcome, _ = await perform(Agent(looking(delay=3.0), [look], limits=Limits(**FAR | {"seconds": 20.0})))
    assert (outcome.status, outcome.reason) == ("stopped", "time")
    assert outcome.seconds == pytest.approx(20)


async def test_working_time_ends_a_run_to_the_second() -> None:
    outcome, _ = await perform(Agent(looking(delay=3.0), [look], limits=Limits(**FAR, working_seconds=20.0)))
    assert (outcome.status, outcome.reason) == ("stopped", "working_time")
    assert outcome.working_seconds == outcome.seconds == pytest.approx(20)
    assert "limit of working time" in outcome.message


def limited(n: int) -> Step:
    """Every second request meets a rate limit of 100 seconds."""
    if n % 2:
        return Step(error=ModelError("rate_limited", "slow down", retry_after=100.0), delay=1.0)
    return call(("search", {"query": str(n), "seconds": 2.0}), delay=1.0)


async def test_waits_for_a_rate_limit_are_no_working_time() -> None:
    model = ScriptedModel(lambda request, n: limited(n) if n < 9 else say("done"))
    limits = Limits(**FAR, working_seconds=30.0)
    outcome, _ = await perform(Agent(model, [search], limits=limits))
    assert outcome.status == "completed"
    assert outcome.seconds > 4 * 100
    assert outcome.working_seconds == pytest.approx(4 * (1 + 1 + 2), abs=0.5)


async def test_working_time_that_is_up_ends_a_run_between_its_waits() -> None:
    model = ScriptedModel(lambda request, n: limited(n))
    outcome, _ = await perform(Agent(model, [search], limits=Limits(**FAR, working_seconds=10.0)))
    assert (outcome.status, outcome.reason) == ("stopped", "working_time")
    assert outcome.working_seconds == pytest.approx(10)
    assert outcome.seconds == pytest.approx(3 * 100 + 10)


async def test_the_working_time_of_a_parent_stands_still_while_its_sub_agents_wait() -> None:
    waiting = Agent(scripted(fail("rate_limited", retry_after=100.0), say("done", delay=2.0)), name="child")
    waiting_too = Agent(scripted(fail("overloaded", retry_after=50.0), say("done")), name="other")
    both = call(("child", {"task": "a"}), ("other", {"task": "b"}))
    agent = Agent(scripted(both, say("done", delay=1.0)), [waiting.as_tool(), waiting_too.as_tool()])
    async with supervised() as supervisor:
        run = await supervisor.start(agent, "task")
        outcome = await run.wait()
    # Both wait for one provider's 100 s; then the child works for 2 s and the parent for 1 s.
    assert outcome.seconds > 100
    assert outcome.working_seconds == pytest.approx(3, abs=1.5)


async def test_a_pause_is_neither() -> None:
    async with supervised() as supervisor:
        limits = Limits(**FAR | {"seconds": 20.0}, working_seconds=15.0)
        run = await supervisor.start(Agent(looking(delay=1.0), [look], limits=limits), "task")
        await anyio.sleep(5.5)
        run.pause()
        await anyio.sleep(100)
        run.resume()
        outcome = await run.wait()
    assert outcome.reason == "working_time"
    assert outcome.seconds == pytest.approx(115)
    assert outcome.working_seconds == pytest.approx(15)


async def test_what_rounding_leaves_of_a_time_limit_is_waited_out() -> None:
    """Late on a clock the rest of a limit can be less than the clock can show: waiting for it would never end."""
    await anyio.sleep(1_000_000.3)
    async with supervised() as supervisor:
        agent = Agent(scripted(say("half", stall=True)), limits=Limits(seconds=0.0822))
        run = await supervisor.start(agent, "Do it.")
        looks = 0
        times = run.times

        def counted() -> Any:
            nonlocal looks
            looks += 1
            assert looks < 1000, "it looks at the clock again and again, and the clock stands still"
            return times()

        run.times = counted  # type: ignore[method-assign]
        outcome = await run.wait()
    assert outcome.reason == "time"
    assert outcome.seconds == pytest.approx(0.0822, abs=1e-5)
