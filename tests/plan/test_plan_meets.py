"""Plans beside other parts of a run: thoughts that go round in a step."""

from __future__ import annotations

import pytest
from planned import asks_for, plan

from support import of, perform
from watchkeeper import Agent, tool
from watchkeeper.messages import CallEnded, StepEnded
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(what: str = "a") -> str:
    """Look."""
    return f"saw {what}"


THOUGHT = "I still have to find out what is in the box before I can say anything of it."


async def test_a_turn_forced_in_one_step_forces_nothing_of_the_next() -> None:
    def script(request: Request, n: int) -> Step:
        if asks_for(request) == "plan":
            return plan("look into the box", "look into the other box")
        if n < 5:
            return call(("look", {"what": str(n)}), text=THOUGHT)
        return say(("The box is empty.", "The other one holds a key.", "There is one key.")[n - 5])

    outcome, events = await perform(Agent(ScriptedModel(script), [look], plan=True), "What is in the boxes?")
    assert [event.result.by for event in of(events, CallEnded)] == [None, None, "stagnation"]
    assert [event.ended for event in of(events, StepEnded)] == ["answer", "answer"]
    assert (outcome.answer, outcome.forced) == ("There is one key.", False)


async def test_a_step_begins_with_no_thoughts_of_the_one_before() -> None:
    def script(request: Request, n: int) -> Step:
        if asks_for(request) == "plan":
            return plan("look into the box", "look into the other box")
        if n in (2, 3, 4, 6):
            return call(("look", {"what": str(n)}), text=THOUGHT)
        return say({5: "The box is empty.", 7: "The other one holds a key."}.get(n, "There is one key."))

    outcome, events = await perform(Agent(ScriptedModel(script), [look], plan=True), "What is in the boxes?")
    assert [event.result.by for event in of(events, CallEnded)] == [None, None, "stagnation", None]
    assert (outcome.status, outcome.answer, outcome.forced) == ("completed", "There is one key.", False)
