from __future__ import annotations

import pytest

from support import of, perform, scripted
from watchkeeper import Agent, Limits, tool
from watchkeeper.messages import CallEnded, RunEnded
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


async def test_answer_after_a_call() -> None:
    outcome, events = await perform(Agent(scripted(call(("look", {"what": "a"})), say("done")), [look]))
    assert (outcome.status, outcome.answer, outcome.turns) == ("completed", "done", 2)
    assert [event.result.content for event in of(events, CallEnded)] == ["saw a"]
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert type(events[-1]) is RunEnded


@pytest.mark.parametrize("needed", [1, 2, 3, 4, 5, 6])
async def test_the_limit_of_turns_to_the_turn(needed: int) -> None:
    """Finishing in turn N is done, needing one more is the limit; with no finishing window."""
    steps = [call(("look", {"what": str(n)})) for n in range(needed - 1)]
    for limit in range(1, 7):
        agent = Agent(scripted(*steps, say("done")), [look], limits=Limits(max_turns=limit, finish_turns=0))
        outcome, _ = await perform(agent)
        expected = ("completed", "answer") if needed <= limit else ("stopped", "turns")
        assert (outcome.status, outcome.reason) == expected
