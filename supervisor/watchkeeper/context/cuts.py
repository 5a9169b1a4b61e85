"""What a view leaves out of a conversation, and the view that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..messages import Message

HEAD = 400
"""Characters that stay of the beginning of an output that is shortened."""
TAIL = 150
"""And of its end, where commands say how they ended."""
WORTH_IT = 200
"""Characters below which shortening an output frees too little to be worth it."""

Note = Callable[[str, int], str]
"""What stands in the middle of a shortened output, given the id of its call and the number of characters left out."""


class Cuts(msgspec.Struct, frozen=True):
    """Places of messages in the conversation, counted from 0. ``note`` stands where the first of those left out was."""

    shortened: frozenset[int] = frozenset()
    dropped: frozenset[int] = frozenset()
    note: str = ""


def view(messages: Sequence[Message], cuts: Cuts, note: Note) -> list[Message]:
    """The conversation with these cuts. Valid if each reply is dropped with all of its results or with none."""
    first = min(cuts.dropped, default=-1)
    seen: list[Message] = []
    for place, message in enumerate(messages):
        if place == first and cuts.note:
            seen.append(noted(cuts.note))
        if place not in cuts.dropped:
            seen.append(shorter(message, note) if place in cuts.shortened else message)
    return seen


def noted(text: str) -> Message:
    return Message("user", text, mark="watchkeeper")


def shorter(message: Message, note: Note) -> Message:
    """The result of a call with its middle left out; as it is where that frees too little."""
    content = message.content
    left_out = len(content) - HEAD - TAIL
    if left_out < WORTH_IT:
        return message
    told = note(message.call_id or "", left_out)
    if left_out - len(told) < WORTH_IT:
        return message
    return msgspec.structs.replace(message, content=f"{content[:HEAD]}{told}{content[-TAIL:]}")


def size(message: Message) -> int:
    """Characters of a message, its calls included."""
    return len(message.content) + sum(len(call.arguments) + len(call.tool) for call in message.calls)
