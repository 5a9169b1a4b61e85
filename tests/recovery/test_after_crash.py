"""A writing call that had started and has no end: what its tool says of that, and what is never done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
from cuts import World, check, recovered, uncut
from test_cuts import ASKED, script, yes

from support import BARE, of
from watchkeeper import Agent, ConfigurationError, IdempotencyKey, Run, tool, writes
from watchkeeper.messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallStarted,
    ChildEnded,
    Event,
    Recovered,
)
from watchkeeper.occurrences import unfinished
from watchkeeper.testing import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def booking(after_crash: Any, **agent: Any) -> Callable[[World], Agent]:
    def making(world: World) -> Agent:
        @tool(effect=writes("seats"), after_crash=after_crash)
        async def book(seat: int, key: IdempotencyKey) -> str:
            """Book."""
            await anyio.sleep(1)
            world.do("book", seat, key)
            return f"booked {seat}"

        steps = script(call(("book", {"seat": 1}), ("book", {"seat": 2})), say("Done."))
        return Agent(world.model(steps), [book], **{"profile": BARE, **agent})

    return making


async def begun(making: Callable[[World], Agent]) -> tuple[list[Event], Any]:
    """The facts up to the start of the first booking, and the spec."""
    facts, _, spec = await uncut(making)
    place = next(place for place, event in enumerate(facts, 1) if isinstance(event, CallStarted))
    return facts[:place], spec


def first(facts: list[Event]) -> CallEnded:
    return next(event for event in of(facts, CallEnded) if event.result.call_id == "call_0_0")


def started(facts: list[Event]) -> list[CallStarted]:
    return [event for event in of(facts, CallStarted) if event.call_id == "call_0_0"]


async def test_retry_runs_it_again_with_the_same_key() -> None:
    before, spec = await begun(booking("retry"))
    async with recovered(booking("retry"), before, spec) as (world, facts, outcome):
        check(facts, outcome, world)
        once, again = started(facts)
        assert once.idempotency_key == again.idempotency_key == world.keys[0]
        assert (once.attempt, again.attempt) == (1, 2)
        assert world.done == [("book", 1), ("book", 2)]
        assert len(set(world.keys)) == 2
        assert of(facts, Recovered)[0].unknown == ("call_0_0",)


async def test_by_default_nobody_runs_it_where_nobody_can_be_asked() -> None:
    before, spec = await begun(booking(None))
    async with recovered(booking(None), before, spec) as (world, facts, outcome):
        check(facts, outcome, world)
        result = first(facts).result
        assert (result.kind, result.error) == ("abandoned", "outcome_unknown")
        assert "not run again" in result.content
        assert world.done == [("book", 2)]
        assert [one.call_id for one in unfinished(facts)] == ["call_0_0"]


async def test_a_person_is_asked() -> None:
    before, spec = await begun(booking(None, profile=ASKED))
    async with recovered(booking(None, profile=ASKED), before, spec, yes) as (world, facts, outcome):
        check(facts, outcome, world)
        (asked,) = of(facts, ApprovalRequested)
        assert "nobody knows whether it had its effect" in asked.why
        assert first(facts).result.kind == "finished"
        assert world.keys[0] == started(facts)[0].idempotency_key


async def test_a_persons_no_leaves_it_unknown() -> None:
    async def no(run: Run) -> None:
        while True:
            for approval in run.approvals:
                run.deny(approval.id, "leave it")
            await run.changed()

    before, spec = await begun(booking(None, profile=ASKED))
    async with recovered(booking(None, profile=ASKED), before, spec, no) as (world, facts, outcome):
        check(facts, outcome, world)
        assert (first(facts).result.kind, first(facts).result.error) == ("abandoned", "outcome_unknown")
        assert "leave it" in first(facts).result.content
        assert world.done == [("book", 2)]


async def test_fail_never_runs_it_again_and_asks_nobody() -> None:
    before, spec = await begun(booking("fail", profile=ASKED))
    async with recovered(booking("fail", profile=ASKED), before, spec, yes) as (world, facts, outcome):
        check(facts, outcome, world)
        assert first(facts).result.kind == "abandoned"
        assert not of(facts, ApprovalRequested)
        assert world.done == [("book", 2)]


@pytest.mark.parametrize("plain", [False, True])
async def test_a_tool_that_can_tell_is_asked_with_the_key(plain: bool) -> None:
    asked: list[str] = []

    async def happened(key: str) -> str:
        asked.append(key)
        return "it was booked"

    def happened_plain(key: str) -> str:
        asked.append(key)
        return "it was booked"

    making = booking(happened_plain if plain else happened)
    before, spec = await begun(making)
    async with recovered(making, before, spec) as (world, facts, outcome):
        check(facts, outcome, world)
        (start,) = started(facts)
        assert asked == [start.idempotency_key]
        assert (first(facts).result.kind, first(facts).result.content) == ("finished", "it was booked")
        assert world.done == [("book", 2)]
        assert not unfinished(facts)


async def test_an_equal_call_after_one_that_did_happen_is_another_one() -> None:
    async def happened(key: str) -> str:
        return "it was booked"

    def making(world: World) -> Agent:
        @tool(effect=writes("seats"), after_crash=happened)
        async def book(seat: int, key: IdempotencyKey) -> str:
            """Book."""
            await anyio.sleep(1)
            world.do("book", seat, key)
            return "booked"

        steps = script(call(("book", {"seat": 1})), call(("book", {"seat": 1})), say("Done."))
        return Agent(world.model(steps), [book], profile=BARE)

    before, spec = await begun(making)
    async with recovered(making, before, spec) as (world, facts, outcome):
        check(facts, outcome, world)
        assert [event.result.kind for event in of(facts, CallEnded)] == ["finished", "finished"]
        assert len(world.keys) == 1
        assert world.keys[0] != started(facts)[0].idempotency_key


async def test_what_did_not_happen_is_run_without_a_question() -> None:
    async def happened(key: str) -> None:
        return None

    before, spec = await begun(booking(happened))
    async with recovered(booking(happened), before, spec) as (world, facts, outcome):
        check(facts, outcome, world)
        assert world.done == [("book", 1), ("book", 2)]
        assert world.keys[0] == started(facts)[0].idempotency_key


async def fails(key: str) -> str:
    raise OSError("no line")


async def hangs(key: str) -> str:
    await anyio.sleep_forever()
    return "never"


@pytest.mark.parametrize("happened", [fails, hangs])
async def test_one_that_cannot_tell_has_said_nothing(happened: Any) -> None:
    before, spec = await begun(booking(happened))
    async with recovered(booking(happened), before, spec) as (world, facts, outcome):
        check(facts, outcome, world)
        assert first(facts).result.kind == "abandoned"
        assert world.done == [("book", 2)]


@pytest.mark.breaks_invariants("two calls that write the same are made to be at work at once, so that both are unknown")
async def test_of_two_equal_calls_of_a_turn_each_is_itself() -> None:
    asked: list[str] = []

    async def happened(key: str) -> None:
        asked.append(key)
        if len(asked) == 1:
            raise OSError("no line")

    def making(world: World) -> Agent:
        @tool(effect=writes("seats"), after_crash=happened)
        async def book(key: IdempotencyKey) -> str:
            """Book."""
            world.do("book", 1, key)
            return "booked"

        return Agent(world.model(script(call(("book", {}), ("book", {})), say("Done."))), [book], profile=BARE)

    facts, _, spec = await uncut(making)
    second = next(place for place, event in enumerate(facts) if isinstance(event, CallEnded))
    starts = of(facts, CallStarted)
    both = [*facts[:second], msgspec.structs.replace(starts[1], n=facts[second].n)]
    async with recovered(making, both, spec) as (world, after, _):
        assert asked == [start.idempotency_key for start in starts]
        assert [event.result.kind for event in of(after, CallEnded)] == ["abandoned", "finished"]
        assert world.keys == [starts[1].idempotency_key]


async def test_an_equal_call_later_on_is_asked_about_too() -> None:
    def making(world: World) -> Agent:
        @tool(effect=writes("seats"))
        async def book(seat: int) -> str:
            """Book."""
            await anyio.sleep(1)
            world.do("book", seat)
            return "booked"

        steps = script(call(("book", {"seat": 1})), call(("book", {"seat": 1})), say("Done."))
        return Agent(world.model(steps), [book], profile=BARE)

    before, spec = await begun(making)
    async with recovered(making, before, spec) as (world, facts, outcome):
        check(facts, outcome, world)
        assert not world.done
        assert [event.result.error for event in of(facts, CallEnded)] == ["outcome_unknown", "outcome_unknown"]


async def test_a_call_whose_arguments_held_a_secret_is_not_run_without_it() -> None:
    secret = "sk-" + "a1B2" * 12

    def making(world: World) -> Agent:
        @tool(effect="reads")
        async def look(place: str) -> str:
            """Look."""
            world.do("look", place)
            return "seen"

        steps = script(call(("look", {"place": secret})), say("Done."))
        return Agent(world.model(steps), [look], profile=BARE)

    facts, _, spec = await uncut(making)
    replied = next(place for place, event in enumerate(facts, 1) if type(event).__name__ == "CallProposed")
    async with recovered(making, facts[:replied], spec) as (world, after, outcome):
        check(after, outcome, world)
        assert not world.done
        assert first(after).result.error == "arguments_withheld"
        assert secret not in repr(after)


async def test_an_earlier_yes_to_the_call_is_none_to_run_it_twice() -> None:
    def making(world: World) -> Agent:
        @tool(effect=writes("door"), irreversible=True)
        async def close(door: str) -> str:
            """Close."""
            await anyio.sleep(1)
            world.do("close", door)
            return "closed"

        return Agent(world.model(script(call(("close", {"door": "a"})), say("Done."))), [close], profile=ASKED)

    facts, _, spec = await uncut(making, yes)
    place = next(place for place, event in enumerate(facts, 1) if isinstance(event, CallStarted))
    async with recovered(making, facts[:place], spec, yes) as (world, after, outcome):
        check(after, outcome, world)
        assert len({event.approval for event in of(after, ApprovalRequested)}) == 2
        assert len(of(after, ApprovalResolved)) == 2
        assert world.done == [("close", "a")]


@pytest.mark.parametrize("last", [CallStarted, ChildEnded])
async def test_a_call_whose_sub_agent_began_to_write_is_not_run_again(last: type[Event]) -> None:
    def making(world: World) -> Agent:
        return Agent(
            world.model(script(call(("agent", {"task": "Book."})), say("Done."))),
            [booking("retry")(world).as_tool()],
            profile=BARE,
        )

    facts, _, spec = await uncut(making)
    place = next(
        place
        for place, event in enumerate(facts, 1)
        if isinstance(event, last) and getattr(event, "tool", "") != "agent"
    )
    async with recovered(making, facts[:place], spec) as (world, after, outcome):
        check(after, outcome, world)
        assert not world.done
        result = first(after).result
        assert (result.kind, result.error) == ("abandoned", "outcome_unknown")
        (went_on,) = of(after, Recovered)
        assert (went_on.unknown, went_on.again) == (("call_0_0",), ())
        assert outcome.status == "completed"


def test_what_only_reads_has_no_such_policy() -> None:
    with pytest.raises(ConfigurationError, match="only reads"):

        @tool(effect="reads", after_crash="ask")
        async def look() -> None:
            """Look."""

    with pytest.raises(ConfigurationError, match="must be retry, ask, fail or a function"):

        @tool(effect="writes", after_crash="guess")  # type: ignore[call-overload]
        async def put() -> None:
            """Put."""
