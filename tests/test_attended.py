"""Runs that a person attends: the ladder's last step is a pause; and the modes of the ladder by run."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from support import facts, of, perform, scripted, supervised
from watchkeeper import Agent, ConfigurationError, Limits, Outcome, Profile, Run, RunEndedError, tool
from watchkeeper.actors.agent import AgentActor
from watchkeeper.messages import (
    Blocked,
    CallEnded,
    ChildEnded,
    ChildStarted,
    Event,
    ModelRequested,
    Nudged,
    Paused,
    Resumed,
    RunStarted,
    Stopped,
)
from watchkeeper.model import Request
from watchkeeper.profiles import PROFILES
from watchkeeper.testing import ScriptedModel, call, say
from watchkeeper.thresholds import Steps, Thresholds

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LONG = Limits(max_turns=200)
ATTENDED = Profile(attended=True, limits=LONG)


@tool(effect="reads")
async def look(n: int = 0) -> str:
    """Look."""
    return "as ever"


def asked_of(run: Run) -> list[Request]:
    model = run.agent.model
    assert isinstance(model, ScriptedModel)
    return model.requests


def stuck() -> ScriptedModel:
    """A model that makes the same call for ever."""
    return ScriptedModel(lambda request, n: call(("look", {}), delay=1.0))


def stuck_until(turn: int) -> ScriptedModel:
    return ScriptedModel(lambda request, n: call(("look", {}), delay=1.0) if n <= turn else say("done"))


async def ended(agent: Agent, **start: Any) -> tuple[Outcome, list[Event]]:
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(agent, "task", **start)
        outcome = await run.wait()
        return outcome, await facts(run)


async def until_paused(run: Run, after: int = 0) -> Paused:
    """The first pause behind a fact, once the run holds."""
    async for event in run.events(after):
        if isinstance(event, Paused):
            await anyio.sleep(0.1)
            assert run.state == "paused"
            return event
    raise AssertionError(f"it was never paused: {run.outcome}")


# -- the pause --------------------------------------------------------------------------------------------------------


async def test_where_it_would_be_stopped_it_is_paused() -> None:
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck(), [look], profile=ATTENDED), "task")
        paused = await until_paused(run)
        requests = len(asked_of(run))
        await anyio.sleep(1000)
        assert len(asked_of(run)) == requests == 8
        assert run.state == "paused"
        run.cancel("seen enough")
        outcome = await run.wait()
        events = await facts(run)
    assert paused.reason == "loop"
    assert paused.deadline == 3600
    verdict = paused.verdict
    assert verdict is not None
    assert (verdict.action, verdict.finding.detector, verdict.finding.count) == ("pause", "equal", 8)
    assert [type(event) for event in events if isinstance(event, Nudged | Blocked | Paused)] == [
        *(Nudged, Blocked, Nudged, Paused, Nudged)
    ]
    assert (outcome.status, outcome.reason) == ("cancelled", "seen enough")
    assert not of(events, Stopped)


async def test_nobody_comes() -> None:
    """At the deadline it is stopped, for what it was paused for; its time stood still meanwhile."""
    limits = Limits(max_turns=200, pause=600.0, seconds=300.0)
    agent = Agent(stuck(), [look], profile=msgspec.structs.replace(ATTENDED, limits=limits))
    outcome, events = await perform(agent)
    (paused,), (stopped,) = of(events, Paused), of(events, Stopped)
    assert paused.deadline == 600
    assert stopped.cause == paused.n
    assert stopped.verdict == paused.verdict == outcome.verdict
    assert (outcome.status, outcome.reason) == ("stopped", "loop")
    assert stopped.t - paused.t == pytest.approx(600, abs=0.1)
    assert "It was paused for a person, and nobody resumed it within 600 seconds." in outcome.message


async def test_whoever_resumes_it_is_asked_again_after_half_as_many_laps() -> None:
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck(), [look], profile=ATTENDED), "task")
        counts, last = [], 0
        for _ in range(3):
            paused = await until_paused(run, last)
            assert paused.verdict is not None
            counts.append(paused.verdict.finding.count)
            last = paused.n
            run.resume("go on")
        run.cancel()
        await run.wait()
    assert counts == [8, 12, 16]


async def test_no_resume_lifts_a_hard_ceiling() -> None:
    """Resumed whenever it is paused, as by somebody who always allows: the breaker ends it."""
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck(), [look], profile=ATTENDED), "task")
        async for event in run.events():
            if isinstance(event, Paused):
                run.resume()
        outcome = await run.wait()
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("stopped", "breaker")
    assert len(of(events, Paused)) == len(of(events, Resumed)) == 6
    assert len(of(events, CallEnded)) == 30


async def test_silence_stops_an_attended_run_too() -> None:
    class Mute(AgentActor):
        async def run(self, batches: Any) -> Any:
            await anyio.sleep_forever()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("watchkeeper.wiring.AgentActor", Mute)
        outcome, events = await ended(Agent(stuck(), [look], profile=ATTENDED))
    assert (outcome.status, outcome.reason) == ("stopped", "silence")
    assert not of(events, Paused)


async def test_it_goes_on_to_its_answer() -> None:
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck_until(8), [look], profile=ATTENDED), "task")
        await until_paused(run)
        run.resume()
        outcome = await run.wait()
    assert (outcome.status, outcome.answer) == ("completed", "done")


async def test_the_model_reads_why_it_was_held() -> None:
    """And nothing of it looks as if the user had interrupted."""
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck_until(8), [look], profile=ATTENDED), "task")
        await until_paused(run)
        run.resume()
        await run.wait()
    last = asked_of(run)[-1].messages[-1]
    assert last.mark == "watchkeeper"
    assert "has given the same result 8 times" in last.content
    assert "held here for a person to look at" in last.content


async def test_what_the_person_says_is_read_and_begins_the_streak_anew() -> None:
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck(), [look], profile=ATTENDED), "task")
        first = await until_paused(run)
        run.steer("Look elsewhere.")
        run.resume()
        second = await until_paused(run, first.n)
        run.cancel()
        await run.wait()
        events = await facts(run)
    assert second.verdict is not None
    assert second.verdict.finding.count == 8
    assert [type(event) for event in events if event.n > first.n and isinstance(event, Nudged | Blocked | Paused)] == [
        *(Nudged, Nudged, Blocked, Nudged, Paused, Nudged)
    ]


async def test_a_verdict_while_a_person_has_paused_it_is_not_lost() -> None:
    """The turn's calls went on; its verdict makes the pause one of the watchdog's, with the time that is left."""
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck(), [look], profile=ATTENDED), "task")
        await anyio.sleep(7.5)  # the eighth request is under way
        run.pause("lunch", seconds=500)
        outcome = await run.wait()
        events = await facts(run)
    by_hand, by_watchdog = of(events, Paused)
    assert (by_hand.reason, by_hand.verdict) == ("lunch", None)
    assert by_watchdog.deadline == pytest.approx(499.5, abs=0.1)
    assert (outcome.status, outcome.reason) == ("stopped", "loop")
    assert of(events, Stopped)[0].t == pytest.approx(7.5 + 500, abs=0.1)


async def test_a_pause_by_hand_after_a_resume_expires_as_such() -> None:
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck(), [look], profile=ATTENDED), "task")
        await until_paused(run)
        run.resume()
        await anyio.sleep(0.5)
        run.pause("lunch", seconds=50)
        outcome = await run.wait()
    assert (outcome.status, outcome.reason, outcome.verdict) == ("stopped", "pause_expired", None)


async def test_a_run_that_was_ended_cannot_be_resumed() -> None:
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(stuck(), [look], profile=ATTENDED), "task")
        await until_paused(run)
        run.cancel()
        with pytest.raises(RunEndedError):
            run.resume()
        await run.wait()


# -- who is attended --------------------------------------------------------------------------------------------------


async def test_unattended_is_the_default() -> None:
    outcome, events = await ended(Agent(stuck(), [look]))
    assert (outcome.status, outcome.reason) == ("stopped", "loop")
    assert not of(events, Paused)
    assert of(events, RunStarted)[0].attended is False


async def test_it_can_be_said_where_the_run_is_started() -> None:
    for profile, attended in ((PROFILES["default"], True), (ATTENDED, False)):
        outcome, events = await ended(Agent(stuck(), [look], profile=profile), attended=attended)
        assert bool(of(events, Paused)) is attended
        assert (outcome.status, outcome.reason) == ("stopped", "loop")
        assert of(events, RunStarted)[0].attended is attended


async def test_a_sub_agent_is_not_attended_its_stop_is_a_result_for_its_parent() -> None:
    worker = Agent(stuck(), [look], name="worker", profile=ATTENDED)
    boss = Agent(scripted(call(("worker", {"task": "look"})), say("done")), [worker.as_tool()], profile=ATTENDED)
    outcome, events = await ended(boss)
    assert (outcome.status, outcome.answer) == ("completed", "done")
    (child,) = of(events, ChildEnded)
    assert (child.status, child.reason) == ("stopped", "loop")
    assert not of(events, Paused)


# -- modes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kinds"), [("enforce", {Nudged, Blocked, Stopped}), ("nudge", {Nudged}), ("observe", set())]
)
async def test_the_mode_of_a_run(mode: Any, kinds: set[type[Event]]) -> None:
    """Also against what the profile says; in each of them the breaker is the end."""
    for own in ("observe", "enforce"):
        profile = Profile(mode=own, limits=Limits(max_turns=20, finish_turns=0))
        outcome, events = await ended(Agent(stuck(), [look], profile=profile), mode=mode)
        assert {type(event) for event in events} & {Nudged, Blocked, Stopped} == kinds
        assert outcome.reason == ("loop" if mode == "enforce" else "turns")
        assert of(events, RunStarted)[0].mode == mode


@pytest.mark.parametrize("mode", ["nudge", "observe"])
async def test_the_breaker_ends_the_milder_modes(mode: Any) -> None:
    outcome, _ = await ended(Agent(stuck(), [look], profile=ATTENDED), mode=mode)
    assert (outcome.status, outcome.reason) == ("stopped", "breaker")


async def test_the_mode_goes_down_to_sub_agents() -> None:
    for mode, status in (("observe", "completed"), (None, "stopped")):
        worker = Agent(stuck_until(12), [look], name="worker")
        boss = Agent(scripted(call(("worker", {"task": "look"})), say("done")), [worker.as_tool()])
        _, events = await ended(boss, mode=mode)
        assert of(events, ChildEnded)[0].status == status


async def test_a_mode_that_is_none() -> None:
    async with supervised() as supervisor:
        with pytest.raises(ConfigurationError, match="mode must be one of observe, nudge, enforce, not 'block'"):
            await supervisor.start(Agent(stuck(), [look]), "task", mode="block")  # type: ignore[arg-type]


# -- what a person reads ----------------------------------------------------------------------------------------------


async def test_a_stop_says_where_it_began_and_what_it_cost() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"n": n if n < 4 else 0})))
    outcome, events = await ended(Agent(model, [look]))
    assert outcome.verdict is not None
    finding = outcome.verdict.finding
    assert (finding.onset_call, finding.calls_since) == (4, 8)
    assert finding.tokens_since > 0
    onset = events[finding.onset - 1]
    assert isinstance(onset, CallEnded)
    assert onset.result.call_id == of(events, CallEnded)[3].result.call_id
    assert "equal call, equal result (look), 8 times, from call 4 on; 8 calls and" in outcome.message
    assert "tokens went into it." in outcome.message


# -- volume and hand-over over sub-agents -----------------------------------------------------------------------------


async def test_the_same_sub_task_again_and_again() -> None:
    """In other words each time, which no comparison of results would see."""
    answers = (
        "Nothing is there.",
        "I could not find it!",
        "It seems to be gone",
        "No trace of it",
        "All is empty, alas",
    )
    worker = Agent(scripted(*map(say, answers)), name="worker")
    model = ScriptedModel(lambda request, n: call(("worker", {"task": "look"})))
    outcome, events = await ended(Agent(model, [worker.as_tool()]))
    assert (outcome.status, outcome.reason) == ("stopped", "loop")
    assert outcome.verdict is not None
    assert (outcome.verdict.finding.detector, outcome.verdict.finding.count) == ("handover", 5)
    assert len(of(events, ChildStarted)) == 4  # the fifth is refused: the call was blocked
    assert len({event.key for event in of(events, ChildStarted)}) == 1
    assert {event.call_id for event in of(events, ChildStarted)} <= {e.result.call_id for e in of(events, CallEnded)}


async def test_a_parent_sees_the_volume_of_the_whole_tree() -> None:
    deep = Agent(scripted(call(("look", {"n": 1}), ("look", {"n": 2})), say("deep")), [look], name="deep")
    middle = Agent(scripted(call(("deep", {"task": "x"})), say("middle")), [deep.as_tool()], name="middle")
    boss = Agent(scripted(call(("middle", {"task": "x"})), say("done")), [middle.as_tool()])
    outcome, events = await ended(boss)
    (child,) = of(events, ChildEnded)
    assert (child.calls, child.depth) == (1 + 2, 2)
    own = outcome.usage.total
    assert child.tokens == child.spent["tokens"] == outcome.spent["tokens"] - own


async def test_but_not_its_repeats_as_its_own() -> None:
    """Each of them looks twice, which is no loop; together they would be one."""
    worker = Agent(
        ScriptedModel(lambda request, n: call(("look", {})) if n % 3 else say("done")), [look], name="worker"
    )
    model = ScriptedModel(lambda request, n: call(("worker", {"task": f"part {n}"})) if n <= 8 else say("done"))
    outcome, events = await ended(Agent(model, [worker.as_tool()], limits=LONG))
    assert outcome.status == "completed"
    assert not of(events, Nudged)
    assert sum(event.calls for event in of(events, ChildEnded)) == 16


async def test_a_line_that_the_tree_passes_stops_the_parent() -> None:
    worker = Agent(
        ScriptedModel(lambda request, n: call(("look", {"n": n})) if n % 11 else say("x")), [look], name="worker"
    )
    model = ScriptedModel(lambda request, n: call(("worker", {"task": f"part {n}"})))
    thresholds = Thresholds(volume_calls=40, volume=Steps(100, None, 150))
    profile = Profile(thresholds=thresholds, limits=LONG)
    outcome, events = await ended(Agent(model, [worker.as_tool()], profile=profile))
    assert (outcome.status, outcome.reason) == ("stopped", "volume")
    assert outcome.verdict is not None
    assert outcome.verdict.finding.count >= 150
    assert len(of(events, Nudged)) == 1
    assert len(of(events, ModelRequested)) == 6
