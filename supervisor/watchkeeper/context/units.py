"""A conversation in units that stay or go together, each with what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..messages import Message

OURS, IDLE, NOTHING, SAID, FOUND, ALWAYS = range(6)
"""What a unit is worth, least first: a word of ours; calls that did not run or failed; calls that found nothing; what
the model said; calls that found something, or of which that is not known; what is never left out."""


class Standing(NamedTuple):
    """How the calls of a conversation stand."""

    open: frozenset[str] = frozenset()
    """Calls without a result."""
    needed: frozenset[str] = frozenset()
    """Calls that the answer has to rest on."""
    worth: Mapping[str, int] = {}
    """By call id, where it is known."""
    charge: int | None = None
    """Place of the word of ours by which the model works now."""

    def of(self, call_id: str) -> int:
        return self.worth.get(call_id, FOUND)


class Unit(NamedTuple):
    """Messages from ``first`` to before ``end``. ``round``: a reply of the model, with the results of its calls."""

    first: int
    end: int
    worth: int
    round: bool

    @property
    def places(self) -> range:
        return range(self.first, self.end)


def units(messages: Sequence[Message], standing: Standing) -> list[Unit]:
    """The units of a valid conversation, in order."""
    found: list[Unit] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        end = at + 1
        while message.calls and end < len(messages) and messages[end].role == "tool":
            end += 1
        found.append(
            Unit(at, end, ALWAYS if at == standing.charge else _worth(message, standing), message.role == "assistant")
        )
        at = end
    return found


def _worth(message: Message, standing: Standing) -> int:
    if message.calls:
        ids = [call.id for call in message.calls]
        if any(call_id in standing.open or call_id in standing.needed for call_id in ids):
            return ALWAYS
        return max(map(standing.of, ids))
    if message.role == "assistant":
        return SAID
    return OURS if message.mark is not None else ALWAYS
