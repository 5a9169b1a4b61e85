"""A second model or a rule that sees calls before they run: what it says is done, failing it lets nothing slip."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from support import of, perform, scripted, supervised
from watchkeeper import Agent, ConfigurationError, Judge, Profile, Ruling, tool
from watchkeeper.guards.guard import Proposal, Replace
from watchkeeper.messages import (
    CallEnded,
    CallProposed,
    CallReplaced,
    CallStarted,
    Event,
    OpinionAsked,
    OpinionGiven,
    Usage,
    WouldRefuse,
)
from watchkeeper.opinions.second import Question
from watchkeeper.redaction import Redaction
from watchkeeper.testing import ScriptedModel, Step, call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads", judged=True)
async def pay(what: str = "a") -> str:
    """Pay."""
    return f"paid {what}"


@tool(effect="reads")
async def look(what: str = "a") -> str:
    """Look."""
    return f"saw {what}"


@tool(effect="reads", judged=True, irreversible=True)
async def launch() -> str:
    """Launch."""
    return "launched"


ALLOW = '{"decision": "allow"}'
REFUSE = '{"decision": "refuse", "why": "nobody asked for that"}'


def ends(events: list[Event]) -> list[tuple[str, str, str | None]]:
    found = sorted(of(events, CallEnded), key=lambda event: (event.turn, event.slot))
    return [(event.result.tool, event.result.kind, event.result.error) for event in found]


def refuse(question: Question) -> Ruling:
    return Ruling("refuse", "nobody asked for that")


# -- which calls ------------------------------------------------------------------------------------------------------


async def test_marked_calls_are_judged_and_others_are_not() -> None:
    model = scripted(say(REFUSE))
    turns = call(("look", {}), ("pay", {"what": "x"}), text="I pay."), call(("look", {"what": "b"})), say("Done.")
    outcome, events = await perform(Agent(scripted(*turns), [look, pay], judge=Judge(model)))
    assert outcome.answer == "Done."
    assert ends(events) == [
        ("look", "finished", None),
        ("pay", "refused", "judge_refused"),
        ("look", "finished", None),
    ]
    assert len(of(events, OpinionAsked)) == len(of(events, OpinionGiven)) == model.asked == 1
    question = json.loads(model.requests[0].messages[1].content)
    assert question == {
        "task": "Do it.",
        "said": "I pay.",
        "turn": 1,
        "calls": [{"number": 1, "tool": "pay", "arguments": '{"what":"x"}', "irreversible": False}],
        "tools": ["look(what)", "pay(what)"],
    }


async def test_half_a_character_in_what_is_judged_is_no_crash() -> None:
    model = scripted(say(ALLOW))
    turns = call(("pay", '{"what": "x"'), ("pay", {"what": "y"}), text="I pay \ud800."), say("Done.")
    outcome, _ = await perform(Agent(scripted(*turns), [pay], judge=Judge(model, every_turn=True)))
    assert outcome.answer == "Done."
    assert "I pay \ufffd." in model.requests[0].messages[-1].content


async def test_without_a_judge_it_runs() -> None:
    """The run that goes wrong without one."""

    @tool(effect="reads")
    async def pay(what: str = "a") -> str:
        """Pay."""
        return f"paid {what}"

    _, events = await perform(Agent(scripted(call(("pay", {})), say("Done.")), [pay]))
    assert ends(events) == [("pay", "finished", None)]
    assert of(events, OpinionAsked) == []


async def test_tools_may_be_named_in_the_profile() -> None:
    agent = Agent(
        scripted(call(("look", {})), say("Done.")), [look], judge=Judge(rule=refuse), profile=Profile(judged=("look",))
    )
    _, events = await perform(agent)
    assert ends(events) == [("look", "refused", "judge_refused")]


async def test_or_all_calls_of_every_turn_be_judged_in_one_question() -> None:
    model = scripted(say('{"decision": "refuse", "why": "no", "calls": [2]}'), say(ALLOW))
    turns = call(("look", {}), ("look", {"what": "b"})), call(("look", {"what": "c"})), say("Done.")
    _, events = await perform(Agent(scripted(*turns), [look], judge=Judge(model, every_turn=True)))
    assert [kind for _, kind, _ in ends(events)] == ["finished", "refused", "finished"]
    assert model.asked == 2


@pytest.mark.parametrize("name", ["pay<|channel|>commentary", "functions.pay"])
async def test_another_spelling_of_the_name_does_not_slip_by(name: str) -> None:
    _, events = await perform(Agent(scripted(call((name, {})), say("Done.")), [pay], judge=Judge(rule=refuse)))
    assert ends(events) == [("pay", "refused", "judge_refused")]


async def test_what_is_beyond_one_question_does_not_run() -> None:
    turn = call(*[("pay", {"what": str(n)}) for n in range(70)])
    _, events = await perform(Agent(scripted(turn, say("Done.")), [pay], judge=Judge(rule=lambda question: None)))
    assert [kind for _, kind, _ in ends(events)] == ["finished"] * 64 + ["refused"] * 6


@pytest.mark.parametrize(("tools", "profile"), [([pay], Profile()), ([look], Profile(judged=("look",)))])
def test_a_mark_without_a_judge_is_told_at_once(tools: list[Any], profile: Profile) -> None:
    with pytest.raises(ConfigurationError, match=r"is to be judged, .* and there is no judge; give one with judge="):
        Agent(scripted(), tools, profile=profile)


# -- what it says -----------------------------------------------------------------------------------------------------


async def test_it_may_stop_the_run() -> None:
    agent = Agent(scripted(call(("pay", {}))), [pay], judge=Judge(rule=lambda question: Ruling("stop", "it is a trap")))
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.reason) == ("stopped", "judge")
    assert "The judge said: it is a trap" in outcome.message
    assert ends(events) == [("pay", "not_run", None)]
    assert of(events, CallStarted) == []


async def test_it_may_want_it_done_in_another_way() -> None:
    ruling = Ruling("replace", "too dear", instead="look first")
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [pay], judge=Judge(rule=lambda question: ruling))
    _, events = await perform(agent)
    assert ends(events) == [("pay", "refused", "judge_replaced")]
    assert "That way is: look first" in of(events, CallEnded)[0].result.content


def put(tool: str = "look", arguments: dict[str, Any] | None = None) -> Judge:
    ruling = Ruling(
        "replace", "too dear", tool=tool, arguments={"what": "the price"} if arguments is None else arguments
    )
    return Judge(rule=lambda question: ruling)


async def test_it_may_put_another_call_in_its_place() -> None:
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [look, pay], judge=put(), required=["look"])
    outcome, events = await perform(agent)
    assert outcome.status == "completed"
    assert ends(events) == [("look", "finished", None)]
    (opinion,) = of(events, OpinionGiven)
    assert (opinion.decision, opinion.tool, opinion.arguments) == ("replace", "look", '{"what":"the price"}')
    (fact,) = of(events, CallReplaced)
    assert (fact.by, fact.tool, fact.instead, fact.why) == ("judge", "pay", "look", "too dear")
    assert [event.tool for event in of(events, CallStarted)] == ["look"]
    result = of(events, CallEnded)[0].result
    assert result.content == "saw the price"
    assert result.heading.startswith("pay was not run (too dear); look was called in its place")


async def test_a_model_may_put_another_call_in_its_place() -> None:
    said = '{"decision": "replace", "why": "too dear", "tool": "pay", "arguments": {"what": "less"}}'
    agent = Agent(scripted(call(("pay", {"what": "all"})), say("Done.")), [look, pay], judge=Judge(scripted(say(said))))
    _, events = await perform(agent)
    assert ends(events) == [("pay", "finished", None)]  # its own word on a marked tool is an opinion on that call
    assert of(events, CallEnded)[0].result.content == "paid less"


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("delete_everything", {}, "judge_refused"),
        ("look", {"what": object()}, "judge_refused"),
        ("look", {"what": "x" * 5000}, "judge_refused"),
        ("look", {"what": "with hunter2hunter2"}, "judge_refused"),
        ("look", {"what": "with [redacted]"}, "judge_refused"),
        ("look", {"where": "here"}, "guard_failed"),
    ],
    ids=["no such tool", "no JSON", "too long", "a secret", "what was cut", "no such argument"],
)
async def test_what_cannot_be_called_in_its_place_is_not(tool: str, arguments: dict[str, Any], error: str) -> None:
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [look, pay], judge=put(tool, arguments))
    outcome, events = await perform(agent, redaction=Redaction(["hunter2hunter2"]))
    assert outcome.status == "completed"
    assert of(events, CallStarted) == []
    assert [(kind, code) for _, kind, code in ends(events)] == [("refused", error)]


async def test_the_call_that_it_puts_meets_the_other_guards() -> None:
    profile = Profile(deny=("look",))
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [look, pay], judge=put(), profile=profile)
    _, events = await perform(agent)
    assert ends(events) == [("look", "denied", "denied")]


class Cheaper:
    """A guard that pays for something else."""

    name = "cheaper"

    def __init__(self, tool: str) -> None:
        self.folds: dict[Any, Any] = {}
        self._tool = tool

    def call(self, proposal: Proposal) -> Replace | None:
        return None if proposal.stands_in else Replace(self._tool, {"what": "something else"})


@pytest.mark.parametrize(("tool", "kind"), [("pay", "refused"), ("look", "finished")])
async def test_its_yes_to_one_call_is_none_to_another_that_a_guard_puts_in_its_place(tool: str, kind: str) -> None:
    judge = Judge(rule=lambda question: None, every_turn=True)
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [look, pay], judge=judge)
    _, events = await perform(agent, guards=[lambda: Cheaper(tool)])
    assert [(name, how) for name, how, _ in ends(events)] == [(tool, kind)]


async def test_it_may_want_a_person_to_decide() -> None:
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [pay], judge=Judge(rule=lambda q: Ruling("ask", "sure?")))
    _, events = await perform(agent)
    assert ends(events) == [("pay", "denied", "no_approval")]


async def test_what_it_allows_still_meets_the_other_guards() -> None:
    profile = Profile(deny=("pay",))
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [pay], judge=Judge(scripted(say(ALLOW))), profile=profile)
    _, events = await perform(agent)
    assert ends(events) == [("pay", "denied", "denied")]


async def test_a_rule_in_a_thread_or_in_the_loop() -> None:
    async def later(question: Question) -> Ruling | None:
        await anyio.sleep(2)
        return None if question.calls[0].arguments == '{"what":"good"}' else Ruling("refuse")

    turns = call(("pay", {"what": "good"})), call(("pay", {"what": "bad"})), say("Done.")
    outcome, events = await perform(Agent(scripted(*turns), [pay], judge=Judge(rule=later)))
    assert [kind for _, kind, _ in ends(events)] == ["finished", "refused"]
    assert outcome.seconds == pytest.approx(4)


async def test_opinions_are_facts_before_the_calls_that_they_are_on() -> None:
    agent = Agent(scripted(call(("pay", {})), say("Done.")), [pay], judge=Judge(rule=refuse))
    _, events = await perform(agent)
    (opinion,) = of(events, OpinionGiven)
    (proposed,) = of(events, CallProposed)
    assert opinion.n < proposed.n
    assert (opinion.by, opinion.decision, opinion.call_id) == ("judge", "refuse", proposed.call_id)


async def test_where_it_only_observes() -> None:
    for ruling, would in (
        (Ruling("stop", "a trap"), "refuse"),
        (Ruling("ask", "sure?"), "ask"),
        (Ruling("replace", tool="pay", arguments={"what": "less"}), "replace"),
    ):
        agent = Agent(
            scripted(call(("pay", {})), say("Done.")),
            [pay],
            judge=Judge(rule=lambda question, ruling=ruling: ruling),
            profile=Profile(observe=("judge",)),
        )
        outcome, events = await perform(agent)
        assert outcome.status == "completed"
        assert ends(events) == [("pay", "finished", None)]
        assert [(event.by, event.would) for event in of(events, WouldRefuse)] == [("judge", would)]


# -- when it fails ----------------------------------------------------------------------------------------------------


def broken(question: Question) -> Any:
    raise KeyError("a defect")


async def endless(question: Question) -> Any:
    await anyio.sleep_forever()


FAILING: dict[str, Any] = {
    "raises": lambda **more: Judge(rule=broken, **more),
    "leaves": lambda **more: Judge(rule=lambda question: exit(3), **more),
    "says nonsense": lambda **more: Judge(rule=lambda question: True, **more),  # type: ignore[arg-type,return-value]
    "says no decision": lambda **more: Judge(rule=lambda question: Ruling("maybe"), **more),  # type: ignore[arg-type]
    "never ends": lambda **more: Judge(rule=endless, **more),
    "is refused": lambda **more: Judge(ScriptedModel([fail("auth", "no")]), **more),
    "hangs": lambda **more: Judge(ScriptedModel([Step(stall=True)]), **more),
    "says nothing of use": lambda **more: Judge(scripted(say("fine"), say("fine!")), **more),
    "has nothing left": lambda **more: Judge(scripted(), tokens=10, **more),
}


@pytest.mark.parametrize("how", FAILING)
@pytest.mark.parametrize("on_failure", ["allow", "refuse", "ask"])
async def test_when_it_fails_what_was_said_for_that_case_is_done(how: str, on_failure: Any) -> None:
    judge = FAILING[how](on_failure=on_failure)
    outcome, events = await perform(Agent(scripted(call(("pay", {})), say("Done.")), [pay], judge=judge))
    assert outcome.status == "completed"
    (opinion,) = of(events, OpinionGiven)
    assert opinion.decision == on_failure
    assert opinion.failed
    kinds = {"allow": "finished", "refuse": "refused", "ask": "denied"}
    assert [kind for _, kind, _ in ends(events)] == [kinds[on_failure]]


@pytest.mark.parametrize("how", FAILING)
async def test_a_call_that_cannot_be_undone_is_refused_then_whatever_was_said(how: str) -> None:
    judge = FAILING[how](on_failure="allow")
    agent = Agent(scripted(call(("launch", {})), say("Done.")), [launch], judge=judge)
    _, events = await perform(agent)
    assert ends(events) == [("launch", "refused", "judge_refused")]


async def test_what_it_allows_still_needs_the_approval_of_a_person_where_it_cannot_be_undone() -> None:
    agent = Agent(scripted(call(("launch", {})), say("Done.")), [launch], judge=Judge(scripted(say(ALLOW))))
    _, events = await perform(agent)
    assert ends(events) == [("launch", "denied", "no_approval")]


async def test_a_cancel_ends_a_question_at_once() -> None:
    async with supervised() as supervisor:
        agent = Agent(scripted(call(("pay", {}))), [pay], judge=Judge(ScriptedModel([Step(stall=True)])))
        run = await supervisor.start(agent, "task")
        await anyio.sleep(1)
        run.cancel("enough")
        outcome = await run.wait()
        assert (outcome.status, outcome.seconds) == ("cancelled", pytest.approx(1))
        assert [record.kind for record in outcome.calls] == ["not_run"]
        assert supervisor.budget.held == {}


async def test_its_tokens_are_drawn_from_the_run_and_have_a_limit_of_their_own() -> None:
    model = scripted(*[say(ALLOW, usage=Usage(900, 50))] * 2)
    turns = [call(("pay", {"what": str(n)}), usage=Usage(10, 5)) for n in range(4)]
    agent = Agent(scripted(*turns, say("Done.", usage=Usage(10, 5))), [pay], judge=Judge(model, tokens=2_400))
    outcome, events = await perform(agent)
    assert [kind for _, kind, _ in ends(events)] == ["finished", "finished", "refused", "refused"]
    assert outcome.spent["tokens"] == 5 * 15 + 2 * 950


async def test_no_secret_is_shown_to_it() -> None:
    model = scripted(say(ALLOW))
    turn = call(("pay", {"what": "hunter2hunter2"}), text="with hunter2hunter2")
    await perform(
        Agent(scripted(turn, say("Done.")), [pay], judge=Judge(model)), redaction=Redaction(["hunter2hunter2"])
    )
    assert "hunter2hunter2" not in model.requests[0].messages[1].content
    assert "[redacted]" in model.requests[0].messages[1].content


@pytest.mark.parametrize(
    "given", [{}, {"model": scripted(), "rule": refuse}, {"rule": 3}, {"rule": refuse, "seconds": 0}]
)
def test_a_judge_that_cannot_work(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="judge: "):
        Judge(**given)
