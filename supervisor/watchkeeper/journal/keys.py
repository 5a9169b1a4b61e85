"""Names of journal entries: what has been found out in a run, by turn and slot, never by a position in time. Pure.

An entry *is* the fact that holds its output: the journal keeps the name and the number of the fact, and no second copy.
``model:3`` is the reply of turn 3, ``tool:3:2`` the result of the call in its slot 2, ``tool:3:2:started`` that it was
begun (``tool:3:2:started:2``: begun again, by a retry), ``end`` the outcome. A run has one entry of each name: what an
attempt finds again, as a call that is run once more after a crash, has the number of that attempt in its name,
``tool:3:2@4``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..messages import (
    ApprovalResolved,
    CallEnded,
    CallStarted,
    ChildEnded,
    ContextCompacted,
    Event,
    ModelReplied,
    OpinionGiven,
    Planned,
    RunEnded,
    UserMessage,
)

END = "end"


def _started(event: CallStarted) -> str:
    name = f"tool:{event.turn}:{event.slot}:started"
    return name if event.attempt == 1 else f"{name}:{event.attempt}"


_NAMES: dict[type[Event], Callable[[Any], str]] = {
    ModelReplied: lambda event: f"model:{event.turn}",
    CallStarted: _started,
    CallEnded: lambda event: f"tool:{event.turn}:{event.slot}",
    ApprovalResolved: lambda event: f"approval:{event.approval}",
    OpinionGiven: lambda event: f"opinion:{event.turn}:{event.slot}:{event.by}",
    UserMessage: lambda event: f"user:{event.user_turn}",
    ChildEnded: lambda event: f"child:{event.child}",
    ContextCompacted: lambda event: f"context:{event.turn}",
    Planned: lambda event: "plan",
    RunEnded: lambda event: END,
}


def name_of(event: Event) -> str | None:
    """The name of the entry that this fact is; None for one that holds no output."""
    naming = _NAMES.get(type(event))
    return None if naming is None else naming(event)


def names(name: str, attempt: int) -> Iterator[str]:
    """The names that an entry may have, the first that is not taken counts: its own, that of this attempt, and where
    even that is taken (a second reply in one turn) numbered ones."""
    yield name
    yield f"{name}@{attempt}"
    number = 2
    while True:
        yield f"{name}@{attempt}#{number}"
        number += 1
