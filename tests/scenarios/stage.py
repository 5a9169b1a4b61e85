"""What the scenarios share: models that never give up, and what holds of every run whatever happens in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from support import facts, of, supervised
from watchkeeper import Agent, Event, Outcome, Run, Supervisor
from watchkeeper.messages import (
    Blocked,
    CallEnded,
    CallProposed,
    CallStarted,
    Message,
    Nudged,
    Result,
    RunEnded,
    RunEnding,
    Stopped,
)
from watchkeeper.model import Request
from watchkeeper.models.dialect import request_body
from watchkeeper.testing import ScriptedModel, call, check_conversation, check_request


def stubborn(*calls: tuple[str, Any], **settings: Any) -> ScriptedModel:
    """A model that makes the same calls in each reply, whatever it is told, also when tools are off."""
    return ScriptedModel(lambda request, n: call(*calls), **settings)


def varying(make: Any, **settings: Any) -> ScriptedModel:
    """A model whose reply number n (from 1) is ``call(*make(n))``, for ever."""
    return ScriptedModel(lambda request, n: call(*make(n)), **settings)


class Ran:
    """A run that has ended: its outcome, its facts, what its model was asked."""

    def __init__(self, run: Run, outcome: Outcome, events: Sequence[Event], model: Any) -> None:
        self.run = run
        self.outcome = outcome
        self.events = events
        self.model = model

    def of(self, kind: type[Any]) -> list[Any]:
        return of(self.events, kind)

    @property
    def end(self) -> tuple[str, str]:
        return self.outcome.status, self.outcome.reason

    @property
    def executed(self) -> int:
        """Calls that were started (not counting a second try of one)."""
        return sum(1 for event in self.of(CallStarted) if event.attempt == 1)

    @property
    def results(self) -> list[Result]:
        """In the order of the conversation: by turn and slot."""
        ended = sorted(self.of(CallEnded), key=lambda event: (event.turn, event.slot))
        return [event.result for event in ended]

    @property
    def kinds(self) -> list[str]:
        return [result.kind for result in self.results]

    @property
    def seen(self) -> list[str]:
        """What the model read of each call, in the order of the conversation."""
        return [message.content for message in self.outcome.history if message.role == "tool"]

    def steps(self, detector: str | None = None) -> list[tuple[str, int]]:
        """What the watchdog did, and after how many rounds of calls: ``[("nudge", 3), ("block", 5), ("stop", 8)]``."""
        found: list[tuple[str, int]] = []
        blocked: set[int] = set()
        for event in self.events:
            if isinstance(event, Blocked) and detector in (None, event.by):
                found.append(("block", event.turn))
                blocked.add(event.cause)
            elif isinstance(event, Nudged) and detector in (None, event.by) and event.cause not in blocked:
                found.append(("nudge", event.turn))
            elif isinstance(event, Stopped) and detector in (None, event.verdict.finding.detector):
                found.append(("stop", event.turn))
        return found


@asynccontextmanager
async def stage(**settings: Any) -> AsyncIterator[Supervisor]:
    """A supervisor in virtual time whose runs keep all their facts."""
    async with supervised(keep=1_000_000, **settings) as supervisor:
        yield supervisor


async def play(agent: Agent, task: str = "Do it.", **settings: Any) -> Ran:
    """Run an agent to its end and check what holds of every run."""
    async with stage(**settings) as supervisor:
        run = await supervisor.start(agent, task)
        await run.wait()
        return await ended(run)


async def ended(run: Run) -> Ran:
    """A run that has ended, checked."""
    assert run.outcome is not None
    events = await facts(run)
    check_facts(run, events)
    model = run.agent.model
    check_requests(getattr(model, "requests", ()))
    if run.outcome.history:
        assert check_conversation(run.outcome.history) is None
    return Ran(run, run.outcome, events, model)


def check_facts(run: Run, events: Sequence[Event]) -> None:
    """Facts without gaps, one end, one result a call, and results before the next request."""
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert len(of(events, RunEnding)) == len(of(events, RunEnded)) == 1
    assert type(events[-1]) is RunEnded
    proposed = [event.call_id for event in of(events, CallProposed)]
    answered = [event.result.call_id for event in of(events, CallEnded)]
    assert sorted(proposed) == sorted(answered)
    assert len(set(answered)) == len(answered)
    assert run.ledger.open == {}


def check_requests(requests: Iterable[Request]) -> None:
    """Each request is one that a strict server accepts (of very many: the first, the last, and some between)."""
    asked = list(requests)
    step = max(1, len(asked) // 40)
    for request in [*asked[:20], *asked[20:-20:step], *asked[20:][-20:]]:
        problem = check_request(request_body("m", request))
        assert problem is None, problem


def strict(history: Iterable[Message]) -> str | None:
    """What a strict server finds wrong with a conversation as the next request would hold it."""
    return check_conversation(history)
