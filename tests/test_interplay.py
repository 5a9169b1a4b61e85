"""Parts of a run that meet: a yes and a shared result, a judge and a replaced call, a cancel and a summary, a plan and
an answer that goes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest

from support import BARE, facts, of, perform, scripted, supervised
from watchkeeper import Agent, Approval, Judge, Limits, Note, Profile, Ruling, tool
from watchkeeper.guards.guard import Decision, Proposal, Replace
from watchkeeper.guards.rule import Rule
from watchkeeper.messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallStarted,
    ContextCompacted,
    Event,
    ModelRequested,
    Reminded,
    StepEnded,
)
from watchkeeper.model import Request
from watchkeeper.opinions.second import Question
from watchkeeper.testing import ScriptedModel, Step, call, check_conversation, say
from windows import Strict

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    RAN.clear()


@tool(effect="reads")
async def look(what: str = "a") -> str:
    """Look."""
    RAN.append(f"look {what}")
    return f"saw {what}"


@tool(effect="reads")
async def wander(n: int) -> str:
    """Take a while."""
    RAN.append(f"wander {n}")
    await anyio.sleep(1)
    return f"was at {n}"


@tool(effect="reads")
async def read(page: int, length: int = 2000) -> str:
    """Read a page."""
    return f"page {page} begins. " + f"text of {page}. " * (length // 12)


@tool(effect="reads", judged=True)
async def pay(what: str = "a") -> str:
    """Pay."""
    RAN.append(f"pay {what}")
    return f"paid {what}"


def ends(events: list[Event]) -> list[tuple[str, str, str | None]]:
    found = sorted(of(events, CallEnded), key=lambda event: (event.turn, event.slot))
    return [(event.result.tool, event.result.kind, event.result.error) for event in found]


# -- approvals --------------------------------------------------------------------------------------------------------

ASKS = Profile(rules=(Rule("ask", "look", why="the house rules"), Rule("ask", "wander", why="the house rules")))


async def test_an_equal_call_that_waits_for_its_own_yes_is_given_no_other_calls_result() -> None:
    async with supervised(keep=10_000) as supervisor:
        agent = Agent(scripted(call(("look", {}), ("look", {})), say("Done.")), [look], profile=ASKS)
        run = await supervisor.start(agent, "task", attended=True)
        while len(run.approvals) < 2:
            await anyio.sleep(0.1)
        first, second = run.approvals
        run.approve(first.id, first.arguments_hash)
        await anyio.sleep(1)
        assert [one.id for one in run.approvals] == [second.id]
        assert RAN == ["look a"]
        run.deny(second.id, "once is enough")
        outcome = await run.wait()
        events = await facts(run)
    assert outcome.answer == "Done."
    assert ends(events) == [("look", "finished", None), ("look", "denied", "not_approved")]
    assert len(of(events, ApprovalRequested)) == len(of(events, ApprovalResolved)) == 2


async def test_a_call_that_is_approved_while_the_watchdog_catches_up_runs_once() -> None:
    """A batch that makes more facts than the log keeps is held back; approvals are answered meanwhile."""

    async def yes(approval: Approval) -> bool:
        return True

    calls = [("wander", {"n": n}) for n in range(400)]
    agent = Agent(scripted(call(*calls), say("Done.")), [wander], profile=ASKS, limits=Limits(max_calls=1000))
    outcome, events = await perform(agent, approver=yes)
    assert outcome.answer == "Done."
    assert sorted(RAN) == sorted(f"wander {n}" for n in range(400))
    assert len(of(events, CallStarted)) == 400


# -- judges -----------------------------------------------------------------------------------------------------------


class Guard:
    """A guard whose rule is a function."""

    name = "another_way"

    def __init__(self, rule: Callable[[Proposal], Decision | None]) -> None:
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {}
        self._rule = rule

    def call(self, proposal: Proposal) -> Decision | None:
        return self._rule(proposal)


@pytest.mark.parametrize("instead", [("pay", {"what": "everything"}), ("look", {"what": "elsewhere"})])
async def test_what_a_judge_allows_is_the_call_it_saw_and_not_what_takes_its_place(instead: tuple[str, Any]) -> None:
    seen: list[str] = []

    def rule(question: Question) -> Ruling:
        seen.extend(f"{asked.tool} {asked.arguments}" for asked in question.calls)
        return Ruling("allow")

    def replace(proposal: Proposal) -> Replace | None:
        return None if proposal.values["what"] != "a" else Replace(*instead, why="better so")

    agent = Agent(scripted(call(("pay", {"what": "a"})), say("Done.")), [look, pay], judge=Judge(rule=rule))
    _, events = await perform(agent, guards=[lambda: Guard(replace)])
    assert seen == ['pay {"what":"a"}']
    if instead[0] == "pay":
        assert RAN == []
        assert ends(events) == [("pay", "refused", "judge_refused")]
    else:
        assert RAN == ["look elsewhere"]


async def test_a_judge_of_every_call_sees_the_tool_that_a_compaction_brings() -> None:
    def script(request: Request, n: int) -> Step:
        if "recall" in str(request.tools):
            return call(("recall", {"query": "page"})) if request.messages[-1].tool != "recall" else say("done")
        return call(("read", {"page": n}))

    asked: list[str] = []

    def rule(question: Question) -> Ruling:
        asked.extend(one.tool for one in question.calls)
        return Ruling("allow")

    agent = Agent(
        Strict(script, 4000),
        [read],
        judge=Judge(rule=rule, every_turn=True),
        limits=Limits(max_turns=40, reply_tokens=300),
        profile=BARE,
    )
    outcome, events = await perform(agent)
    assert outcome.answer == "done"
    assert asked[-1] == "recall"
    assert ends(events)[-1] == ("recall", "finished", None)


# -- requests beside the conversation ----------------------------------------------------------------------------------


async def test_a_run_that_is_to_end_after_its_turn_asks_for_no_summary() -> None:
    async with supervised(keep=10_000) as supervisor:

        @tool(effect="reads")
        async def leave(page: int) -> str:
            """Read a page, and ask for the end."""
            run.hand_over("enough")
            return "text " * 3000

        def script(request: Request, n: int) -> Step:
            return call(("leave", {"page": n}) if n > 9 else ("read", {"page": n, "length": 900}))

        model = Strict(script, 6000)
        run = await supervisor.start(Agent(model, [read, leave], limits=Limits(reply_tokens=300)), "task")
        outcome = await run.wait()
        events = await facts(run)
    assert (outcome.status, outcome.reason) == ("handed_over", "enough")
    assert (model.summaries, of(events, ContextCompacted)) == ([], [])
    assert check_conversation(outcome.history) is None


class Slow:
    """A store that takes a while."""

    def __init__(self) -> None:
        self.asked = 0
        self.at_second: Callable[[], None] = lambda: None

    async def add(self, text: str, about: str) -> None:
        pass

    async def search(self, query: str, limit: int) -> list[Note]:
        self.asked += 1
        if self.asked == 2:
            self.at_second()
        await anyio.sleep(1)
        return []


async def test_a_pause_that_comes_while_notes_are_looked_up_holds_the_next_request() -> None:
    store = Slow()
    async with supervised(keep=10_000) as supervisor:

        @tool(effect="reads")
        async def talk() -> str:
            """Talk."""
            run.steer("and now for something else")
            return "said"

        agent = Agent(scripted(call(("talk", {})), say("Done.")), [talk], memory=store)
        run = await supervisor.start(agent, "task")
        store.at_second = lambda: run.pause("wait")
        await anyio.sleep(60)
        assert run.state == "paused"
        assert len(of(list(run.log.kept()), ModelRequested)) == 1
        run.resume()
        assert (await run.wait()).answer == "Done."


async def test_a_pause_that_comes_while_a_summary_is_made_holds_the_next_request() -> None:
    async with supervised(keep=10_000) as supervisor:

        def summary(request: Request) -> Step:
            if len(model.summaries) == 1:
                run.pause("wait")
            return say("- a fact")

        model = Strict(lambda request, n: call(("read", {"page": n})) if n < 12 else say("done"), 4000, summary=summary)
        run = await supervisor.start(Agent(model, [read], limits=Limits(max_turns=40, reply_tokens=300)), "task")
        while not model.summaries:
            await anyio.sleep(0.1)
        await anyio.sleep(60)
        prompts = len(model.prompts)
        assert run.state == "paused"
        await anyio.sleep(60)
        assert len(model.prompts) == prompts
        assert of(list(run.log.kept()), ContextCompacted)[-1].turn == run.log.turn
        run.resume()
        assert (await run.wait()).answer == "done"


@pytest.mark.parametrize("asked", ["before the summary", "in the summary"])
async def test_a_request_that_is_too_long_is_not_made_again_by_a_run_that_is_to_end(asked: str) -> None:
    async with supervised(keep=10_000) as supervisor:

        def summary(request: Request) -> Step:
            run.hand_over("enough")
            return say("- a fact")

        def script(request: Request, n: int) -> Step:
            return call(("read", {"page": n, "length": 900}))

        class Untold(Strict):
            def _reply(self, request: Request, n: int) -> Step:
                step = super()._reply(request, n)
                if step.error is not None and asked == "before the summary":
                    run.hand_over("enough")
                return step

        model = Untold(script, 3000, told=False, summary=summary)
        run = await supervisor.start(Agent(model, [read], limits=Limits(max_turns=40, reply_tokens=300)), "task")
        outcome = await run.wait()
    assert (outcome.status, outcome.reason, model.refused) == ("handed_over", "enough", 1)
    assert len(model.summaries) == (asked == "in the summary")
    assert [model.requests[-1]] == model.summaries or asked == "before the summary"
    assert check_conversation(outcome.history) is None


# -- plans ------------------------------------------------------------------------------------------------------------


def unplanned(*steps: Step) -> Callable[[Request, int], Step]:
    """Says nothing that is a plan, and then these."""
    return lambda request, n: say("hm") if n <= 3 else steps[n - 4]


async def test_an_answer_without_a_plan_that_goes_back_can_be_mended_with_tools() -> None:
    def unsure(text: str) -> str | None:
        return "Look first." if "guess" in text else None

    script = unplanned(say("I guess it is fine"), call(("look", {})), say("a is fine"))
    outcome, events = await perform(Agent(ScriptedModel(script), [look], plan=True, validators=[unsure]), "Is a fine?")
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "a is fine", False)
    assert RAN == ["look a"]
    assert [event.about for event in of(events, Reminded)].count("plan_sum") == 0
    (end,) = of(events, StepEnded)
    assert (end.number, end.ended, end.finding) == (1, "answer", "a is fine")
    assert [(step.ended, step.finding) for step in outcome.plan] == [("answer", "a is fine")]


async def test_a_word_of_the_user_during_the_check_of_an_answer_without_a_plan_is_worked_on() -> None:
    async with supervised(keep=10_000) as supervisor:
        steered: list[str] = []

        async def slow(text: str) -> None:
            if not steered:
                steered.append(text)
                run.steer("and b?")

        script = unplanned(say("a is fine"), call(("look", {"what": "b"})), say("both are fine"))
        run = await supervisor.start(Agent(ScriptedModel(script), [look], plan=True, validators=[slow]), "Is a fine?")
        outcome = await run.wait()
    assert (outcome.answer, RAN) == ("both are fine", ["look b"])
