"""The conversation as a fold over the log: valid as it stands at every moment, results in slot order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from .messages import Call, CallEnded, Event, Message, ModelReplied, Nudged, PushedBack, Reminded, UserMessage

MARK = "[watchkeeper]"
"""Begins every message of ours to the model, so that neither it nor a reader takes it for the user's."""
UNMARKED = "watchkeeper"
"""What becomes of it in the output of a tool."""

OPEN = "This call has no result: the run ended before it was dealt with. Whether it had an effect is not known."
OF_TOOLS = ("finished", "failed")
"""Results that a tool has written; by a guard or a cause or of another kind they are a word of ours."""

_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class History:
    """Messages of the conversation so far, without the system prompt. A call that is open is answered as such.

    ``label``: what a model reads above the output of a tool, given its name.
    """

    def __init__(self, earlier: Iterable[Message] = (), label: Callable[[str], str] | None = None) -> None:
        self._label = label
        self._labels: dict[str, str] = {}
        """By tool; the label is asked for once."""
        self._messages: list[Message] = repaired(earlier)
        self._view = [self._marked(message) if message.role == "tool" else message for message in self._messages]
        self._open: dict[str, int] = {}
        """The place of the answer of each call that has no result yet."""
        self.characters = sum(map(_size, self._view))
        """Length of all of it, for an estimate of its tokens."""
        self.ids: set[str] = {call.id for message in self._messages for call in message.calls}
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            CallEnded: self._ended,
            ModelReplied: self._replied,
            UserMessage: self._user_spoke,
            Nudged: self._told,
            Reminded: self._told,
            PushedBack: self._told,
        }

    def messages(self) -> tuple[Message, ...]:
        """The conversation, valid as it stands."""
        return tuple(self._messages)

    def view(self) -> tuple[Message, ...]:
        """The conversation as a model reads it: the output of tools is marked as such, and imitates no mark of ours."""
        return tuple(self._view)

    def _marked(self, message: Message) -> Message:
        if self._label is None:
            return message
        tool = message.tool or ""
        label = self._labels.get(tool)
        if label is None:
            label = self._labels[tool] = self._label(tool) + "\n"
        content = message.content if MARK not in message.content else message.content.replace(MARK, UNMARKED)
        return Message("tool", label + content, (), message.call_id, tool)

    def open_calls(self) -> list[Call]:
        """Calls that have no result yet."""
        if not self._open:
            return []
        return [call for message in self._messages for call in message.calls if call.id in self._open]

    def __len__(self) -> int:
        return len(self._messages)

    def _user_spoke(self, event: UserMessage) -> None:
        self._add(Message("user", event.text))

    def _told(self, event: Nudged | Reminded | PushedBack) -> None:
        self._add(Message("user", f"{MARK} {event.text}", mark="watchkeeper"))

    def _replied(self, event: ModelReplied) -> None:
        if not event.stored or not (event.text.strip() or event.calls):
            return
        calls = tuple(map(_sendable, event.calls))
        self._add(Message("assistant", event.text, calls=calls))
        for call in calls:
            self._open[call.id] = len(self._messages)
            self._add(Message("tool", OPEN, call_id=call.id, tool=call.tool))
            self.ids.add(call.id)

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        place = self._open.pop(result.call_id, None)
        if place is None:
            return
        message = Message("tool", result.content, (), result.call_id, self._messages[place].tool)
        self._messages[place] = message
        if result.by is None and result.kind in OF_TOOLS:
            message = self._marked(message)
        self._view[place] = message
        self.characters += len(message.content) - len(OPEN)

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._view.append(message)
        self.characters += _size(message) if message.calls else len(message.content)


def _sendable(call: Call) -> Call:
    name = sendable_name(call.tool)
    return call if name == call.tool else Call(call.id, name, call.arguments, call.slot)


def _size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) + len(call.tool) for call in message.calls)


def repaired(messages: Iterable[Message]) -> list[Message]:
    """A conversation that a strict server accepts: one result a call, in order; no orphans, no empty turns.

    A result without its call is dropped, a call without a result is answered as unknown, ids that come twice are made
    unique on both sides, and names of tools that no server takes are written so that they do. System messages are
    dropped: the instructions are the agent's.
    """
    whole: list[Message] = []
    queue = list(messages)
    seen: set[str] = set()
    at = 0
    while at < len(queue):
        message = queue[at]
        at += 1
        if message.role == "assistant" and message.calls:
            answers: dict[str, list[Message]] = {}
            while at < len(queue) and queue[at].role == "tool":
                answers.setdefault(queue[at].call_id or "", []).append(queue[at])
                at += 1
            whole += _turn(message, answers, seen)
        elif message.role in ("user", "assistant") and message.content.strip():
            whole.append(Message(message.role, message.content, mark=message.mark))
    return whole


def _turn(message: Message, answers: dict[str, list[Message]], seen: set[str]) -> list[Message]:
    """A reply with its calls and one result for each, in order."""
    calls, results = [], []
    for slot, call in enumerate(message.calls, 1):
        fresh = unique(call.id, seen, len(seen) + 1)
        seen.add(fresh)
        name = sendable_name(call.tool)
        found = answers.get(call.id)
        content = found.pop(0).content if found else OPEN
        calls.append(Call(fresh, name, call.arguments, slot))
        results.append(Message("tool", content, call_id=fresh, tool=name))
    return [Message("assistant", message.content, calls=tuple(calls), mark=message.mark), *results]


def unique(wanted: str | None, taken: set[str], number: int) -> str:
    """An id that is not taken: the wanted one if servers take it, else one of nine letters and digits."""
    if wanted and len(wanted) <= 64 and wanted.isprintable() and wanted not in taken:
        return wanted
    while True:
        fresh = f"c{number:08d}"
        if fresh not in taken:
            return fresh
        number += 1


def sendable_name(name: str) -> str:
    """A tool's name as a server accepts it in a conversation, whatever the model wrote."""
    return _NO_NAME.sub("_", name)[:64] or "unnamed"
