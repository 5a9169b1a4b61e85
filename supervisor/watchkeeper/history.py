"""The conversation as a fold over the log: valid as it stands at every moment, results in slot order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from .context.cuts import Cuts, Note, size, view
from .messages import (
    Call,
    CallEnded,
    ContextCompacted,
    Event,
    Message,
    ModelReplied,
    NotesShown,
    Nudged,
    PushedBack,
    Reminded,
    UserMessage,
)

MARK = "[watchkeeper]"
"""Begins every message of ours to the model, so that neither it nor a reader takes it for the user's."""
UNMARKED = "watchkeeper"
"""What becomes of it in the output of a tool."""

OPEN = "This call has no result: the run ended before it was dealt with. Whether it had an effect is not known."
STANDING = frozenset({"plan_step", "plan_sum"})
"""What a word of ours is about (``Reminded.about``) by which the model works until the next of them."""
OF_TOOLS = ("finished", "failed")
"""Results that a tool has written; by a guard or a cause or of another kind they are a word of ours."""

_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class History:
    """Messages of the conversation so far, without the system prompt. A call that is open is answered as such.

    ``label``: what a model reads above the output of a tool, given its name. ``shortened``: what it reads within one
    that is shown in part, given the id of its call and the characters left out.
    """

    def __init__(
        self,
        earlier: Iterable[Message] = (),
        label: Callable[[str], str] | None = None,
        shortened: Note = lambda call_id, left_out: f"[… {left_out} characters of {call_id} …]",
    ) -> None:
        self._label = label
        self._labels: dict[str, str] = {}
        """By tool; the label is asked for once."""
        self.shortened = shortened
        self.cuts: Cuts | None = None
        """What the view leaves out; None: nothing."""
        self._unseen = 0
        self._messages: list[Message] = repaired(earlier)
        self._view = [self._marked(message) if message.role == "tool" else message for message in self._messages]
        self._open: dict[str, int] = {}
        """The place of the answer of each call that has no result yet."""
        self.characters = sum(map(size, self._view))
        """Length of the view, for an estimate of its tokens."""
        self.charge: int | None = None
        """Place of the word of ours by which the model works now: the step of a plan, with what those before it found.
        It is never left out of the view."""
        self.ids: set[str] = {call.id for message in self._messages for call in message.calls}

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            CallEnded: self._ended,
            ModelReplied: self._replied,
            UserMessage: self._user_spoke,
            Nudged: self._told,
            Reminded: self._reminded,
            PushedBack: self._told,
            NotesShown: self._told,
            ContextCompacted: self._compacted,
        }

    def messages(self) -> tuple[Message, ...]:
        """The conversation, valid as it stands."""
        return tuple(self._messages)

    def view(self) -> tuple[Message, ...]:
        """The conversation as a model reads it: the output of tools is marked as such, and imitates no mark of ours."""
        return tuple(self._view) if self.cuts is None else self.seen(self.cuts)

    def viewed(self) -> list[Message]:
        """The same, as a list to be added to."""
        return self._view.copy() if self.cuts is None else view(self._view, self.cuts, self.shortened)

    def seen(self, cuts: Cuts) -> tuple[Message, ...]:
        """The view as it would be with these cuts."""
        return tuple(view(self._view, cuts, self.shortened))

    def marked(self) -> tuple[Message, ...]:
        """All of the conversation, as a model would read it."""
        return tuple(self._view)

    @property
    def shown(self) -> int:
        """Messages of the view."""
        return len(self._messages) - self._unseen

    def result_of(self, call_id: str) -> Message | None:
        """The whole result of a call, whatever the view shows of it."""
        return next((m for m in self._messages if m.role == "tool" and m.call_id == call_id), None)

    def unseen(self) -> list[Message]:
        """Results that the view does not show, or shows in part; oldest first."""
        if self.cuts is None:
            return []
        places = sorted(self.cuts.shortened | self.cuts.dropped)
        return [self._messages[place] for place in places if self._messages[place].role == "tool"]

    def _marked(self, message: Message, heading: str = "", ran: str = "") -> Message:
        """``heading``: what stands above the output, of the tool that ``ran`` in place of another."""
        if self._label is None:
            return message
        tool = ran or message.tool or ""
        label = self._labels.get(tool)
        if label is None:
            label = self._labels[tool] = self._label(tool) + "\n"
        content = message.content[len(heading) :] if heading else message.content
        if MARK in content:
            content = content.replace(MARK, UNMARKED)
        return Message("tool", heading + label + content, (), message.call_id, message.tool or "")

    @property
    def user_last(self) -> bool:
        """Whether the last word is the user's."""
        return bool(self._messages) and self._messages[-1].role == "user" and self._messages[-1].mark is None

    def open_calls(self) -> list[Call]:
        """Calls that have no result yet."""
        if not self._open:
            return []
        return [call for message in self._messages for call in message.calls if call.id in self._open]

    def __len__(self) -> int:
        return len(self._messages)

    def _user_spoke(self, event: UserMessage) -> None:
        self._add(Message("user", event.text))

    def _told(self, event: Nudged | Reminded | PushedBack | NotesShown) -> None:
        self._add(Message("user", f"{MARK} {event.text}", mark="watchkeeper"))

    def _reminded(self, event: Reminded) -> None:
        if event.about in STANDING:
            self.charge = len(self._messages)
        self._told(event)

    def _compacted(self, event: ContextCompacted) -> None:
        self.cuts = Cuts(frozenset(event.shortened), frozenset(event.dropped), event.note)
        seen = self.view()
        self.characters = sum(map(size, seen))
        self._unseen = len(self._messages) - len(seen)

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
        heading = f"{result.heading}\n" if result.heading else ""
        tool = self._messages[place].tool
        message = Message("tool", heading + result.content, (), result.call_id, tool)
        seen = message
        if result.by is None and result.kind in OF_TOOLS:
            seen = self._marked(message, heading, result.tool if heading else "")
        if result.note:
            note = f"\n{MARK} {result.note}"
            message = Message("tool", message.content + note, (), result.call_id, tool)
            seen = Message("tool", seen.content + note, (), result.call_id, tool)
        self._messages[place], self._view[place] = message, seen
        self.characters += len(seen.content) - len(OPEN)

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._view.append(message)
        self.characters += size(message) if message.calls else len(message.content)


def _sendable(call: Call) -> Call:
    name = sendable_name(call.tool)
    return call if name == call.tool else Call(call.id, name, call.arguments, call.slot)


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


@lru_cache(1024)
def sendable_name(name: str) -> str:
    """A tool's name as a server accepts it in a conversation, whatever the model wrote."""
    return _NO_NAME.sub("_", name)[:64] or "unnamed"
