"""A run is cut off behind each of its facts in turn, and goes on: nothing is done twice, and it ends as it would."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest
from cuts import RUN, TOKENS, Making, Person, World, check, is_asking, recovered, requests, started_again, uncut

from support import BARE, of
from watchkeeper import Agent, ContextLimits, Limits, Planning, Run, current_call, tool, writes
from watchkeeper.messages import CallEnded, Event, ModelReplied, Recovered
from watchkeeper.model import Request
from watchkeeper.testing import Step, call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def replies(request: Request) -> int:
    """Replies in the conversation so far."""
    return sum(message.role == "assistant" for message in request.messages)


def script(*steps: Step) -> Any:
    """Says what follows on the replies that it reads, and so the same again when it is asked again."""

    def step(request: Request, asked: int) -> Step:
        said = replies(request)
        return msgspec.structs.replace(
            steps[said], ids=tuple(f"call_{said}_{slot}" for slot in range(len(steps[said].calls)))
        )

    return step


def hands(world: World) -> list[Any]:
    @tool(effect="reads")
    async def look(place: str) -> str:
        """Look."""
        await anyio.sleep(len(place) / 10)
        world.do("look", place)
        return f"seen {place}"

    @tool(effect=writes("desk"), idempotent=True)
    async def put(thing: str) -> str:
        """Put."""
        await anyio.sleep(0.1)
        world.do("put", thing, current_call().idempotency_key)
        return f"put {thing}"

    @tool(effect=writes("mail"))
    async def send(text: str) -> str:
        """Send."""
        await anyio.sleep(0.1)
        world.do("send", text, current_call().idempotency_key)
        return f"sent {text}"

    @tool(effect=writes("door"), irreversible=True)
    async def close(door: str) -> str:
        """Close."""
        world.do("close", door, current_call().idempotency_key)
        return f"closed {door}"

    @tool(effect="reads")
    async def wait(what: str) -> str:
        """Has the run paused."""
        current_call().run.pause("to think", seconds=100)
        return "waits"

    @tool(effect="reads")
    async def hear(what: str) -> str:
        """Has the user say something."""
        current_call().run.steer(f"The user says {what}.")
        return "heard"

    @tool(effect="reads")
    async def leave(what: str) -> str:
        """Has the run end after its turn."""
        current_call().run.cancel("left", "after_turn")
        await anyio.sleep(0.1)
        return "left"

    return [look, put, send, close, wait, hear, leave]


def simple(*steps: Step, **settings: Any) -> Making:
    return lambda world: Agent(world.model(script(*steps)), hands(world), **{"profile": BARE, **settings})


ASKED = msgspec.structs.replace(BARE, attended=True)

WORK = simple(
    call(("look", {"place": "aaa"}), ("look", {"place": "b"}), ("put", {"thing": "c"}), ("look", {"place": "d"})),
    say("Half.", calls=(("put", '{"thing": "e"}'), ("put", '{"thing": "c"}'))),
    say("Done."),
    required=["look"],
)
SENT = simple(
    call(("send", {"text": "a"}), ("send", {"text": "b"}), ("look", {"place": "x"})), say("Done."), profile=ASKED
)
ASKING = simple(
    call(("look", {"place": "x"}), ("close", {"door": "a"}), ("close", {"door": "b"}), ("look", {"place": "y"})),
    call(("close", {"door": "c"})),
    say("Done."),
    profile=ASKED,
)
PAUSED = simple(call(("wait", {"what": "x"}), ("look", {"place": "y"})), call(("look", {"place": "z"})), say("Done."))
STEERED = simple(call(("hear", {"what": "x"})), call(("look", {"place": "z"})), say("Done."))
LEFT = simple(call(("leave", {"what": "x"}), ("look", {"place": "aaaa"})), say("Done."))
LOOPING = simple(*[call(("look", {"place": "a"})) for _ in range(12)])
FORCED = simple(*[call(("look", {"place": f"p{n}"})) for n in range(4)], say("Forced."), limits=Limits(max_turns=4))
HELD = simple(*[call(("look", {"place": "a"})) for _ in range(10)], say("Done."), profile=ASKED)
CHECKED = simple(
    call(("look", {"place": "a"})), say("One."), say("Two."), say("Done."),
    validators=[lambda text: None if text == "Done." else "say Done."],
)  # fmt: skip
PUSHED = simple(
    say("Out of my head."), call(("look", {"place": "a"}), ("nothing", {}), ("look", {"x": 1})), say("Done."),
    required=["look"],
)  # fmt: skip


def flaky(world: World) -> Agent:
    """Its model fails twice before each reply."""
    follows = script(call(("look", {"place": "a"})), say("Done."))

    def step(request: Request, asked: int) -> Step:
        return follows(request, asked) if asked % 3 == 0 else fail("server")

    return Agent(world.model(step), hands(world), profile=BARE)


def crowded(world: World) -> Agent:
    """Its conversation is cut more than once; it goes by the last call that it sees."""

    def step(request: Request, asked: int) -> Step:
        last = next((one.calls[0] for one in reversed(request.messages) if one.calls), None)
        number = 0 if last is None else int(last.arguments[-3]) + 1
        if number == 8:
            return say("Done.")
        return msgspec.structs.replace(call(("look", {"place": f"{number}" * 400})), ids=(f"call_{number}",))

    limits = ContextLimits(tokens=300, summary=False, keep=1)
    return Agent(world.model(step), hands(world), profile=msgspec.structs.replace(BARE, context=limits))


def planned(world: World) -> Agent:
    def step(request: Request, asked: int) -> Step:
        last = next(one.content for one in reversed(request.messages) if one.role == "user")
        said = replies(request)
        if said == 0:
            return say('{"question": "q", "steps": [{"goal": "first"}, {"goal": "second"}]}')
        if request.messages[-1].role == "user" and "tep" in last and request.tools and said < 5:
            place = f"place{said}"
            return msgspec.structs.replace(call(("look", {"place": place})), ids=(f"call_{said}",))
        return say(f"Found {said}.")

    return Agent(world.model(step), hands(world), profile=BARE, plan=Planning(steps=2))


def delegating(world: World) -> Agent:
    helper = Agent(
        world.model(script(call(("look", {"place": "deep"})), say("Helped."))),
        hands(world),
        name="helper",
        profile=BARE,
    )
    steps = script(call(("helper", {"task": "Help."}), ("look", {"place": "a"})), say("Done."))
    return Agent(world.model(steps), [*hands(world), helper.as_tool()], profile=BARE)


async def yes(run: Run) -> None:
    """Permits all that is asked, and lets a paused run go on."""
    while run.outcome is None:
        for approval in run.approvals:
            run.approve(approval.id, approval.arguments_hash)
        if run.is_paused and run.ending is None:
            run.resume()
        await run.changed()


CASES: dict[str, tuple[Making, Person | None]] = {
    "work": (WORK, None),
    "sent": (SENT, yes),
    "asking": (ASKING, yes),
    "paused": (PAUSED, yes),
    "steered": (STEERED, None),
    "left": (LEFT, None),
    "looping": (LOOPING, None),
    "forced": (FORCED, None),
    "pushed": (PUSHED, None),
    "held": (HELD, yes),
    "checked": (CHECKED, None),
    "crowded": (crowded, None),
    "flaky": (flaky, None),
    "planned": (planned, None),
    "delegating": (delegating, None),
}


EXACT = {"work", "sent", "asking", "paused", "steered", "looping", "forced", "pushed", "held", "checked", "crowded"}
"""Cases in which nothing is done again that counts in the budget, save for a request that was under way."""


def root(facts: list[Event]) -> list[Event]:
    return [event for event in facts if event.run == RUN]


@pytest.mark.parametrize("case", CASES)
async def test_it_ends_as_it_would_have(case: str, anyio_backend_name: str) -> None:
    making, person = CASES[case]
    whole, outcome, spec = await uncut(making, person)
    check(root(whole), outcome, World())
    for cut in range(1, len(whole), 1 if anyio_backend_name == "asyncio" else 3):  # trio needs its time
        before = whole[:cut]
        if not root(before):
            continue
        async with recovered(making, before, spec, person) as (world, facts, ended):
            where = f"{case}: cut behind {cut} of {len(whole)} facts, {before[-1]!r}"
            after = facts[len(root(before)) :]
            check(facts, ended, world)
            assert isinstance(after[0], Recovered), where
            assert (ended.status, ended.reason) == (outcome.status, outcome.reason), where
            assert not started_again(root(before), after), where
            if case not in ("flaky", "planned"):
                assert ended.answer == outcome.answer, where
                assert kinds(facts) == kinds(root(whole)), where
            assert ended.spent["tokens"] >= len(of(facts, ModelReplied)) * TOKENS, where
            if case in EXACT:
                assert ended.turns == outcome.turns, where
                assert ended.spent["turns"] == outcome.spent["turns"], where
                assert ended.spent.get("calls") == outcome.spent.get("calls"), where
                if not is_asking(before):
                    assert ended.spent == outcome.spent, where
                    assert ended.usage == outcome.usage, where
            assert requests(after) == sum(model.asked for model in world.models[-1:]), where


def kinds(facts: list[Event]) -> list[tuple[str, str]]:
    return sorted((event.result.call_id, event.result.kind) for event in of(facts, CallEnded))
