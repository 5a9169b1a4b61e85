"""The conversation as a fold over the log: valid as it stands at every moment, results in slot order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .messages import Call, CallEnded, Event, Message, ModelReplied, Nudged, PushedBack, Reminded, UserMessage

MARK = "[watchkeeper]"
"""Begins every message of ours to the model, so that neither it nor a reader takes it for the user's."""

OPEN = "This call has no result: the run ended before it was dealt with. Whether it had an effect is not known."


class History:
    """Messages of the conversation so far, without the system prompt."""

    def __init__(self, earlier: Iterable[Message] = ()) -> None:
        self._messages: list[Message | None] = list(repaired(earlier))
        self._open: dict[str, tuple[int, str]] = {}
        self.characters = sum(map(_size, self.messages()))
        self.ids: set[str] = {call.id for message in self.messages() for call in message.calls}
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            CallEnded: self._ended,
            ModelReplied: self._replied,
            UserMessage: self._user_spoke,
            Nudged: self._told,
            Reminded: self._told,
            PushedBack: self._told,
        }

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        place = self._open.pop(result.call_id, None)
        if place is not None:
            message = Message("tool", result.content, call_id=result.call_id, tool=result.tool)
            self._messages[place[0]] = self._count(message)

    def _user_spoke(self, event: UserMessage) -> None:
        self._messages.append(self._count(Message("user", event.text)))

    def _told(self, event: Nudged | Reminded | PushedBack) -> None:
        self._messages.append(self._count(Message("user", f"{MARK} {event.text}", mark="watchkeeper")))

    def messages(self) -> tuple[Message, ...]:
        """The conversation; a call that is still open is answered as such."""
        if not self._open:
            return tuple(self._messages)  # type: ignore[arg-type]
        whole = list(self._messages)
        for call_id, (place, tool) in self._open.items():
            whole[place] = Message("tool", OPEN, call_id=call_id, tool=tool)
        return tuple(whole)  # type: ignore[arg-type]

    def open_calls(self) -> list[Call]:
        """Calls that have no result yet."""
        if not self._open:
            return []
        return [call for message in self._messages if message for call in message.calls if call.id in self._open]

    def __len__(self) -> int:
        return len(self._messages)

    def _replied(self, event: ModelReplied) -> None:
        if not event.stored or not (event.text or event.calls):
            return
        self._messages.append(self._count(Message("assistant", event.text, calls=event.calls)))
        for call in event.calls:
            self._open[call.id] = (len(self._messages), call.tool)
            self._messages.append(None)
            self.ids.add(call.id)

    def _count(self, message: Message) -> Message:
        self.characters += _size(message)
        return message


def _size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) + len(call.tool) for call in message.calls)


def repaired(messages: Iterable[Message]) -> list[Message]:
    """A conversation that a strict server accepts: one result a call, in order; no orphans, no empty turns.

    A result without its call is dropped, a call without a result is answered as unknown, and ids that come twice are
    made unique on both sides.
    """
    whole: list[Message] = []
    queue = list(messages)
    seen: set[str] = set()
    i = 0
    while i < len(queue):
        message = queue[i]
        i += 1
        if message.role == "tool" or message.role == "system":
            continue
        if message.role != "assistant" or not message.calls:
            if message.role != "assistant" or message.content:
                whole.append(message)
            continue
        results: dict[str, Message] = {}
        while i < len(queue) and queue[i].role == "tool":
            results.setdefault(queue[i].call_id or "", queue[i])
            i += 1
        calls, answers = [], []
        for slot, call in enumerate(message.calls, 1):
            fresh = unique(call.id, seen, len(seen) + slot)
            seen.add(fresh)
            found = results.get(call.id)
            calls.append(type(call)(fresh, call.tool, call.arguments, slot))
            answers.append(Message("tool", found.content if found else OPEN, call_id=fresh, tool=call.tool))
        whole.append(Message("assistant", message.content, calls=tuple(calls), mark=message.mark))
        whole.extend(answers)
    return whole


def unique(wanted: str | None, taken: set[str], number: int) -> str:
    """An id that is not taken: the wanted one if it is usable, else nine letters and digits (which all servers take)."""
    if wanted and len(wanted) <= 64 and wanted.isprintable() and wanted not in taken:
        return wanted
    while True:
        fresh = f"c{number:08d}"
        if fresh not in taken:
            return fresh
        number += 1
