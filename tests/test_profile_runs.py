"""Each profile runs its example to the exact call."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from support import of, perform, scripted
from watchkeeper import Agent, Limits, ToolError, tool
from watchkeeper.messages import Blocked, CallEnded, CallStarted, Nudged, PushedBack, Reminded, Stopped
from watchkeeper.testing import ScriptedModel, call, forever, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(what: str = "x") -> str:
    """Look."""
    return "the same as ever"


@tool
async def broken(n: int = 0) -> str:
    """Fail."""
    raise ToolError("the disk is full")


def stubborn(*calls: Any) -> ScriptedModel:
    return ScriptedModel(forever(call(*calls)))


async def test_default_tells_at_the_3rd_blocks_at_the_5th_stops_at_the_8th() -> None:
    outcome, events = await perform(Agent(stubborn(("look", {})), [look]))
    assert (outcome.status, outcome.reason) == ("stopped", "loop")
    assert [event.turn for event in of(events, Nudged)] == [3, 5]
    assert [event.turn for event in of(events, Blocked)] == [5]
    assert [event.turn for event in of(events, Stopped)] == [8]
    assert len(of(events, CallStarted)) == 5
    assert outcome.verdict is not None
    assert outcome.verdict.finding.count == 8


async def test_default_tool_failing_with_varied_arguments() -> None:
    model = ScriptedModel(lambda request, n: call(("broken", {"n": n})))
    outcome, events = await perform(Agent(model, [broken]))
    assert (outcome.status, outcome.reason) == ("stopped", "tool_failing")
    assert [event.turn for event in of(events, Nudged)] == [3, 5]
    assert of(events, Blocked)[0].keys == ("tool:broken",)
    assert len(of(events, CallStarted)) == 5
    assert outcome.turns == 8


async def test_default_bad_arguments() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"wath": n})))
    outcome, events = await perform(Agent(model, [look]))
    assert (outcome.status, outcome.reason) == ("stopped", "bad_arguments")
    assert outcome.turns == 5
    assert of(events, CallStarted) == []
    assert [event.turn for event in of(events, Nudged) if event.by == "arguments"] == [4]


async def test_default_alternation_is_stopped_within_five_laps() -> None:
    model = ScriptedModel(lambda request, n: call(("look", {"what": "ab"[n % 2]})))
    outcome, events = await perform(Agent(model, [look]))
    assert (outcome.status, outcome.reason) == ("stopped", "loop")
    assert outcome.turns == 10
    assert of(events, Nudged)[0].turn == 6


async def test_loopagent_refuses_the_second_equal_proposal_with_the_earlier_result() -> None:
    outcome, events = await perform(Agent(stubborn(("look", {})), [look], profile="loopagent"))
    ended = of(events, CallEnded)
    assert ended[0].result.kind == "finished"
    assert ended[1].result.kind == "refused"
    assert "the same as ever" in ended[1].result.content
    assert len(of(events, CallStarted)) == 1
    assert (outcome.status, outcome.reason, outcome.turns) == ("stopped", "loop", 8)


async def test_loopagent_ends_after_three_failures_in_a_row_of_a_tool() -> None:
    model = ScriptedModel(lambda request, n: call(("broken", {"n": n})))
    outcome, events = await perform(Agent(model, [broken], profile="loopagent"))
    assert (outcome.status, outcome.reason, outcome.turns) == ("stopped", "tool_failing", 3)
    assert len(of(events, CallStarted)) == 3


async def test_loopagent_pushes_back_twice_for_evidence_and_has_one_turn_and_two_push_backs_beyond_the_limit() -> None:
    outcome, events = await perform(
        Agent(ScriptedModel(forever(say("surely it is fine"))), [look], profile="loopagent", required=["look"])
    )
    assert (outcome.status, outcome.reason) == ("stopped", "no_evidence")
    assert len(of(events, PushedBack)) == 2
    assert outcome.rejected == ("surely it is fine",) * 3

    counter = iter(range(10**6))
    limits = Limits(max_turns=4, finish_turns=3, pushbacks=2)
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(next(counter))})))
    outcome, _ = await perform(Agent(model, [look], profile="loopagent", limits=limits))
    assert (outcome.reason, outcome.turns) == ("turns", 4 + 1 + 2)


async def test_loopagent_runs_writers_alone() -> None:
    from watchkeeper import Effect

    spans = []

    def effect(name: str) -> Effect:
        return Effect(writes=(name,))

    @tool(effect=effect)
    async def write(name: str) -> None:
        began = anyio.current_time()
        await anyio.sleep(1)
        spans.append((began, anyio.current_time()))

    steps = [call(("write", {"name": "a"}), ("write", {"name": "b"})), say("done")]
    await perform(Agent(scripted(*steps), [write], profile="loopagent"))
    assert [round(began) for began, _ in spans] == [0, 1]


async def test_demo_nudges_at_5_and_stops_at_8_earlier_equal_calls() -> None:
    outcome, events = await perform(Agent(stubborn(("look", {})), [look], profile="demo"))
    assert [event.turn for event in of(events, Nudged)] == [6]
    assert (outcome.reason, outcome.turns, len(of(events, CallStarted))) == ("loop", 9, 9)


async def test_demo_has_ten_turns_and_a_plain_stop() -> None:
    counter = iter(range(10**6))
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(next(counter))})))
    outcome, events = await perform(Agent(model, [look], profile="demo"))
    assert (outcome.status, outcome.reason, outcome.turns) == ("stopped", "turns", 10)
    assert [event for event in of(events, Reminded) if event.about.startswith("finish")] == []


async def test_demo_breaker_at_10_earlier_equal_calls() -> None:
    """Interleaved with others, so that no streak is seen: the breaker counts within the window."""
    model = ScriptedModel(lambda request, n: call(("look", {"what": "same"}), ("look", {"what": str(n)})))
    agent = Agent(model, [look], profile="demo", limits=Limits(max_turns=40, finish_turns=0))
    outcome, _ = await perform(agent)
    assert outcome.reason in ("loop", "breaker")
    fresh = ScriptedModel(lambda request, n: call(("look", {"what": "same" if n % 2 else str(n)})))
    agent = Agent(fresh, [look], profile="demo", limits=Limits(max_turns=40, finish_turns=0))
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.reason) == ("stopped", "breaker")
    assert len([event for event in of(events, CallEnded) if '"same"' in event.arguments]) == 11


async def test_production_nudges_at_10_and_stops_at_20_earlier_equal_calls() -> None:
    agent = Agent(stubborn(("look", {})), [look], profile="production", limits=Limits(max_turns=60))
    outcome, events = await perform(agent)
    assert [event.turn for event in of(events, Nudged) if event.by == "equal"] == [11]
    assert (outcome.reason, len(of(events, CallStarted))) == ("loop", 21)


async def test_safe_loop_spaces_the_calls_of_a_tool_and_denies_shell_and_delete() -> None:
    @tool
    async def run_command(argv: list[str]) -> str:
        return "ran"

    @tool
    async def delete_file(path: str) -> str:
        return "deleted"

    steps = [
        call(("look", {"what": "a"}), ("run_command", {"argv": ["ls"]}), ("delete_file", {"path": "x"})),
        call(("look", {"what": "b"})),
        say("slow", delay=4.5),
    ]
    outcome, events = await perform(Agent(scripted(*steps), [look, run_command, delete_file], profile="safe-loop"))
    kinds = [record.kind for record in outcome.calls]
    assert kinds == ["finished", "denied", "denied", "refused"]
    refused = of(events, CallEnded)[-1].result
    assert refused.error == "too_soon"
    assert "5.0 seconds" in refused.content


async def test_safe_loop_waits_less_than_a_second_and_reminds_above_70_percent() -> None:
    counter = iter(range(10**6))

    def script(request: Any, n: int) -> Any:
        return call(("look", {"what": str(next(counter))}), delay=4.5)

    outcome, events = await perform(Agent(ScriptedModel(script), [look], profile="safe-loop"))
    assert outcome.reason == "turns"
    assert len(of(events, CallStarted)) == 15
    waits = [event.wait for event in of(events, CallEnded) if event.result.kind == "finished"]
    assert waits[0] == 0
    assert all(0.4 < wait < 1.0 for wait in waits[1:])
    (reminder,) = [event for event in of(events, Reminded) if event.about == "turns"]
    assert reminder.turn == 11  # 11 of 15 turns are more than 70 %


async def test_safe_runner_refuses_the_third_proposal_and_hands_over_at_the_sixth_call() -> None:
    outcome, events = await perform(Agent(stubborn(("look", {})), [look], profile="safe-runner"))
    ended = of(events, CallEnded)
    assert [event.result.kind for event in ended[:3]] == ["finished", "finished", "refused"]
    assert "Change your approach" in ended[2].result.content
    assert "the same as ever" not in ended[2].result.content
    assert outcome.status == "handed_over"
    assert outcome.reason != "calls"

    counter = iter(range(10**6))
    model = ScriptedModel(lambda request, n: call(("look", {"what": str(next(counter))})))
    outcome, events = await perform(Agent(model, [look], profile="safe-runner"))
    assert (outcome.status, outcome.reason) == ("handed_over", "calls")
    assert len(of(events, CallStarted)) == 5
    assert outcome.calls[-1].kind == "not_run"
