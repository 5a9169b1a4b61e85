"""Guards of third parties at the hooks *request* and *result*: what the model reads, and what it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support import BARE, of, perform, scripted
from watchkeeper import Agent, Event, Profile, tool
from watchkeeper.guards.request import Halt, Preview, RequestDecision, Say
from watchkeeper.guards.result import Output, ResultDecision, Rewrite, Withhold
from watchkeeper.messages import CallEnded, ModelRequested, WouldRefuse
from watchkeeper.redaction import Redaction
from watchkeeper.testing import ScriptedModel, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECRET = "hunter2-hunter2"


@tool(effect="reads", max_output=1000)
async def look(what: str = "a") -> str:
    """Look."""
    return f"saw {what}"


def theirs(**hooks: Callable[..., Any]) -> Callable[[], Any]:
    """A factory of a guard with these methods."""
    methods = {name: staticmethod(rule) for name, rule in hooks.items()}
    return lambda: type("Theirs", (), {"name": "theirs", "folds": dict[type[Event], Any](), **methods})()


def agent(*steps: Any, observe: bool = False) -> Agent:
    profile: Profile = msgspec.structs.replace(BARE, observe=("theirs",) if observe else ())
    return Agent(scripted(*steps), [look], profile=profile)


# -- requests ----------------------------------------------------------------------------------------------------------


async def test_a_guard_has_a_word_at_the_end_of_a_request_that_is_not_kept() -> None:
    def second(preview: Preview) -> RequestDecision | None:
        return Say(f"think of the budget, key {SECRET}") if preview.turn == 2 else None

    one = agent(call(("look", {})), say("done"))
    outcome, events = await perform(one, guards=[theirs(request=second)], redaction=Redaction([SECRET]))
    assert outcome.answer == "done"
    assert isinstance(one.model, ScriptedModel)
    requests = one.model.requests
    assert "think of the budget" not in requests[0].messages[-1].content
    assert "think of the budget" in requests[1].messages[-1].content
    assert SECRET not in requests[1].messages[-1].content
    assert not any("budget" in message.content for message in outcome.history)
    assert [("budget" in event.told) for event in of(events, ModelRequested)] == [False, True]


async def test_it_sees_what_the_model_will_read() -> None:
    seen: list[Preview] = []

    def note(preview: Preview) -> None:
        seen.append(preview)

    await perform(agent(call(("look", {})), say("done")), "Find it.", guards=[theirs(request=note)])
    assert [(one.turn, one.goal, one.tools) for one in seen] == [(1, "Find it.", ("look",)), (2, "Find it.", ("look",))]
    assert "saw a" in seen[1].messages[-1].content


async def test_a_run_can_be_halted_before_the_model_is_asked() -> None:
    def third(preview: Preview) -> RequestDecision | None:
        return Halt("curfew", "nobody works after ten") if preview.turn == 3 else None

    one = agent(*[call(("look", {"what": str(n)})) for n in range(9)])
    outcome, events = await perform(one, guards=[theirs(request=third)])
    assert (outcome.status, outcome.reason, outcome.turns) == ("stopped", "curfew", 2)
    assert "nobody works after ten" in outcome.message
    assert len(of(events, ModelRequested)) == 2


@pytest.mark.parametrize("answer", [KeyError("a defect"), "yes"], ids=["raises", "nonsense"])
async def test_a_broken_one_lets_no_request_pass(answer: object) -> None:
    def broken(preview: Preview) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    outcome, events = await perform(agent(say("done")), guards=[theirs(request=broken)])
    assert (outcome.status, outcome.reason) == ("stopped", "guard_failed")
    assert not of(events, ModelRequested)


@pytest.mark.parametrize(("decision", "would"), [(Say("hm"), "tell"), (Halt("curfew", "hm"), "halt")])
async def test_one_that_is_observed_only_says_what_it_would_do(decision: RequestDecision, would: str) -> None:
    one = agent(call(("look", {})), say("done"), observe=True)
    outcome, events = await perform(one, guards=[theirs(request=lambda preview: decision)])
    assert outcome.status == "completed"
    assert [(note.by, note.would, note.text) for note in of(events, WouldRefuse)] == [("theirs", would, "hm")] * 2
    assert of(events, CallEnded)[0].result.kind == "finished"


# -- results -----------------------------------------------------------------------------------------------------------


async def test_what_a_call_gave_is_rewritten_before_anybody_reads_it() -> None:
    def shout(output: Output) -> ResultDecision:
        assert output.arguments == {"what": "b"}
        return Rewrite(output.content.upper() + SECRET, productive=False)

    one = agent(call(("look", {"what": "b"})), say("done"))
    outcome, events = await perform(one, guards=[theirs(result=shout)], redaction=Redaction([SECRET]))
    (ended,) = of(events, CallEnded)
    assert ended.result.content.startswith("SAW B")
    assert SECRET not in ended.result.content
    assert (ended.result.productive, ended.result.by, ended.result.kind) == (False, "theirs", "finished")
    assert not any("saw b" in message.content for message in outcome.history)
    assert not outcome.evidence


async def test_what_it_makes_of_a_result_has_the_bound_of_the_tool() -> None:
    outcome, events = await perform(
        agent(call(("look", {})), say("done")), guards=[theirs(result=lambda output: Rewrite("x" * 50_000))]
    )
    assert outcome.status == "completed"
    (ended,) = of(events, CallEnded)
    assert len(ended.result.content) < 1200
    assert ended.result.cut == 49_000


async def test_what_a_call_gave_is_withheld_and_counts_as_failed() -> None:
    def withhold(output: Output) -> ResultDecision:
        return Withhold("that page is an injection", "injection")

    one = agent(call(("look", {})), say("done"))
    outcome, events = await perform(one, guards=[theirs(result=withhold)])
    (ended,) = of(events, CallEnded)
    assert (ended.result.kind, ended.result.error, ended.result.by) == ("failed", "injection", "theirs")
    assert ended.result.content == "that page is an injection"
    assert not outcome.evidence
    assert not any("saw a" in message.content for message in outcome.history)


@pytest.mark.parametrize("answer", [KeyError("a defect"), "yes", Rewrite(7)], ids=["raises", "nonsense", "no text"])  # type: ignore[arg-type]
async def test_what_a_broken_one_was_asked_about_is_withheld(answer: object) -> None:
    def broken(output: Output) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    outcome, events = await perform(agent(call(("look", {})), say("done")), guards=[theirs(result=broken)])
    (ended,) = of(events, CallEnded)
    assert (ended.result.kind, ended.result.error) == ("failed", "guard_failed")
    assert "theirs" in ended.result.content
    assert "saw a" not in ended.result.content
    assert outcome.status == "completed"


async def test_each_is_asked_about_what_those_before_it_have_left() -> None:
    def first(output: Output) -> ResultDecision:
        return Rewrite(output.content + " once")

    def second(output: Output) -> ResultDecision:
        return Rewrite(output.content + " twice")

    _, events = await perform(
        agent(call(("look", {})), say("done")), guards=[theirs(result=first), theirs(result=second)]
    )
    assert of(events, CallEnded)[0].result.content == "saw a once twice"


@pytest.mark.parametrize(
    ("decision", "would"), [(Rewrite("other"), "rewrite"), (Withhold("no", "injection"), "withhold")]
)
async def test_one_that_is_observed_leaves_results_alone(decision: ResultDecision, would: str) -> None:
    one = agent(call(("look", {})), say("done"), observe=True)
    _, events = await perform(one, guards=[theirs(result=lambda output: decision)])
    (note,) = of(events, WouldRefuse)
    assert (note.by, note.would, note.tool) == ("theirs", would, "look")
    assert of(events, CallEnded)[0].result.content == "saw a"


async def test_a_failed_call_is_not_asked_about() -> None:
    asked: list[Output] = []

    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("no")

    one = Agent(scripted(call(("fail", {})), say("done")), [fail], profile=BARE)
    await perform(one, guards=[theirs(result=asked.append)])
    assert not asked
