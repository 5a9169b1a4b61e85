from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from support import of, perform, scripted
from watchkeeper import Agent, Limits, tool
from watchkeeper.messages import (
    CallEnded,
    FindingMade,
    Held,
    ModelReplied,
    ModelRequested,
    ModelStreamed,
    PushedBack,
    RunEnded,
    Settled,
    Stopped,
)
from watchkeeper.model import Chunk, Request, TextDelta
from watchkeeper.profiles import PROFILES
from watchkeeper.testing import ScriptedModel, Step, call, say
from watchkeeper.thresholds import Thresholds

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


# -- thinking ---------------------------------------------------------------------------------------------------------


async def test_the_limit_of_thinking_is_part_of_that_of_the_reply() -> None:
    model = scripted(call(("look", {"what": "a"})), say("done"))
    limits = Limits(reply_tokens=300, reasoning_tokens=200, output_tokens=150)
    await perform(Agent(model, [look], limits=limits))
    assert [(request.max_tokens, request.reasoning_tokens) for request in model.requests] == [(150, 150), (140, 140)]
    model = scripted(say("done"))
    await perform(Agent(model))
    assert model.requests[0].reasoning_tokens is None


def pondering(times: int) -> list[Step]:
    """Thinks on and on, of other things each time, before it says a word."""
    return [
        Step(" never", reasoning=" ".join(f"thought {n} {n * n}" for n in range(20_000 + k)), usage=None)
        for k in range(times)
    ]


async def test_thinking_far_beyond_its_limit_is_cut_and_sent_back() -> None:
    """Else a model that thinks for ever would use up the whole reply, each time."""
    model = ScriptedModel([*pondering(1), say("a is fine")], pieces=8)
    outcome, events = await perform(Agent(model, [look], limits=Limits(reply_tokens=4000, reasoning_tokens=100)))
    assert (outcome.status, outcome.answer) == ("completed", "a is fine")
    first = of(events, ModelReplied)[0]
    assert (first.finish, first.stored, first.text) == ("reasoning_length", False, "")
    assert 800 <= len(first.reasoning) <= 832
    assert first.usage is not None
    assert first.usage.estimated
    assert first.usage.output_tokens <= 832
    (back,) = of(events, PushedBack)
    assert back.text.startswith("Your thinking passed its length limit")
    assert not back.stored


async def test_who_thinks_on_and_on_twice_is_stopped() -> None:
    model = ScriptedModel(pondering(2), pieces=8)
    outcome, _ = await perform(Agent(model, limits=Limits(reasoning_tokens=100)))
    assert (outcome.status, outcome.reason) == ("stopped", "length")


async def test_thinking_that_comes_to_a_reply_stands() -> None:
    """A little beyond the limit it may only be counted otherwise, and what comes after it is worth more."""
    words = " ".join(f"{n * n * 7919}" for n in range(200))
    steps = [Step("a is fine", reasoning=words[:700]), Step("done", reasoning=words[:800])]
    for step in steps:
        outcome, _ = await perform(Agent(scripted(step), limits=Limits(reasoning_tokens=100)))
        assert outcome.status == "completed"
    _, events = await perform(Agent(ScriptedModel(pondering(1), pieces=8)))
    assert of(events, ModelReplied)[0].finish == "stop"  # no limit, no cut


@asynccontextmanager
async def _thinking_last(request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
    async def chunks() -> AsyncIterator[Chunk]:
        yield TextDelta("a is fine")
        for n in range(300):
            yield TextDelta(f"{n * n * 7919} ", "reasoning")

    yield chunks()


async def test_an_answer_that_has_begun_is_not_thrown_away_for_its_thinking() -> None:
    model = scripted()
    model.stream = _thinking_last  # type: ignore[method-assign]
    outcome, _ = await perform(Agent(model, limits=Limits(reasoning_tokens=100)))
    assert (outcome.status, outcome.answer) == ("completed", "a is fine")


# -- chanting ---------------------------------------------------------------------------------------------------------

CHANT = "Let me see. " + "I am done. " * 4000


def chanting(*steps: Step, **settings: Any) -> ScriptedModel:
    """A model that streams in pieces of four characters, about a token each."""
    return ScriptedModel(steps, pieces=4, **settings)


async def test_a_chant_is_cut_within_200_tokens_sent_back_and_forgotten() -> None:
    model = chanting(call(("look", {"what": "a"})), say(CHANT), say("a is fine"))
    outcome, events = await perform(Agent(model, [look]))
    assert (outcome.status, outcome.answer) == ("completed", "a is fine")
    streamed = [event.text for event in of(events, ModelStreamed) if event.turn == 2]
    assert len("".join(streamed)) <= 800
    finding = of(events, FindingMade)[0].finding
    assert finding.detector == "chant"
    assert 40 <= finding.count <= 73  # 480 to 800 characters, in laps of 11
    assert finding.known is not None
    assert "done" in finding.known
    reply = of(events, ModelReplied)[1]
    assert (reply.finish, reply.stored) == ("chant", False)
    assert len(reply.text) <= 12 + 2 * 11
    pushed = of(events, PushedBack)
    assert [push.by for push in pushed] == ["chant"]
    said = [message.content for message in model.requests[-1].messages]
    assert not any("I am done." in content for content in said)
    assert pushed[0].text in said[-1]
    assert of(events, Stopped) == []


async def test_a_cut_stream_is_charged_for_what_came() -> None:
    agent = Agent(chanting(say(CHANT), say("done")), [look])
    outcome, events = await perform(agent)
    cut, last = of(events, Settled)
    requested, held = of(events, ModelRequested)[0], of(events, Held)[0]
    assert requested.input_estimate < cut.amounts["tokens"] < requested.input_estimate + 800
    assert cut.amounts["tokens"] < held.amounts["tokens"] / 2
    assert (cut.estimated, last.estimated, outcome.usage.estimated) == (True, False, True)


@pytest.mark.parametrize(
    ("step", "channel"),
    [
        (call(("look", '{"what": "' + "very " * 4000)), "arguments"),
        (call(("look", {"what": "a"}), ("look", '{"what": "' + "very " * 4000)), "arguments"),
        (say("| a | b |\n" * 4000), "content"),
    ],
)
async def test_arguments_are_heard_as_well(step: Step, channel: str) -> None:
    outcome, events = await perform(Agent(chanting(step, say("done")), [look]))
    assert outcome.answer == "done"
    assert channel in of(events, FindingMade)[0].finding.pattern
    reply = of(events, ModelReplied)[0]
    assert reply.finish == "chant"
    assert [made.arguments for made in reply.calls] == ['{"what":"a"}'] * (len(step.calls) - 1)
    assert of(events, CallEnded) == []


async def test_who_does_not_stop_chanting_is_stopped() -> None:
    model = ScriptedModel(lambda request, n: say(CHANT), pieces=4)
    outcome, events = await perform(Agent(model, [look]))
    assert (outcome.status, outcome.reason) == ("stopped", "loop")
    assert outcome.verdict is not None
    assert (outcome.verdict.finding.detector, outcome.verdict.finding.count) == ("chant", 3)
    assert model.asked == 3
    assert len(of(events, ModelReplied)) == 3
    assert outcome.partial is not None
    assert len(outcome.partial) < 50
    assert not any("I am done. I am done." in message.content for message in outcome.history)


async def test_chants_with_other_replies_between_never_stop_a_run() -> None:
    steps = [step for n in range(6) for step in (say(CHANT), call(("look", {"what": str(n)})))]
    outcome, events = await perform(Agent(chanting(*steps, say("done")), [look]))
    assert outcome.answer == "done"
    assert len(of(events, PushedBack)) == 6


async def test_a_chant_of_thoughts_is_cut_before_it_says_anything() -> None:
    class Thinking(ScriptedModel):
        async def _chunks(self, step: Step) -> AsyncIterator[Chunk]:
            for piece in self._cut(step.reasoning):
                yield TextDelta(piece, "reasoning")
            async for chunk in super()._chunks(msgspec.structs.replace(step, reasoning="")):
                yield chunk

    model = Thinking([say("so", reasoning=CHANT), say("done")], pieces=4)
    outcome, events = await perform(Agent(model, [look]))
    assert outcome.answer == "done"
    assert "reasoning" in of(events, FindingMade)[0].finding.pattern
    reply = of(events, ModelReplied)[0]
    assert (reply.finish, reply.text, len(reply.reasoning) < 50) == ("chant", "", True)


@pytest.mark.parametrize("step", [say(CHANT), call(("look", '{"what": "' + "very " * 4000))])
async def test_what_comes_whole_is_not_cut(step: Step) -> None:
    """A model that does not stream has come to its end by itself: what it says is judged for what it is."""
    outcome, events = await perform(Agent(scripted(step, say("done")), [look]))
    assert outcome.answer == (step.text or "done")
    assert of(events, FindingMade) == []


async def test_a_stream_of_long_pieces_is_heard_from_the_second_on() -> None:
    model = ScriptedModel([say(CHANT), say("done")], pieces=3000)
    outcome, events = await perform(Agent(model, [look]))
    assert outcome.answer == "done"
    assert len("".join(event.text for event in of(events, ModelStreamed))) == 6000 + len("done")


async def test_who_only_observes_notes_a_chant_and_lets_it_be() -> None:
    agent = Agent(chanting(say(CHANT)), [look], profile=msgspec.structs.replace(PROFILES["default"], mode="observe"))
    outcome, events = await perform(agent)
    assert outcome.answer == CHANT
    assert [event.finding.detector for event in of(events, FindingMade)] == ["chant"]
    assert of(events, PushedBack) == []


async def test_it_can_be_switched_off() -> None:
    profile = msgspec.structs.replace(PROFILES["default"], thresholds=Thresholds(chant_cut=False))
    outcome, events = await perform(Agent(chanting(say(CHANT)), [look], profile=profile))
    assert outcome.answer == CHANT
    assert of(events, FindingMade) == []


async def test_the_connection_is_closed_at_once() -> None:
    """A server that would go on for ever is left; nothing waits for its end."""
    left: list[int] = []

    class Endless(ScriptedModel):
        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
            self.asked += 1

            async def chunks() -> AsyncIterator[Chunk]:
                sent = 0
                while self.asked == 1:
                    await anyio.sleep(0.01)
                    sent += 1
                    yield TextDelta("the ")
                yield TextDelta("done")

            yield chunks()
            left.append(self.asked)

    outcome, _ = await perform(Agent(Endless(()), [look]))
    assert (outcome.answer, left) == ("done", [1, 2])
    assert outcome.seconds < 200 * 0.01
