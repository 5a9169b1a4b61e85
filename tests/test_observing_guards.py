"""A guard that only observes lets pass and says what it would have done; the others go on as ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support import of, perform, scripted
from watchkeeper import Agent, ConfigurationError, Event, Profile, reads, tool
from watchkeeper.guards.guard import Proposal, Refuse
from watchkeeper.guards.rate import Rate
from watchkeeper.guards.rule import Rule
from watchkeeper.guards.scope import Scope
from watchkeeper.messages import CallAdmitted, CallEnded, CallProposed, WouldRefuse
from watchkeeper.plugins import OWN_GUARDS
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads", stable=True, checks={"n": lambda n: "it is odd" if n % 2 else None})
async def look(n: int = 0) -> str:
    """Look."""
    return f"page {n}"


@tool(irreversible=True)
async def pay() -> str:
    """Pay."""
    return "paid"


class Theirs:
    """A guard of a third party that refuses everything."""

    name = "theirs"

    def __init__(self) -> None:
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def call(self, proposal: Proposal) -> Refuse:
        return Refuse("no", "theirs")


class Broken(Theirs):
    name = "broken"

    def call(self, proposal: Proposal) -> Refuse:
        raise KeyError("a defect")


ALWAYS: dict[str, tuple[Profile, list[Any], tuple[Any, ...], tuple[str, str]]] = {
    "policy": (Profile(deny=("look",)), [[("look", {})]], (), ("deny", "denied")),
    "policy that asks": (Profile(), [[("pay", {})]], (), ("ask", "")),
    "checks": (Profile(), [[("look", {"n": 1})]], (), ("refuse", "check_failed")),
    "equal": (Profile(refuse_equal=1), [[("look", {})]], (), ("refuse", "equal_call")),
    "rate": (
        Profile(rates={"look": Rate(interval=9)}),
        [[("look", {}), ("look", {"n": 2})]],
        (),
        ("refuse", "too_soon"),
    ),
    "rate that waits": (
        Profile(rates={"look": Rate(interval=0.5)}),
        [[("look", {}), ("look", {"n": 2})]],
        (),
        ("wait", ""),
    ),
    "duplicate": (Profile(), [[("look", {})], [("look", {})]], (), ("reuse", "")),
    "theirs": (Profile(), [[("look", {})]], (Theirs,), ("refuse", "theirs")),
    "broken": (Profile(), [[("look", {})]], (Broken,), ("refuse", "guard_failed")),
}


@pytest.mark.parametrize("case", ALWAYS)
async def test_it_says_what_it_would_have_done_and_lets_pass(case: str) -> None:
    profile, turns, guards, told = ALWAYS[case]
    name = case.split()[0]

    async def run(observe: tuple[str, ...]) -> list[Event]:
        observing = Profile(deny=profile.deny, rates=profile.rates, refuse_equal=profile.refuse_equal, observe=observe)
        agent = Agent(scripted(*(call(*turn) for turn in turns), say("Done.")), [look, pay], profile=observing)
        outcome, events = await perform(agent, guards=guards)
        assert outcome.status == "completed"
        return events

    enforced, observed = await run(()), await run((name,))
    assert of(enforced, WouldRefuse) == []
    (fact,) = of(observed, WouldRefuse)
    assert (fact.by, fact.would, fact.error) == (name, *told)
    assert fact.call_id == of(observed, CallEnded)[-1].result.call_id
    numbers = [event.n for kind in (CallProposed, CallAdmitted) for event in of(observed, kind)]
    assert numbers[0] < fact.n
    for events, passed in ((enforced, case == "rate that waits"), (observed, True)):
        ends = [event.result for event in of(events, CallEnded)]
        assert all(end.kind == "finished" and not end.reused_from and not end.by for end in ends) is passed


async def test_a_scope_too() -> None:
    @tool(effect=lambda name: reads(name))
    async def peek(name: str) -> str:
        return name

    profile = Profile(scope=Scope(reads=("open",)), observe=("scope",))
    agent = Agent(scripted(call(("peek", {"name": "secret/a"})), say("Done.")), [peek], profile=profile)
    _, events = await perform(agent)
    (fact,) = of(events, WouldRefuse)
    assert (fact.by, fact.would, fact.error) == ("scope", "deny", "out_of_scope")
    assert [event.result.kind for event in of(events, CallEnded)] == ["finished"]


@pytest.mark.parametrize("observe", [(), ("block",)])
async def test_the_block_of_the_watchdog_too(observe: tuple[str, ...]) -> None:
    turns = [call(("look", {"n": 2})) for _ in range(7)]
    plain = tool(effect="reads", name="look")(lambda n=0: "same")
    agent = Agent(scripted(*turns, say("Done.")), [plain], profile=Profile(observe=observe))
    _, events = await perform(agent)
    refused = [event for event in of(events, CallEnded) if event.result.error == "blocked"]
    assert bool(refused) is not bool(observe)
    assert {event.by for event in of(events, WouldRefuse)} == set(observe)


async def test_the_others_still_refuse() -> None:
    profile = Profile(rules=(Rule("deny", "look", when=({"n": "2"},)),), observe=("checks",))
    agent = Agent(scripted(call(("look", {"n": 1}), ("look", {"n": 2})), say("Done.")), [look], profile=profile)
    _, events = await perform(agent)
    ends = sorted(of(events, CallEnded), key=lambda event: event.slot)
    assert [event.result.kind for event in ends] == ["finished", "denied"]
    assert [event.by for event in of(events, WouldRefuse)] == ["checks"]


async def test_the_evidence_gate_too() -> None:
    agent = Agent(scripted(say("Sunny.")), [look], required=["look"], profile=Profile(observe=("evidence",)))
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.answer, outcome.rejected) == ("completed", "Sunny.", ())
    (fact,) = of(events, WouldRefuse)
    assert (fact.by, fact.would, fact.call_id, fact.error) == ("evidence", "push", "", "no_evidence")


@pytest.mark.parametrize("observe", [("polcy",), ("policy", "theirs")])
async def test_a_guard_that_is_not_there_is_an_error(observe: tuple[str, ...]) -> None:
    agent = Agent(scripted(say("Done.")), [look], profile=Profile(observe=observe))
    with pytest.raises(ConfigurationError, match=f"observes {observe[-1]}, which is no guard; guards are block, "):
        await perform(agent)
    outcome, _ = await perform(
        Agent(scripted(say("Done.")), profile=Profile(observe=(*OWN_GUARDS, "theirs"))), guards=[Theirs]
    )
    assert outcome.status == "completed"
