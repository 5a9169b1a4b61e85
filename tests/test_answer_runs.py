"""Runs whose answers have a form, validators, citations: what goes back, what is accepted, what ends the run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from support import BARE, of, perform, scripted, supervised
from watchkeeper import (
    Agent,
    ConfigurationError,
    Event,
    Limits,
    Outcome,
    Profile,
    Unverified,
    decode_event,
    encode_event,
    must_mention,
    must_not_mention,
    tool,
)
from watchkeeper.examiner import VALIDATOR_SECONDS
from watchkeeper.guards.answer import Draft, Reject
from watchkeeper.messages import CallEnded, ModelRequested, PushedBack, RunEnded, WouldRefuse
from watchkeeper.redaction import Redaction
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Weather(msgspec.Struct, forbid_unknown_fields=True):
    place: str
    rain: int


GOOD = '{"place": "Oslo", "rain": 3}'
BAD = '{"place": "Oslo", "rain": "much"}'
SCHEMA = {"type": "object", "properties": {"rain": {"type": "integer"}}, "required": ["rain"]}


@tool(effect="reads")
async def look(what: str = "a") -> str:
    """Look."""
    return "" if what == "nothing" else f"saw {what}"


def pushed(events: list[Event]) -> list[str]:
    return [event.by for event in of(events, PushedBack)]


# -- form -------------------------------------------------------------------------------------------------------------


async def test_the_value_is_of_the_type() -> None:
    model = scripted(say(f"Here you are:\n```json\n{GOOD}\n```"))
    outcome, events = await perform(Agent(model, answer_type=Weather))
    assert (outcome.status, outcome.value, outcome.rejected) == ("completed", Weather("Oslo", 3), ())
    assert outcome.answer == f"Here you are:\n```json\n{GOOD}\n```"
    assert pushed(events) == []
    told = model.requests[0].messages[0].content
    assert "fits this JSON schema" in told
    assert '"place"' in told


async def test_a_schema_gives_plain_data() -> None:
    outcome, _ = await perform(Agent(scripted(say('{"rain": 3, "more": [1]}')), answer_type=SCHEMA))
    assert outcome.value == {"rain": 3, "more": [1]}


async def test_without_a_type_there_is_no_value_and_nothing_is_told() -> None:
    """The run that goes wrong without the form: anything is an answer."""
    model = scripted(say(BAD))
    outcome, _ = await perform(Agent(model, profile=BARE))
    assert (outcome.answer, outcome.value) == (BAD, None)
    assert model.requests[0].messages[0].role == "user"
    assert model.requests[0].answer_schema is None


async def test_a_misfit_goes_back_with_its_path() -> None:
    model = scripted(say(BAD), say(GOOD))
    outcome, events = await perform(Agent(model, instructions="Be brief.", answer_type=Weather))
    assert (outcome.value, outcome.rejected) == (Weather("Oslo", 3), (BAD,))
    (fact,) = of(events, PushedBack)
    assert fact.by == "form"
    assert '- rain: expected an integer, got a string ("much")' in fact.text
    assert model.requests[0].messages[0].content.startswith("Be brief.\n\n")
    assert [message.role for message in model.requests[1].messages] == ["system", "user", "assistant", "user"]


async def test_after_two_it_is_the_end_and_the_text_is_kept() -> None:
    outcome, events = await perform(Agent(scripted(say(BAD), say("no"), say("still no")), answer_type=Weather))
    assert (outcome.status, outcome.reason) == ("stopped", "answer_invalid")
    assert (outcome.answer, outcome.value, outcome.partial) == (None, None, "still no")
    assert outcome.rejected == (BAD, "no", "still no")
    assert "there is no JSON in it" in outcome.message
    assert pushed(events) == ["form", "form"]


@pytest.mark.parametrize("reasks", [0, 1, 4])
async def test_how_often_is_a_limit(reasks: int) -> None:
    texts = ["none", "I cannot say", "it may rain", "ask another", "sorry"][: reasks + 1]
    agent = Agent(scripted(*map(say, texts)), answer_type=Weather, limits=Limits(reasks=reasks))
    outcome, events = await perform(agent)
    assert (outcome.reason, len(pushed(events))) == ("answer_invalid", reasks)


async def test_tools_may_be_called_between() -> None:
    script = scripted(say("no"), call(("look", {})), say(GOOD))
    outcome, _ = await perform(Agent(script, [look], answer_type=Weather))
    assert outcome.value == Weather("Oslo", 3)


async def test_evidence_comes_first_and_has_tries_of_its_own() -> None:
    script = scripted(say("no"), call(("look", {})), say("no"), say("no"), say(GOOD))
    outcome, events = await perform(Agent(script, [look], required=["look"], answer_type=Weather))
    assert outcome.value == Weather("Oslo", 3)
    assert pushed(events) == ["evidence", "form", "form"]


async def test_at_the_last_turn_nothing_goes_back() -> None:
    agent = Agent(scripted(say("no")), answer_type=Weather, limits=Limits(max_turns=1, finish_turns=0))
    outcome, events = await perform(agent)
    assert (outcome.reason, outcome.rejected, pushed(events)) == ("answer_invalid", ("no",), [])


async def test_a_forced_answer_has_the_form_too() -> None:
    agent = Agent(
        scripted(call(("look", {})), say("no"), say(GOOD)),
        [look],
        answer_type=Weather,
        limits=Limits(max_turns=1, finish_turns=2),
    )
    outcome, _ = await perform(agent)
    assert (outcome.value, outcome.forced) == (Weather("Oslo", 3), True)


async def test_where_the_form_only_observes() -> None:
    agent = Agent(scripted(say("no")), answer_type=Weather, profile=Profile(observe=("form",)))
    outcome, events = await perform(agent)
    assert (outcome.status, outcome.answer, outcome.value) == ("completed", "no", None)
    (fact,) = of(events, WouldRefuse)
    assert (fact.by, fact.would, fact.error) == ("form", "push", "answer_invalid")


async def test_a_secret_in_escapes_does_not_reach_the_value() -> None:
    text = '{"place": "hunter\\u0032hunter2", "rain": 1}'
    outcome, events = await perform(
        Agent(scripted(say(text)), answer_type=Weather), redaction=Redaction(["hunter2hunter2"])
    )
    assert outcome.value == Weather("[redacted]", 1)
    assert b"hunter2hunter2" not in b"".join(map(encode_event, events))


async def test_the_outcome_is_a_fact_that_can_be_read_again() -> None:
    _, events = await perform(Agent(scripted(say(GOOD)), answer_type=Weather))
    again = decode_event(encode_event(of(events, RunEnded)[-1]))
    assert isinstance(again, RunEnded)
    assert again.outcome.value == {"place": "Oslo", "rain": 3}


async def test_a_sub_agents_answer_is_checked_and_handed_over_as_json() -> None:
    child = Agent(scripted(say("no"), say(f"So: {GOOD}")), name="child", answer_type=Weather)
    parent = Agent(scripted(call(("child", {"task": "x"})), say("done")), [child.as_tool()])
    _, events = await perform(parent)
    assert of(events, CallEnded)[0].result.content == '{"place":"Oslo","rain":3}'


async def test_a_sub_agent_without_a_valid_answer_is_no_evidence() -> None:
    child = Agent(scripted(*[say("no")] * 3), name="child", answer_type=Weather)
    parent = Agent(scripted(call(("child", {"task": "x"})), say("done")), [child.as_tool()])
    outcome, events = await perform(parent)
    (result,) = [event.result for event in of(events, CallEnded)]
    assert (result.productive, result.error) == (False, "stopped_answer_invalid")
    assert outcome.evidence == ()


async def test_the_users_word_goes_before_an_answer() -> None:
    """Said while the answer was on its way: it is not examined, for it is not the answer any more."""
    model = scripted(say("no", delay=5), say(GOOD))
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(model, answer_type=Weather), "task")
        await anyio.sleep(1)
        run.steer("As JSON, please.")
        outcome = await run.wait()
    assert (outcome.value, outcome.rejected) == (Weather("Oslo", 3), ())


@pytest.mark.parametrize("wanted", [object(), "int", {"type": "text"}])
async def test_a_form_that_cannot_be_checked_is_told_at_once(wanted: Any) -> None:
    with pytest.raises(ConfigurationError):
        Agent(scripted(), answer_type=wanted)


# -- validators -------------------------------------------------------------------------------------------------------


def even(value: Any) -> str | None:
    return "rain must be even" if value.rain % 2 else None


async def even_later(value: Any) -> str | None:
    await anyio.sleep(1)
    return even(value)


@pytest.mark.parametrize("validator", [even, even_later])
async def test_a_validator_gets_the_value(validator: Any) -> None:
    script = scripted(say(GOOD), say('{"place": "Oslo", "rain": 4}'))
    outcome, events = await perform(Agent(script, answer_type=Weather, validators=[validator]))
    assert outcome.value == Weather("Oslo", 4)
    (fact,) = of(events, PushedBack)
    assert (fact.by, "- rain must be even" in fact.text) == ("validators", True)


async def test_without_a_type_a_validator_gets_the_text() -> None:
    outcome, _ = await perform(
        Agent(scripted(say("a"), say("b")), validators=[lambda text: None if text == "b" else "b!"])
    )
    assert (outcome.answer, outcome.rejected) == ("b", ("a",))


async def test_words_are_looked_for_in_the_text_whatever_the_type() -> None:
    validators = [must_mention("Oslo"), must_not_mention("Bergen")]
    script = scripted(say('{"place": "Bergen", "rain": 1}'), say(GOOD))
    outcome, events = await perform(Agent(script, answer_type=Weather, validators=validators))
    assert outcome.value == Weather("Oslo", 3)
    (fact,) = of(events, PushedBack)
    assert "- it must mention 'Oslo'\n- it must not mention 'Bergen'" in fact.text


async def test_form_and_validators_share_the_tries() -> None:
    script = scripted(say("no"), say(GOOD), say(GOOD))
    outcome, events = await perform(Agent(script, answer_type=Weather, validators=[even]))
    assert (outcome.reason, pushed(events)) == ("answer_invalid", ["form", "validators"])
    assert "What was wrong: rain must be even" in outcome.message


def broken(value: Any) -> str | None:
    raise KeyError("a defect")


def leaving(value: Any) -> str | None:
    raise SystemExit(3)


def nonsense(value: Any) -> Any:
    return True


async def endless(value: Any) -> str | None:
    await anyio.sleep_forever()
    return None


@pytest.mark.parametrize("validator", [broken, leaving, nonsense, endless])
async def test_a_validator_that_is_broken_lets_nothing_pass_and_breaks_nothing(validator: Any) -> None:
    agent = Agent(scripted(say("a")), validators=[validator], limits=Limits(reasks=0))
    outcome, _ = await perform(agent)
    assert (outcome.status, outcome.reason) == ("stopped", "answer_invalid")
    assert f"the check {validator.__name__} could not be made" in outcome.message
    if validator is endless:
        assert outcome.seconds == pytest.approx(VALIDATOR_SECONDS)


async def test_a_plain_validator_does_not_hold_up_the_loop() -> None:
    def slow(text: str) -> str | None:
        time.sleep(0.2)
        return None

    beats = 0

    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("a")), validators=[slow]), "task")
        while run.outcome is None:
            await anyio.lowlevel.checkpoint()
            beats += 1
        assert (await run.wait()).status == "completed"
    assert beats > 100


async def test_a_cancel_ends_a_validator_at_once() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(say("a")), validators=[endless]), "task")
        await anyio.sleep(1)
        run.cancel("enough")
        outcome = await run.wait()
    assert (outcome.status, outcome.seconds) == ("cancelled", pytest.approx(1))


async def test_where_validators_only_observe() -> None:
    agent = Agent(scripted(say("a")), validators=[broken], profile=Profile(observe=("validators",)))
    outcome, events = await perform(agent)
    assert outcome.answer == "a"
    assert [event.by for event in of(events, WouldRefuse)] == ["validators"]


def test_what_is_no_validator_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match="a validator is a function, not 3"):
        Agent(scripted(), validators=[3])  # type: ignore[list-item]


# -- citations --------------------------------------------------------------------------------------------------------


async def test_a_made_up_citation_goes_back_and_is_marked_in_the_end() -> None:
    made_up = "It is so [call:call_9_9]."
    script = scripted(call(("look", {})), say(made_up), say(made_up), say(made_up))
    outcome, events = await perform(Agent(script, [look]))
    assert (outcome.status, outcome.answer) == ("completed", made_up)
    assert outcome.unverified == (Unverified("It is so.", "no_such_call", "call_9_9"),)
    assert pushed(events) == ["citations", "citations"]


async def test_the_model_reads_what_it_may_cite() -> None:
    script = scripted(call(("look", {}), ("look", {"what": "nothing"})), say("It is so [call:call_1_1]."))
    outcome, _ = await perform(Agent(script, [look], cite=True))
    assert (outcome.status, outcome.unverified) == ("completed", ())
    results = [message.content for message in script.requests[1].messages if message.role == "tool"]
    assert results[0].startswith("[call:call_1_1]\n")
    assert not results[1].startswith("[call:")
    assert "[call:ID]" in script.requests[0].messages[0].content


async def test_an_answer_that_cites_nothing_goes_back_where_that_is_asked_for() -> None:
    script = scripted(call(("look", {})), say("It is so."), say("It is so [call:call_1_1]. I guess."))
    outcome, events = await perform(Agent(script, [look], cite=True))
    assert pushed(events) == ["citations"]
    assert outcome.unverified == (Unverified("I guess.", "uncited"),)


async def test_a_call_of_an_earlier_run_is_none_of_this_one() -> None:
    first, _ = await perform(Agent(scripted(call(("look", {})), say("done")), [look]))
    cited = say("It is so [call:call_1_1].")
    async with supervised() as supervisor:
        agent = Agent(scripted(cited, cited, cited), [look], cite=True)
        run = await supervisor.start(agent, "task", history=first.history)
        outcome = await run.wait()
    assert [one.why for one in outcome.unverified] == ["no_such_call"]


async def test_what_is_not_verified_stands_in_a_sub_agents_answer() -> None:
    made_up = say("It is so [call:call_9_9].")
    child = Agent(scripted(made_up, made_up, made_up), name="child")
    parent = Agent(scripted(call(("child", {"task": "x"})), say("done")), [child.as_tool()])
    _, events = await perform(parent)
    assert of(events, CallEnded)[0].result.content.endswith("statements of it:)\n- It is so. (no_such_call)")


# -- third parties ----------------------------------------------------------------------------------------------------


class Polite:
    """Guards both hooks, as one and the same object."""

    name = "polite"

    def __init__(self) -> None:
        self.ended = 0
        self.folds: dict[type[Event], Callable[[Any], None]] = {CallEnded: self._ended}

    def _ended(self, event: CallEnded) -> None:
        self.ended += 1

    def call(self, proposal: Any) -> None:
        return None

    def answer(self, draft: Draft) -> Reject | None:
        assert draft.goal == "Do it."
        return None if "please" in draft.text else Reject(f"say please, after {self.ended} calls")


async def test_a_third_partys_guard_of_answers() -> None:
    agent = Agent(scripted(call(("look", {})), say("a"), say("a, please")), [look])
    outcome, events = await perform(agent, guards=[Polite])
    assert (outcome.answer, outcome.rejected) == ("a, please", ("a",))
    (fact,) = of(events, PushedBack)
    assert (fact.by, "say please, after 1 calls" in fact.text) == ("polite", True)


async def test_it_may_observe() -> None:
    agent = Agent(scripted(say("a")), profile=Profile(observe=("polite",)))
    outcome, events = await perform(agent, guards=[Polite])
    assert outcome.answer == "a"
    assert [(event.by, event.would) for event in of(events, WouldRefuse)] == [("polite", "push")]


# -- off --------------------------------------------------------------------------------------------------------------


async def test_who_asks_for_nothing_gets_no_fact_and_no_turn_more() -> None:
    outcome: Outcome
    outcome, events = await perform(Agent(scripted(say("a [link] (call:x)"))))
    assert outcome.unverified == ()
    assert len(of(events, ModelRequested)) == 1
    assert [type(event).__name__ for event in events][-3:] == ["ModelReplied", "RunEnding", "RunEnded"]
