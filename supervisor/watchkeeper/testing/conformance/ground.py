"""Where the checks of an engine are made, and what they are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol, TypeVar

import anyio

from ...engine import Engine, EngineError, Lease, RunSpec
from ...messages import (
    Call,
    CallEnded,
    CallStarted,
    Event,
    Message,
    ModelReplied,
    ModelRequested,
    Outcome,
    Result,
    RunEnded,
    RunEnding,
    RunStarted,
    TurnStarted,
    UserMessage,
)

PATIENCE = 10.0
"""Seconds that anything may take on a busy machine."""
AT = 1_800_000_000.0

E = TypeVar("E", bound=Event)


class Ground(Protocol):
    """A place for the runs of one check; nothing is in it at first."""

    def worker(self, name: str = "main") -> AbstractAsyncContextManager[Engine]:
        """An engine that gives leases. On leaving it, leases that were not released have died."""
        ...

    def control(self) -> AbstractAsyncContextManager[Engine]:
        """Another way to the same runs, used while a worker is open and while none is. May be the same object."""
        ...


Check = Callable[[Ground], Awaitable[None]]

SPEC = RunSpec(agent="clerk", task="File the letters")


class Facts:
    """Makes the facts of a run, numbered."""

    def __init__(self, run: str, parent: str | None = None) -> None:
        self.run = run
        self.parent = parent
        self.made: list[Event] = []

    def make(self, kind: type[E], **fields: Any) -> E:
        n = len(self.made) + 1
        fields.setdefault("turn", 1)
        event = kind(n=n, run=self.run, parent=self.parent, at=AT + n, t=float(n), **fields)
        self.made.append(event)
        return event

    def start(self, agent: str = "clerk", task: str = "File the letters") -> list[Event]:
        return [
            self.make(RunStarted, agent=agent, task=task, limits={"turns": 20.0}, turn=0),
            self.make(UserMessage, text=task, turn=0),
        ]

    def turn(self, turn: int = 1, *, content: str = "filed", slots: int = 1) -> list[Event]:
        """A reply with its calls, and their results."""
        calls = tuple(Call(f"c{turn}.{slot}", "file", "{}", slot) for slot in range(1, slots + 1))
        return [
            self.make(TurnStarted, turn=turn),
            self.make(ModelRequested, turn=turn, model="m"),
            self.make(ModelReplied, turn=turn, text="", calls=calls),
            *(self.make(CallStarted, turn=turn, slot=c.slot, call_id=c.id, tool=c.tool) for c in calls),
            *(
                self.make(
                    CallEnded,
                    turn=turn,
                    slot=c.slot,
                    result=Result(c.id, c.tool, "finished", content, productive=True),
                )
                for c in calls
            ),
        ]

    def end(self, answer: str = "done", history: tuple[Message, ...] = ()) -> list[Event]:
        outcome = Outcome(
            run=self.run, status="completed", reason="answer", message="Done.", answer=answer, history=history
        )
        return [
            self.make(RunEnding, status="completed", reason="answer"),
            self.make(RunEnded, outcome=outcome),
        ]


async def taken(engine: Engine, worker: str = "") -> Lease:
    """The next lease."""
    with anyio.fail_after(PATIENCE):
        return await anext(aiter(engine.leases(lambda: 1, worker=worker)))


async def drained(lease: Lease, run: str | None = None) -> list[Event]:
    return [event async for event in lease.facts(run)]


@contextmanager
def refused(kind: type[EngineError], what: str) -> Iterator[None]:
    """Within it ``kind`` must be raised, with a message."""
    said = None
    try:
        yield
    except kind as error:
        said = str(error).strip()
    assert said is not None, f"{what}: must raise {kind.__name__}"
    assert said, f"{what}: the error says nothing"
