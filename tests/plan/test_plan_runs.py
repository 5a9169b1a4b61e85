"""Planned runs from end to end: the plan, its steps with limits of their own, the summing up, and what goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import anyio
import msgspec
import pytest
from planned import asks_for, diligent, plan, prompt, restless

from support import facts, of, perform, scripted, supervised
from watchkeeper import (
    Agent,
    Budget,
    ConfigurationError,
    Event,
    Limits,
    Outcome,
    Planning,
    Price,
    Supervisor,
    TextTools,
    tool,
)
from watchkeeper.messages import (
    CallEnded,
    FindingMade,
    ModelReplied,
    ModelRequested,
    PlanChanged,
    Planned,
    PlanStep,
    PushedBack,
    Reminded,
    Result,
    StepEnded,
    StepRecord,
    StepStarted,
    TurnStarted,
    Usage,
)
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call, check_conversation, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TASK = "What are a and b?"


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at a thing."""
    await anyio.sleep(1)
    return f"saw {what}"


def agent_of(script: Any, *, plan: bool | Planning = True, limits: Limits = Limits(), **more: Any) -> Agent:  # noqa: B008
    model = ScriptedModel(script)
    return Agent(model, more.pop("tools", [look]), plan=plan, limits=limits, **more)


def ends(events: list[Event]) -> list[tuple[int, str, str]]:
    return [(event.number, event.ended, event.lacks) for event in of(events, StepEnded)]


def allowances(events: list[Event]) -> list[float]:
    return [event.allowance["turns"] for event in of(events, StepStarted)]


def check_steps(events: list[Event]) -> None:
    """Each step that was begun has one end, before the next begins."""
    marks = [event for event in events if isinstance(event, StepStarted | StepEnded)]
    assert [type(event) for event in marks] == [StepStarted, StepEnded] * (len(marks) // 2)
    assert [event.number for event in marks] == [n for n in range(1, len(marks) // 2 + 1) for _ in range(2)]


# -- as it should go --------------------------------------------------------------------------------------------------


async def test_a_plan_its_steps_and_the_summing_up() -> None:
    agent = agent_of(diligent("look at a", "look at b"))
    outcome, events = await perform(agent, TASK)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "That is the whole answer.", False)
    assert outcome.turns == 1 + 2 * 2 + 1
    (planned,) = of(events, Planned)
    assert planned.steps == (PlanStep("look at a"), PlanStep("look at b"))
    assert (planned.question, planned.whole) == ("what is asked", False)
    check_steps(events)
    assert ends(events) == [(1, "answer", ""), (2, "answer", "")]
    assert outcome.plan == (
        StepRecord("look at a", "answer", "Step number 1 found the pear.", turns=2),
        StepRecord("look at b", "answer", "Step number 2 found the plum.", turns=2),
    )
    assert [event.spent["calls"] for event in of(events, StepEnded)] == [1, 1]
    assert check_conversation(outcome.history) is None


async def test_the_model_is_told_what_it_needs_and_no_more() -> None:
    agent = agent_of(diligent("look at a", "look at b"))
    assert isinstance(agent.model, ScriptedModel)
    await perform(agent, TASK)
    requests = agent.model.requests
    assert [len(request.tools) for request in requests] == [0, 1, 1, 1, 1, 1]
    assert [request.tool_choice for request in requests] == ["auto"] * 5 + ["none"]
    first, second, last = prompt(requests[0]), prompt(requests[3]), prompt(requests[5])
    assert "- look: Look at a thing." in first
    assert "at most 9 steps" in first  # 20 turns: one for the plan, one for the end, two for each step
    assert second.startswith("[watchkeeper] Step 2 of 2: look at b\n")
    assert "1. look at a: Step number 1 found the pear." in second
    assert TASK in last
    assert "Step number 2 found the plum." in last


async def test_without_a_plan_nothing_of_it_is_loaded_or_written() -> None:
    _, events = await perform(Agent(scripted(say("done")), [look]))
    assert not {"Planned", "StepStarted", "StepEnded"} & {type(event).__name__ for event in events}
    code = (
        "import sys, anyio; from watchkeeper import Agent, Supervisor\n"
        "from watchkeeper.testing import ScriptedModel, say\n"
        "async def main():\n"
        "    async with Supervisor(plugged=False) as supervisor:\n"
        "        await (await supervisor.start(Agent(ScriptedModel([say('x')])), 'y')).wait()\n"
        "anyio.run(main); sys.exit(any(name.startswith('watchkeeper.plan.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_answer_passes_the_gates_and_steps_do_not() -> None:
    @tool(effect="reads")
    async def check() -> str:
        """Check."""
        return "it holds"

    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan("think about it", "say it")
        if what == "step":
            return say(f"step answer {'one' if n == 2 else 'quite different'}")
        return call(("check", {})) if n == 4 else say("It holds.")

    agent = agent_of(script, tools=[look, check], required=["check"])
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.answer) == ("completed", "It holds.")
    assert [event.by for event in of(events, PushedBack)] == []
    assert ends(events) == [(1, "answer", ""), (2, "answer", "")]
    # Tools are on in the summing up for as long as its answer needs some.
    assert [event.tools_on for event in of(events, TurnStarted)] == [False, True, True, True, False]


async def test_an_answer_without_evidence_is_sent_back_and_ends_the_run() -> None:
    agent = agent_of(
        lambda request, n: plan("think") if n == 1 else say(f"I {'xyzabc'[n] * 9} know {'fghijk'[n] * 9}."),
        required=["look"],
    )
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.reason) == ("stopped", "no_evidence")
    assert [event.by for event in of(events, PushedBack)] == ["evidence"] * 2
    assert outcome.plan[0].ended == "answer"


async def test_the_summing_up_is_no_way_around_the_limits_of_steps() -> None:
    """While evidence is missing tools are on in it: without a bound it would take all that the run has left."""

    @tool(effect="reads")
    async def check() -> str:
        """Check."""
        return "it holds"

    def script(request: Request, n: int) -> Step:
        return plan("think") if n == 1 else say("thought") if n == 2 else call(("look", {"what": str(n)}))

    settings = Planning(step_turns=3)
    agent = agent_of(
        script, tools=[look, check], required=["check"], plan=settings, limits=Limits(max_turns=90, finish_turns=2)
    )
    outcome, _ = await perform(agent, TASK)
    assert (outcome.status, outcome.reason, outcome.turns) == ("stopped", "turns", 1 + 1 + 3 + 2)


# -- the plan is no plan ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["I will just do it.", '{"steps": [{"goal": ', "", '{"steps": []}', "calls", "cut"])
async def test_two_more_tries_and_then_the_task_itself(bad: str) -> None:
    """Without the bound a model that cannot plan would be asked for ever; without a detector's context of its own the
    watchdog would stop it for saying the same three times."""

    def script(request: Request, n: int) -> Step:
        if n > 3:
            return call(("look", {"what": "a"})) if n == 4 else say("a is fine")
        if bad == "calls":
            return call(("look", {"what": "a"}))
        return say("1. look at a 2. look at", finish="length") if bad == "cut" else say(bad)

    outcome, events = await perform(agent_of(script), TASK)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "a is fine", False)
    assert [event.by for event in of(events, PushedBack)] == ["plan", "plan"]
    (planned,) = of(events, Planned)
    assert (planned.whole, planned.steps) == (True, (PlanStep(TASK),))
    assert ends(events) == [(1, "answer", "")]
    assert outcome.plan == (StepRecord(TASK, "answer", "a is fine", turns=2),)
    assert of(events, FindingMade) == []
    kinds = [event.result.kind for event in of(events, CallEnded)]
    assert kinds == ["not_run"] * 3 * (bad == "calls") + ["finished"]


async def test_a_repaired_plan_is_taken() -> None:
    outcome, events = await perform(agent_of([say("Hm."), plan("look at a"), say("a is fine"), say("fine")]))
    assert outcome.answer == "fine"
    (back,) = of(events, PushedBack)
    happened, _, following = back.text.split("\n", 2)
    assert happened == "Your plan could not be used: there is neither JSON nor a numbered list in it."
    assert '"done_when"' in following
    _, events = await perform(agent_of([say("Hm."), say("Hm!"), plan("look at a"), say("a is fine"), say("fine")]))
    assert of(events, PushedBack)[1].text.endswith("as a numbered list, one short step a line.")


async def test_a_provider_that_withholds_the_plan_ends_the_run() -> None:
    outcome, _ = await perform(agent_of([say("no", finish="content_filter")]))
    assert (outcome.status, outcome.reason, outcome.plan) == ("stopped", "filtered", ())


async def test_a_plan_that_is_too_long_is_sent_back_and_then_taken_together() -> None:
    goals = [f"look at thing {n}" for n in range(40)]
    agent = agent_of([plan(*goals)] * 3 + [say("x")], plan=Planning(steps=3), limits=Limits(max_turns=100))
    _, events = await perform(agent)
    assert [event.by for event in of(events, PushedBack)] == ["plan", "plan"]
    assert "it has 40 steps" in of(events, PushedBack)[0].text
    (planned,) = of(events, Planned)
    assert len(planned.steps) == 3
    assert planned.steps[2].goal.startswith("look at thing 2; then look at thing 3; then")


async def test_never_more_steps_than_twelve() -> None:
    agent = agent_of([plan(*map(str, range(1000)))] * 3 + [fail("auth")], limits=Limits(max_turns=1000))
    _, events = await perform(agent)
    assert len(of(events, Planned)[0].steps) == 12


async def test_tools_that_are_not_sent_are_not_counted() -> None:
    """Else the first request would teach the run too small an idea of how many tokens its characters are."""

    @tool(effect="reads", description="A very long story. " * 500)
    async def tell() -> str:
        return "told"

    def script(request: Request, n: int) -> Step:
        characters = sum(len(message.content) for message in request.messages) + len(repr(request.tools))
        step = plan("tell it") if n == 1 else say(f"answer {n}")
        return msgspec.structs.replace(step, usage=Usage(characters // 4, 20))

    _, events = await perform(agent_of(script, tools=[tell]), TASK)
    planning, step, _ = of(events, ModelRequested)
    assert planning.input_estimate < 1000
    assert step.input_estimate > 2500
    for asked, replied in zip(of(events, ModelRequested)[1:], of(events, ModelReplied)[1:], strict=True):
        assert replied.usage is not None
        assert replied.usage.input_tokens <= asked.input_estimate


# -- limits of a step -------------------------------------------------------------------------------------------------


async def test_a_step_ends_by_its_allowance_and_the_next_is_told() -> None:
    """Without an allowance the first step would take all turns of the run."""
    agent = agent_of(
        restless("look at a", "look at b"), plan=Planning(step_turns=3, growth=0), limits=Limits(max_turns=9)
    )
    outcome, events = await perform(agent, TASK)
    check_steps(events)
    assert allowances(events) == [3, 3]
    assert ends(events)[0] == (1, "allowance", "it was not finished: it had used up its turns")
    told = [event.text for event in of(events, Reminded) if event.about == "plan_step"]
    assert "left this open: it was not finished" in told[1]
    # The last turn of each is without tools; what is called in it nevertheless is refused.
    tools_on = [event.tools_on for event in of(events, TurnStarted)]
    assert tools_on[:7] == [False, True, True, False, True, True, False]
    kinds = [event.result.error for event in of(events, CallEnded) if event.turn in (4, 7)]
    assert kinds == ["tools_off", "tools_off"]
    assert outcome.status == "stopped"


async def test_what_is_said_in_the_last_turn_is_the_finding() -> None:
    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan("look at a")
        if what == "last":
            return say("I saw a.\n**MISSING:** the colour of a\nMissing: this is prose\nMISSING: none.")
        return say("a, of whatever colour") if what == "sum" else call(("look", {"what": str(n)}))

    outcome, events = await perform(agent_of(script, plan=Planning(step_turns=3, growth=0)), TASK)
    assert ends(events) == [(1, "answer", "the colour of a")]
    assert outcome.plan[0].finding.startswith("I saw a.")
    assert (outcome.answer, outcome.forced) == ("a, of whatever colour", False)


async def test_an_answer_after_a_step_that_a_limit_cut_short_is_forced() -> None:
    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan("look at a")
        return say("Not all of it.") if what == "sum" else call(("look", {"what": str(n)}))

    outcome, _ = await perform(agent_of(script, plan=Planning(step_turns=3, growth=0)), TASK)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "Not all of it.", True)


@pytest.mark.parametrize(("turns", "shares"), [(20, [6, 6, 6]), (10, [2, 3, 3]), (8, [2, 2, 2]), (100, [12, 12, 12])])
async def test_turns_are_shared_out_over_the_steps_that_are_left(turns: int, shares: list[int]) -> None:
    """Greedy steps do not starve those after them."""
    settings = Planning(step_turns=12, growth=0)
    agent = agent_of(restless("a", "b", "c"), plan=settings, limits=Limits(max_turns=turns, finish_turns=0))
    outcome, events = await perform(agent, TASK)
    assert allowances(events) == shares
    (planned,) = of(events, Planned)
    assert planned.turns == min(turns - 1, 37)
    assert sum(shares) + 1 <= planned.turns
    assert outcome.turns <= turns


async def test_what_a_step_leaves_over_goes_to_the_next() -> None:
    agent = agent_of(diligent("a", "b", "c"), plan=Planning(step_turns=12))
    _, events = await perform(agent, TASK)
    assert allowances(events) == [6, 8, 12]


@pytest.mark.parametrize(
    ("limits", "why"),
    [({"calls": 2}, "calls"), ({"calls:look": 2}, None), ({"tokens": 1500}, "tokens"), ({"money": 2.0}, "money")],
)
async def test_a_step_has_limits_of_its_own_in_each_dimension(limits: dict[str, float], why: str | None) -> None:
    """Without them one step could spend what the whole run has."""

    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan("look at a", "look at b")
        if what in ("last", "sum"):
            return say(f"what I know, {what} {n}", usage=Usage(300, 20))
        return call(("look", {"what": str(n)}), ("look", {"what": f"again {n}"}), usage=Usage(300, 20))

    settings = Planning(step_limits=limits, step_turns=6, growth=0)
    agent = agent_of(script, plan=settings, limits=Limits(max_turns=30, reply_tokens=200))
    outcome, events = await perform(agent, TASK, prices={"scripted": Price(input=1000.0, output=1000.0)})
    assert outcome.status == "completed"
    for event in of(events, StepEnded):
        for dimension, limit in limits.items():
            assert event.spent.get(dimension, 0) <= limit
    closing = [event.text for event in of(events, Reminded) if event.about == "plan_step_end"]
    if why is not None:
        assert all(f"used up its {why}" in text for text in closing)
    kinds: list[Result] = [event.result for event in of(events, CallEnded)]
    if "calls:look" in limits:  # the step goes on without them
        assert [result.kind for result in kinds[:4]] == ["finished", "finished", "not_run", "not_run"]
        assert [event.spent["turns"] for event in of(events, StepEnded)] == [6, 6]


async def test_a_batch_beyond_the_calls_of_a_step_is_trimmed_and_says_whose_limit_it_is() -> None:
    script = [
        plan("look at a"),
        call(*(("look", {"what": str(n)}) for n in range(5))),
        say("seen"),
        say("done"),
    ]
    outcome, events = await perform(agent_of(script, plan=Planning(step_limits={"calls": 3})), TASK)
    results = [event.result for event in sorted(of(events, CallEnded), key=lambda event: event.slot)]
    assert [result.kind for result in results] == ["finished"] * 3 + ["not_run"] * 2
    assert "the limit of 3 calls of this step" in results[4].content
    assert outcome.answer == "done"


async def test_time_of_a_step() -> None:
    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan("look at a", "look at b")
        return say(f"enough {what} {n}") if what in ("last", "sum") else call(("look", {"what": str(n)}))

    agent = agent_of(script, plan=Planning(step_seconds=2.5), limits=Limits(max_turns=40))
    outcome, events = await perform(agent, TASK)
    closing = [event.text for event in of(events, Reminded) if event.about == "plan_step_end"]
    assert len(closing) == 2
    assert all("used up its time" in text for text in closing)
    assert [event.spent["turns"] for event in of(events, StepEnded)] == [4, 4]
    assert outcome.status == "completed"


async def test_a_step_for_which_nothing_is_left_makes_no_request() -> None:
    settings = Planning(step_limits={"tokens": 10}, growth=0)
    agent = agent_of([plan("look at a", "look at b"), say("nothing was done")], plan=settings)
    outcome, events = await perform(agent, TASK)
    assert [end for _, end, _ in ends(events)] == ["allowance", "allowance"]
    assert (outcome.answer, outcome.forced) == ("nothing was done", True)


async def test_sub_agents_of_a_step_draw_from_the_step() -> None:
    child = Agent(ScriptedModel(lambda request, n: call(("look", {"what": str(n)}))), [look], name="child")
    script = [
        plan("have it looked at"),
        call(("child", {"task": "look"})),
        say("it was looked at"),
        say("done"),
    ]
    agent = agent_of(
        script, tools=[child.as_tool()], plan=Planning(step_limits={"calls": 4}), limits=Limits(max_turns=40)
    )
    outcome, events = await perform(agent, TASK)
    assert outcome.answer == "done"
    (end,) = of(events, StepEnded)
    assert end.spent["calls"] == 4


async def test_sub_agents_that_the_host_starts_do_not_draw_from_a_step() -> None:
    parent = agent_of(lambda request, n: plan("look at a") if n == 1 else say("", stall=True))
    child = Agent(ScriptedModel([call(("look", {"what": "b"})), say("b is odd")]), [look], name="child")
    async with supervised() as supervisor:
        run = await supervisor.start(parent, TASK)
        while run.drawn is run.budget:
            await anyio.sleep(0.1)
        outcome = await (await supervisor.start(child, "look", parent=run)).wait()
        assert outcome.answer == "b is odd"
        assert run.drawn.spent == {"turns": 1}
        assert run.budget.spent["turns"] == 2 + 2
        run.cancel()


async def test_a_small_limit_of_a_step_is_no_reason_to_go_without_tools_from_the_start() -> None:
    """It has room for this request and not for another one like it."""
    _, events = await perform(agent_of(diligent("look at a")), TASK)
    estimate = of(events, ModelRequested)[1].input_estimate
    agent = agent_of(diligent("look at a"), plan=Planning(step_limits={"tokens": 1.5 * estimate}))
    _, events = await perform(agent, TASK)
    assert [event.tools_on for event in of(events, TurnStarted)][:2] == [False, True]


async def test_after_its_last_turn_a_step_is_over_whatever_was_said_in_it() -> None:
    """Without that, one that does not listen would go on without tools until its turns are used up."""
    agent = agent_of(restless("a", "b"), plan=Planning(step_limits={"calls": 2}, growth=0), limits=Limits(max_turns=12))
    _, events = await perform(agent, TASK)
    assert [event.spent["turns"] for event in of(events, StepEnded)] == [3, 3]


async def test_eight_planned_runs_within_one_limit() -> None:
    shared = Budget(calls=11, turns=100)
    async with supervised(keep=10_000) as supervisor:
        runs = [
            await supervisor.start(
                agent_of(diligent("look at a", "look at b"), plan=Planning(step_limits={"calls": 2})),
                TASK,
                budget=shared,
            )
            for _ in range(8)
        ]
        outcomes = [await run.wait() for run in runs]
        events = [event for run in runs for event in await facts(run)]
    assert {outcome.status for outcome in outcomes} <= {"completed", "stopped"}
    assert shared.spent["calls"] == 11
    assert sum(event.result.kind == "finished" for event in of(events, CallEnded)) == 11
    for run in runs:
        check_steps(await facts(run))


# -- limits of the run outrank ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_turns=6),
        Limits(max_turns=40, max_calls=3),
        Limits(max_turns=40, tokens=4000, reply_tokens=200),
        Limits(max_turns=40, seconds=9.5),
    ],
    ids=["turns", "calls", "tokens", "time"],
)
async def test_the_runs_own_limits_end_it_wherever_it_is(limits: Limits) -> None:
    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan("look at a", "look at b", "look at c") if limits.max_turns > 6 else plan("a", "b")
        if request.tool_choice == "none":
            return say(f"What I know: {what}.", usage=Usage(600, 20))
        return call(("look", {"what": str(n)}), usage=Usage(600, 20))

    outcome, events = await perform(agent_of(script, limits=limits, plan=Planning(step_turns=30)), TASK)
    check_steps(events)
    assert outcome.turns <= limits.max_turns + limits.finish_turns
    assert (outcome.spent["tokens"] <= limits.tokens) if limits.tokens else True
    assert outcome.spent.get("calls", 0) <= (limits.max_calls or 10**9)
    assert outcome.status in ("completed", "stopped")
    if limits.max_turns > 6:
        assert (outcome.status, outcome.forced) == ("completed", True)
        # The open step ends before the last answer is asked for, which draws from the run alone.
        end = of(events, StepEnded)[-1]
        assert end.ended == "run"
        assert end.n < next(event.n for event in of(events, Reminded) if event.about.startswith("finish"))


async def test_nothing_in_a_plan_raises_a_limit() -> None:
    """What the model writes of turns and limits is text."""
    greedy = {"turns": 10**6, "max_turns": 10**6, "allowance": {"turns": 10**6}, "limits": {"calls": 10**6}}

    def script(request: Request, n: int) -> Step:
        if asks_for(request) == "plan":
            return say(json.dumps({"steps": [{"goal": "go on for ever", **greedy}], **greedy}))
        return call(("look", {"what": str(n)}))

    agent = agent_of(script, limits=Limits(max_turns=10, finish_turns=1, max_calls=20))
    outcome, events = await perform(agent, TASK)
    assert outcome.turns <= 11
    assert allowances(events) == [8]


async def test_no_room_for_a_plan_under_a_shared_budget() -> None:
    agent = agent_of([call(("look", {"what": "a"})), say("a is fine")])
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(agent, TASK, budget=Budget(turns=3))
        outcome = await run.wait()
        events = await facts(run)
    assert (outcome.answer, outcome.turns) == ("a is fine", 2)
    assert of(events, Planned)[0].whole


@pytest.mark.parametrize("when", [1, 2, 3, 4])
async def test_a_cancelled_run_has_an_end_for_its_step(when: int) -> None:
    model = ScriptedModel(lambda request, n: _stalling(request, n, when))
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(Agent(model, [look], plan=True), TASK)
        while model.asked < when:
            await anyio.sleep(0.1)
        run.cancel("enough")
        outcome = await run.wait()
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")
    check_steps(events)
    if when in (2, 3):
        assert [record.ended for record in outcome.plan] == [["run", None], ["answer", "run"]][when - 2]
    json.dumps(run.snapshot())


def _stalling(request: Request, n: int, when: int) -> Step:
    if n == when:
        return say("", stall=True)
    what = asks_for(request)
    return plan("look at a", "look at b") if what == "plan" else say(f"found {'abcde'[n]} {what}")


# -- changes of the plan ----------------------------------------------------------------------------------------------


def lacking(*changes: Step, first: int = 2) -> Any:
    """Every step says that something is missing; ``changes`` are what it makes of the plan then."""
    left = list(changes)

    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan(*(f"goal {g}" for g in "abcdefghijkl"[:first]))
        if what == "change":
            return left.pop(0) if left else plan(*(f"more {n} {i}" for i in range(20)))
        return (
            say("all there is")
            if what == "sum"
            else call(("look", {"what": str(n)}))
            if n % 2
            else say(f"word{n} {chr(97 + n % 26) * 5}\nMISSING: thing {n}")
        )

    return script


async def test_a_plan_is_changed_within_its_growth() -> None:
    agent = agent_of(lacking(plan("look closer", "goal b")), limits=Limits(max_turns=60))
    outcome, events = await perform(agent, TASK)
    (changed,) = of(events, PlanChanged)
    assert (changed.steps, changed.added) == ((PlanStep("look closer"), PlanStep("goal b")), 1)
    assert changed.reason.startswith("thing ")
    assert [record.goal for record in outcome.plan] == ["goal a", "look closer", "goal b"]
    assert outcome.status == "completed"


@pytest.mark.parametrize(
    ("first", "growth", "most"), [(4, 0.5, 6), (4, 0.0, 4), (1, 0.5, 1), (12, 0.5, 12), (6, 1.0, 12)]
)
async def test_growth_is_bounded_whatever_the_model_wants(first: int, growth: float, most: int) -> None:
    """Without the bound a model that always finds something missing would plan for ever."""
    agent = agent_of(lacking(first=first), plan=Planning(growth=growth), limits=Limits(max_turns=200))
    outcome, events = await perform(agent, TASK)
    assert outcome.status == "completed"
    assert len(of(events, StepStarted)) == most
    assert len(of(events, PlanChanged)) <= first * growth
    assert sum(event.added for event in of(events, PlanChanged)) <= first * growth


@pytest.mark.parametrize("said", ["I do not know.", "", '{"steps": ['])
async def test_a_change_that_cannot_be_read_changes_nothing(said: str) -> None:
    agent = agent_of(lacking(say(said)), limits=Limits(max_turns=60))
    outcome, events = await perform(agent, TASK)
    (changed,) = of(events, PlanChanged)
    assert (changed.steps, changed.added) == ((PlanStep("goal b"),), 0)
    assert len(outcome.plan) == 2
    assert outcome.status == "completed"


async def test_a_change_may_drop_what_is_left() -> None:
    agent = agent_of(lacking(say('{"steps": []}')), limits=Limits(max_turns=60))
    outcome, events = await perform(agent, TASK)
    assert [len(event.steps) for event in of(events, PlanChanged)] == [0]
    assert len(outcome.plan) == 1


# -- runaways ---------------------------------------------------------------------------------------------------------


async def test_a_model_with_one_answer_for_all_steps_is_asked_to_sum_up() -> None:
    """Else the watchdog would stop it for saying the same three times, and its answer would be lost."""
    script = [
        plan("find the capital", "check the capital", "write it down", "read it again"),
        *[say("It is Paris.")] * 3,
    ]
    outcome, events = await perform(agent_of(script), TASK)
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "It is Paris.", False)
    assert len(of(events, StepStarted)) == 2
    assert [record.ended for record in outcome.plan] == ["answer", "answer", None, None]


async def test_the_watchdog_sees_repeats_across_steps() -> None:
    def script(request: Request, n: int) -> Step:
        if asks_for(request) == "plan":
            return plan("a", "b", "c")
        return call(("look", {"what": "the same"}))

    agent = agent_of(script, plan=Planning(step_turns=4), limits=Limits(max_turns=40))
    outcome, events = await perform(agent, TASK)
    assert outcome.reason in ("loop", "turned_away", "tool_failing")
    assert of(events, FindingMade)
    check_steps(events)


async def test_a_model_that_fails_in_a_step_fails_the_run() -> None:
    outcome, events = await perform(agent_of([plan("a", "b"), fail("auth")]), TASK)
    assert (outcome.status, outcome.reason) == ("failed", "model_refused")
    assert ends(events) == [(1, "run", "model_refused")]


# -- the user speaks --------------------------------------------------------------------------------------------------


async def test_who_speaks_at_the_summing_up_gets_tools_again() -> None:
    seen: list[Request] = []
    handle: list[Any] = []

    def script(request: Request, n: int) -> Step:
        seen.append(request)
        if asks_for(request) == "plan":
            return plan("look at a")
        if asks_for(request) == "sum" and n == 3:
            handle[0].steer("Look at b, too.")
            return say("a is fine")
        return say("a is seen") if n == 2 else call(("look", {"what": "b"})) if n == 4 else say("a and b are fine")

    async with supervised(keep=10_000) as supervisor:
        handle.append(await supervisor.start(agent_of(script), TASK))
        outcome = await handle[0].wait()
    assert outcome.answer == "a and b are fine"
    assert [(call.tool, call.kind) for call in outcome.calls] == [("look", "finished")]


async def test_tools_in_text_can_plan() -> None:
    texts = [
        'Thought: I plan.\nAnswer: {"steps": ["look at a", "look at b"]}',
        "Thought: go\nAction: look\nAction Input: a",
        "Answer: a is seen\nMISSING: its colour",
        '{"steps": ["look at the colour of a"]}',
        "Action: look\nAction Input: colour",
        "Answer: it is red",
        "Answer: a is red",
    ]
    agent = Agent(TextTools(ScriptedModel(map(say, texts))), [look], plan=True)
    outcome, events = await perform(agent, TASK)
    assert (outcome.answer, len(outcome.calls)) == ("a is red", 2)
    assert [record.goal for record in outcome.plan] == ["look at a", "look at the colour of a"]
    assert of(events, PushedBack) == []


# -- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"step_turns": 0}, "step_turns must be at least 1"),
        ({"growth": -0.1}, "growth must be 0 or more"),
        ({"growth": float("nan")}, "growth must be 0 or more"),
        ({"reasks": -1}, "reasks must be at least 0"),
        ({"step_seconds": 0}, "step_seconds must be more than 0"),
        ({"step_limits": {"calls": -1}}, r"step_limits\['calls'\] must be 0 or more"),
        ({"step_limits": {"turns": 3}}, "limited by step_turns"),
    ],
)
async def test_settings_that_cannot_work(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"plan: .*{said}"):
        Planning(**wrong)


async def test_a_run_without_room_for_a_plan_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match="max_turns=3 there is no room for a plan; it takes 4"):
        agent_of([], limits=Limits(max_turns=3))
    with pytest.raises(ConfigurationError, match="plan must be True, False or Planning"):
        agent_of([], plan="yes")  # type: ignore[arg-type]


async def test_the_wording_of_plans_is_a_hosts_to_replace() -> None:
    from watchkeeper.plan.words import PlanWording
    from watchkeeper.wording import Told, Wording

    class Terse(PlanWording):
        def step(self, *given: Any) -> Told:
            return Told("Now this:", given[2].goal, "Go.")

    class Ours(Wording):
        plan = Terse()  # type: ignore[assignment]

    agent = agent_of(diligent("look at a"))
    model = agent.model
    assert isinstance(model, ScriptedModel)
    agent.model = ScriptedModel([plan("look at a"), say("a is seen"), say("fine")])
    async with Supervisor(plugged=False, wording=Ours()) as supervisor:
        outcome: Outcome = await (await supervisor.start(agent, TASK)).wait()
    assert any(message.content == "[watchkeeper] Now this:\nlook at a\nGo." for message in outcome.history)
