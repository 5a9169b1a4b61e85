"""For each invariant a log that breaks it: made from a sound one, and named by its rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import anyio
import msgspec
import pytest

import invariance
from support import BARE, facts, scripted, supervised
from watchkeeper import Agent, Event, Limits, Rule, Run, tool, writes
from watchkeeper.engine import RunSpec
from watchkeeper.journal.unstarted import cancelled
from watchkeeper.messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    EvidenceFound,
    Held,
    LimitsRaised,
    ModelRequested,
    Nudged,
    Overrun,
    Paused,
    Recovered,
    RunEnded,
    RunEnding,
    RunStarted,
    Settled,
    Suspended,
    decode_event,
    encode_event,
)
from watchkeeper.testing import backend, call, forever
from watchkeeper.testing.invariants import RULES, Violation, violations, violations_of

E = TypeVar("E", bound=Event)
Log = list[Event]


@tool(effect="reads")
async def look(at: str) -> str:
    """Look."""
    await anyio.sleep(1)
    return f"there is {at}"


@tool(effect=writes("shelf"))
async def put(what: str) -> str:
    """Put."""
    await anyio.sleep(1)
    return f"put {what}"


@tool(effect="reads", cost={"money": 1.0})
async def wait(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "waited"


async def record() -> Log:
    """A run with readers, writers, an approval, a cost, and a cancel in its third turn."""
    script = [
        call(("look", {"at": "a"}), ("put", {"what": "x"}), ("look", {"at": "b"})),
        call(("put", {"what": "y"}), ("put", {"what": "z"})),
        call(("wait", {"seconds": 50})),
    ]
    profile = msgspec.structs.replace(BARE, rules=(Rule("ask", "put", when=({"what": "y"},)),))
    agent = Agent(scripted(*script), [look, put, wait], profile=profile, limits=Limits(money=2.0, unpriced="allow"))
    async with supervised(keep=10_000, approver=lambda approval: True) as supervisor:
        run = await supervisor.start(agent, "Do it.")
        await anyio.sleep(20)
        run.cancel("enough")
        await run.wait()
        return await facts(run)


@pytest.fixture(scope="module")
def sound() -> Log:
    name, options = backend("asyncio")
    return anyio.run(record, backend=name, backend_options=options)


def place(log: Log, kind: type[E], number: int = 0) -> int:
    return [n for n, event in enumerate(log) if type(event) is kind][number]


def without(kind: type[Event], number: int = 0) -> Callable[[Log], None]:
    return lambda log: log.pop(place(log, kind, number)) and None


def again(kind: type[Event], number: int = 0) -> Callable[[Log], None]:
    """The fact once more, right behind itself."""
    return lambda log: log.insert(place(log, kind, number), log[place(log, kind, number)])


def at_end(kind: type[Event]) -> Callable[[Log], None]:
    return lambda log: log.append(log[place(log, kind)])


def moved(kind: type[Event], number: int, before: type[Event], to: int = 0) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        event = log.pop(place(log, kind, number))
        log.insert(place(log, before, to), event)

    return change


def changed(kind: type[Event], number: int = 0, **fields: Any) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        n = place(log, kind, number)
        log[n] = msgspec.structs.replace(log[n], **fields)

    return change


def result(number: int, **fields: Any) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        n = place(log, CallEnded, number)
        ended: Any = log[n]
        log[n] = msgspec.structs.replace(ended, result=msgspec.structs.replace(ended.result, **fields))

    return change


def outcome(**fields: Any) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        end: Any = log[-1]
        log[-1] = msgspec.structs.replace(end, outcome=msgspec.structs.replace(end.outcome, **fields))

    return change


def history(change: Callable[[list[Any]], Iterable[Any]]) -> Callable[[Log], None]:
    def changing(log: Log) -> None:
        end: Any = log[-1]
        outcome(history=tuple(change(list(end.outcome.history))))(log)

    return changing


def second(kind: type[Event], number: int = 0, **fields: Any) -> Callable[[Log], None]:
    """One more such fact with other fields, right behind it."""

    def change(log: Log) -> None:
        n = place(log, kind, number)
        log.insert(n + 1, msgspec.structs.replace(log[n], **fields))

    return change


def swapped(messages: list[Any]) -> list[Any]:
    """Two results of one turn in the wrong order."""
    first = next(n for n, one in enumerate(messages) if one.role == "tool")
    messages[first], messages[first + 1] = messages[first + 1], messages[first]
    return messages


def unread(messages: list[Any]) -> list[Any]:
    return [msgspec.structs.replace(one, content="?") if one.role == "tool" else one for one in messages]


WRONG: dict[str, tuple[str, Callable[[Log], None]]] = {
    "no end record": ("end", without(RunEnded)),
    "two end records": ("end", at_end(RunEnded)),
    "a fact after the end record": ("end", at_end(Held)),
    "a call after RunEnding": ("end", moved(CallProposed, 0, RunEnded)),
    "another end than was announced": ("end", outcome(reason="turns")),
    "the outcome of another run": ("end", outcome(run="other")),
    "time that goes back": ("end", changed(CallStarted, 1, t=-1.0)),
    "a result that is dropped": ("result", without(CallEnded)),
    "two results": ("result", again(CallEnded)),
    "a result of nobody's call": ("result", without(CallProposed)),
    "a call that is there twice": ("result", again(CallProposed)),
    "a request before the results": ("result", moved(CallEnded, 0, CallProposed, 3)),
    "calls out of their order": ("result", moved(CallProposed, 1, CallProposed)),
    "an outcome without a call": ("result", outcome(calls=())),
    "results in another order": ("result", history(swapped)),
    "a result that the model never read": ("result", history(unread)),
    "a conversation without a result": ("result", history(lambda all: [one for one in all if one.role != "tool"])),
    "a call that is not admitted": ("permission", without(CallAdmitted)),
    "another tool than was admitted": ("permission", changed(CallStarted, 0, tool="put")),
    "a start before those it waits for": ("permission", moved(CallStarted, 2, CallEnded)),
    "a start without the approval": ("permission", without(ApprovalResolved)),
    "a start after a no": ("permission", changed(ApprovalResolved, 0, how="denied")),
    "other arguments than were approved": ("permission", changed(ApprovalRequested, 0, arguments='{"what":"n"}')),
    "a finished call that never started": ("permission", without(CallStarted)),
    "a refused call that ran": ("permission", result(0, kind="refused", productive=False)),
    "a writer that runs twice": ("once", second(CallStarted, 1, attempt=2)),
    "an attempt that is not counted": ("once", changed(CallStarted, 0, attempt=2)),
    "a writer without a key": ("once", changed(CallStarted, 1, idempotency_key="")),
    "a hold above the limit": ("budget", changed(Held, 0, amounts={"tokens": 3e6})),
    "spent above the limit, and no overrun": ("budget", changed(Settled, 0, amounts={"money": 2.5})),
    "a hold that is never settled": ("budget", without(Settled)),
    "a hold that is settled twice": ("budget", again(Settled)),
    "a hold that nobody had": ("budget", without(Held)),
    "an outcome that hides what was spent": ("budget", outcome(spent={"money": 0.5})),
    "one call too many": ("budget", changed(RunStarted, 0, limits={"calls": 4})),
    "a call at work at the end": ("alive", moved(RunEnding, 0, CallEnded, 5)),
    "two writers at once": ("apart", moved(CallStarted, 4, CallEnded, 3)),
    "a pause without a deadline": ("bound", lambda log: log.insert(9, Paused(n=0, run="r", at=0, t=0, reason="p"))),
    "an approval that waits for ever": ("bound", changed(ApprovalRequested, 0, seconds=float("inf"))),
    "an approval that is answered too late": ("bound", changed(ApprovalRequested, 0, seconds=1e-9, t=-100.0)),
    "text without a bound": ("bound", changed(CallEnded, 0, detail="x" * 30_000)),
    "a request after a cancel": ("cancel", moved(CancelRequested, 0, ModelRequested)),
    "a start after a cancel": ("cancel", moved(CancelRequested, 0, CallStarted)),
    "a cancel that nobody asked for": ("cancel", without(CancelRequested)),
    "a cancel with another reason": ("cancel", changed(CancelRequested, 0, reason="other")),
    "a cancel that is not confirmed": ("cancel", without(CancelConfirmed)),
    "limits that are said anew": ("authority", again(RunStarted)),
    "evidence of a call that found nothing": ("authority", changed(EvidenceFound, 0, calls=("call_9",))),
    "evidence that is no call": ("authority", outcome(evidence=("call_9",))),
    "a failure that found something": ("authority", result(0, kind="failed")),
    "a yes that nobody asked for": ("authority", without(ApprovalRequested)),
    "a nudge that knows the future": (
        "authority",
        lambda log: log.insert(9, Nudged(n=0, run="r", at=0, t=0, text="t", by="equal", cause=10**6)),
    ),
}


LOOK, PUT = "call_1_1", "call_1_2"


def taken_up(sound: Log) -> Log:
    """The same run: its process died while its first call, a reader, was at work, and again during the writer."""
    log = list(sound)
    for number, named in ((2, {"again": (LOOK,)}), (3, {"unknown": (PUT,)})):
        n = place(log, CallStarted, 2 * number - 4)
        start = log[n]
        goes_on = Recovered(n=0, run="r", at=0, t=0, attempt=number, **named)
        log[n + 1 : n + 1] = [goes_on, msgspec.structs.replace(start, attempt=2)]
    return log


GIVEN_BACK = Suspended(n=0, run="r", at=0, t=0, attempt=3)


def given_back(kind: type[Event], number: int = 0) -> Callable[[Log], None]:
    return lambda log: log.insert(place(log, kind, number), GIVEN_BACK)


WRONG_ATTEMPTS: dict[str, tuple[str, Callable[[Log], None]]] = {
    "an attempt at nothing": ("attempt", moved(Recovered, 0, RunStarted)),
    "an attempt of an earlier number": ("attempt", changed(Recovered, 1, attempt=2)),
    "a writer that is not named": ("attempt", changed(Recovered, 1, unknown=())),
    "a reader that is not named": ("attempt", changed(Recovered, 0, again=())),
    "a call that was not under way": ("attempt", changed(Recovered, 1, unknown=(LOOK, PUT))),
    "a writer that just runs again": ("attempt", changed(Recovered, 1, unknown=(), again=(PUT,))),
    "a writer that runs under another key": ("attempt", changed(CallStarted, 3, idempotency_key="other")),
    "a call that wrote through a sub-agent": ("attempt", changed(Recovered, 0, unknown=(LOOK,), again=())),
    "a writer that runs a third time": ("once", second(CallStarted, 3, attempt=3)),
    "a start after the run was given back": ("attempt", given_back(CallStarted, 4)),
    "a request after the run was given back": ("attempt", given_back(ModelRequested, 1)),
    "an attempt that gives back what another has": (
        "attempt",
        lambda log: log.insert(place(log, CallEnded, 1), msgspec.structs.replace(GIVEN_BACK, attempt=2)),
    ),
}


def changed_copy(log: Log, kind: type[Event], **fields: Any) -> Event:
    return msgspec.structs.replace(log[place(log, kind)], **fields)


def renumbered(log: Log) -> Log:
    """Numbers and times go on without gaps: what is wrong is not that a fact is missing."""
    t = 0.0
    numbered = []
    for n, event in enumerate(log, 1):
        t = event.t if event.t < 0 else max(t, event.t)
        numbered.append(msgspec.structs.replace(event, n=n, t=t))
    return numbered


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_an_invariant_is_found(sound: Log, name: str) -> None:
    rule, change = WRONG[name]
    log = list(sound)
    change(log)
    assert log != sound
    found = violations(renumbered(log))
    assert rule in {violation.rule for violation in found}, "\n".join(map(str, found))


def test_the_sound_log_breaks_none(sound: Log) -> None:
    assert violations(sound) == []
    assert violations(decode_event(encode_event(event)) for event in sound) == []


def test_each_rule_has_a_case_that_breaks_it() -> None:
    assert {rule for rule, _ in (*WRONG.values(), *WRONG_ATTEMPTS.values())} == set(RULES)


@pytest.mark.parametrize("name", WRONG_ATTEMPTS)
def test_what_breaks_an_invariant_of_a_later_attempt_is_found(sound: Log, name: str) -> None:
    rule, change = WRONG_ATTEMPTS[name]
    log = taken_up(sound)
    change(log)
    found = violations(renumbered(log), unasked=["put"])
    assert rule in {violation.rule for violation in found}, "\n".join(map(str, found))


def test_a_run_of_several_attempts_breaks_none(sound: Log) -> None:
    log = taken_up(sound)
    assert violations(renumbered(log), unasked=["put"]) == []
    assert violations(renumbered(log), idempotent=["put"]) == []
    log.insert(place(log, Recovered, 1), msgspec.structs.replace(GIVEN_BACK, attempt=2))
    assert violations(renumbered(log), unasked=["put"]) == []


def test_what_may_have_had_its_effect_runs_again_if_somebody_permits_it(sound: Log) -> None:
    log = taken_up(sound)
    assert [violation.rule for violation in violations(renumbered(log))] == ["attempt"]
    n = place(log, CallStarted, 3)
    asked = changed_copy(log, ApprovalRequested, call_id=PUT, approval="a9", arguments='{"what":"x"}')
    log[n:n] = [asked, changed_copy(log, ApprovalResolved, call_id=PUT, approval="a9")]
    assert violations(renumbered(log)) == []


def test_of_a_run_that_its_attempt_left_open_nothing_is_missing(sound: Log) -> None:
    log = sound[: place(sound, CallStarted, 2) + 1]
    assert {violation.rule for violation in violations(log)} == {"end", "result"}
    assert violations(log, broken_off=True) == []
    assert violations(renumbered([*log, GIVEN_BACK]), broken_off=True) == []


def test_a_run_that_was_cancelled_in_the_queue_breaks_none() -> None:
    log = cancelled("r", RunSpec(agent="a", task="t"), "never mind", "now", 1e9)
    assert violations(log) == []
    assert [violation.rule for violation in violations(renumbered(list(log[1:])))] == ["cancel"]


def test_a_missing_fact_is_a_gap(sound: Log) -> None:
    assert next(violation.rule for violation in violations(sound[:5] + sound[6:])) == "end"


def test_an_idempotent_tool_may_run_again(sound: Log) -> None:
    log = list(sound)
    second(CallStarted, 1, attempt=2)(log)
    assert [violation.rule for violation in violations(renumbered(log))] == ["once"]
    assert violations(renumbered(log), idempotent=["put"]) == []


def test_what_is_granted_raises_the_limit(sound: Log) -> None:
    log = list(sound)
    changed(RunStarted, 0, limits={"calls": 4})(log)
    log.insert(1, LimitsRaised(n=0, run="r", at=0, t=0, amounts={"calls": 2}))
    assert "budget" not in {violation.rule for violation in violations(renumbered(log))}


def test_beyond_a_limit_is_an_overrun_if_it_is_said(sound: Log) -> None:
    log = list(sound)
    changed(Settled, 0, amounts={"money": 2.5})(log)
    n = place(log, Settled)
    log.insert(n + 1, Overrun(n=0, run="r", at=0, t=0, dimension="money", over=0.5))
    outcome(spent={"money": 5.0})(log)
    assert "budget" not in {violation.rule for violation in violations(renumbered(log))}


def test_a_violation_says_where_and_what() -> None:
    assert str(Violation("once", 7, "it runs again")) == "once at fact 7: it runs again"


@pytest.mark.virtual_time
@pytest.mark.anyio
async def test_the_handle_of_a_run_shows_what_no_fact_tells() -> None:
    async with supervised() as supervisor:
        run = await supervisor.start(Agent(scripted(*forever_looking()), [look]), "Do it.")
        await anyio.sleep(0.5)
        assert {"end", "result"} <= {violation.rule for violation in violations_of(run)}
        run.cancel()
        await run.wait()
    assert violations_of(run) == []


@pytest.mark.breaks_invariants("a hold that is never settled, to see that it is noticed")
@pytest.mark.virtual_time
@pytest.mark.anyio
async def test_every_run_of_every_test_is_looked_through() -> None:
    async with supervised() as supervisor:
        run: Run = await supervisor.start(Agent(scripted(*forever_looking()), [look]), "Do it.")
        await anyio.sleep(2)
        run.log.append(Held, amounts={"money": 1.0}, held="nobody's")
        run.cancel()
        await run.wait()
    assert [line.partition(" at ")[0] for line in invariance.found] == [f"run {run.id} of agent: budget"]


def forever_looking() -> list[Any]:
    steps = forever(call(("look", {"at": "a"})))
    return [next(steps) for _ in range(3)]
