"""Parts of a run that meet: a yes and a shared result, a judge and a replaced call, a cancel and a summary, a plan and
an answer that goes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
import pytest
from windows import Strict

from support import BARE, facts, of, perform, scripted, supervised
from watchkeeper import Agent, Approval, ContextLimits, Judge, Limits, Note, Planning, Profile, Ruling, tool
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

    agent = Agent(
        scripted(call(("pay", {"what": "a"})), say("Done.")), [look, pay], judge=Judge(rule=rule)
    )
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
