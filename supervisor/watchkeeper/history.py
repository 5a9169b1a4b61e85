"""The conversation as a fold over the log: valid as it stands at every moment, results in slot order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

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
    Result,
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


class Mark(NamedTuple):
    """Where the label stands in the text of a result as a model reads it, and how long the word of ours at its end
    is."""

    start: int
    length: int
    note: int

    def off(self, text: str) -> str:
        """The text without the label."""
        return text[: self.start] + text[self.start + self.length :]

    def output(self, text: str) -> str:
        """What the tool has said alone."""
        return text[self.start + self.length : len(text) - self.note]


class History:
    """Messages of the conversation so far, without the system prompt. A call that is open is answered as such.

    Each is held once, as a model reads it. What it is without the label is made when somebody asks.

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
        self._seen: list[Message] = []
        """As a model reads them."""
        self._plain: list[Message | Mark | None] = []
        """What each is without the mark of a tool's output, or how that is got from what a model reads; None: it has
        no mark."""
        self.characters = 0
        """Length of the view, for an estimate of its tokens."""
        for message in repaired(earlier):
            if message.role == "tool":
                seen, plain = self._marked(message.call_id or "", message.tool or "", message.content)
                self._add(seen, plain)
            else:
                self._add(message)
        self._open: dict[str, int] = {}
        """The place of the answer of each call that has no result yet."""
        self._answered: dict[str, int] = {}
        """The place of the answer of each call that has one, until somebody has asked where."""
        self.charge: int | None = None
        """Place of the word of ours by which the model works now: the step of a plan, with what those before it found.
        It is never left out of the view."""
        self.ids: set[str] = {call.id for message in self._seen for call in message.calls}

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
        return tuple(map(self._message, range(len(self._seen))))

    def view(self) -> tuple[Message, ...]:
        """The conversation as a model reads it: the output of tools is marked as such, and imitates no mark of ours."""
        return tuple(self._seen) if self.cuts is None else self.seen(self.cuts)

    def viewed(self) -> list[Message]:
        """The same, as a list to be added to."""
        return self._seen.copy() if self.cuts is None else view(self._seen, self.cuts, self.shortened)

    def seen(self, cuts: Cuts) -> tuple[Message, ...]:
        """The view as it would be with these cuts."""
        return tuple(view(self._seen, cuts, self.shortened))

    def marked(self) -> tuple[Message, ...]:
        """All of the conversation, as a model would read it."""
        return tuple(self._seen)

    @property
    def shown(self) -> int:
        """Messages of the view."""
        return len(self._seen) - self._unseen

    def result_of(self, call_id: str) -> Message | None:
        """The whole result of a call, whatever the view shows of it."""
        for place, message in enumerate(self._seen):
            if message.role == "tool" and message.call_id == call_id:
                return self._message(place)
        return None

    def unseen(self) -> list[Message]:
        """Results that the view does not show, or shows in part; oldest first."""
        if self.cuts is None:
            return []
        places = sorted(self.cuts.shortened | self.cuts.dropped)
        return [self._message(place) for place in places if self._seen[place].role == "tool"]

    def place_of(self, result: Result) -> int | None:
        """Where the very text of a result stands, for :meth:`text_at`; asked once for each. None: it does not."""
        place = self._answered.pop(result.call_id, None)
        return place if place is not None and self.text_at(place) == result.content else None

    def text_at(self, place: int) -> str:
        seen, plain = self._seen[place], self._plain[place]
        if isinstance(plain, Mark):
            return plain.output(seen.content)
        return (plain or seen).content

    def _message(self, place: int) -> Message:
        seen, plain = self._seen[place], self._plain[place]
        if isinstance(plain, Mark):
            return Message("tool", plain.off(seen.content), (), seen.call_id, seen.tool)
        return plain or seen

    def _marked(
        self, call_id: str, tool: str, output: str, *, ran: str = "", heading: str = "", note: str = ""
    ) -> tuple[Message, Message | Mark | None]:
        """A result as a model reads it, and how to get what it is without the label. ``ran``: the tool that has run in
        place of another."""
        if self._label is None:
            return Message("tool", f"{heading}{output}{note}", (), call_id, tool), None
        ran = ran or tool
        label = self._labels.get(ran)
        if label is None:
            label = self._labels[ran] = self._label(ran) + "\n"
        plain: Message | Mark = Mark(len(heading), len(label), len(note))
        if MARK in output:
            plain = Message("tool", f"{heading}{output}{note}", (), call_id, tool)
            output = output.replace(MARK, UNMARKED)
        return Message("tool", f"{heading}{label}{output}{note}", (), call_id, tool), plain

    @property
    def user_last(self) -> bool:
        """Whether the last word is the user's."""
        return bool(self._seen) and self._seen[-1].role == "user" and self._seen[-1].mark is None

    def open_calls(self) -> list[Call]:
        """Calls that have no result yet."""
        if not self._open:
            return []
        return [call for message in self._seen for call in message.calls if call.id in self._open]

    def __len__(self) -> int:
        return len(self._seen)

    def _user_spoke(self, event: UserMessage) -> None:
        self._add(Message("user", event.text))

    def _told(self, event: Nudged | Reminded | PushedBack | NotesShown) -> None:
        self._add(Message("user", f"{MARK} {event.text}", mark="watchkeeper"))

    def _reminded(self, event: Reminded) -> None:
        if event.about in STANDING:
            self.charge = len(self._seen)
        self._told(event)

    def _compacted(self, event: ContextCompacted) -> None:
        self.cuts = Cuts(frozenset(event.shortened), frozenset(event.dropped), event.note)
        seen = self.view()
        self.characters = sum(map(size, seen))
        self._unseen = len(self._seen) - len(seen)

    def _replied(self, event: ModelReplied) -> None:
        if not event.stored or not (event.text.strip() or event.calls):
            return
        calls = tuple(map(_sendable, event.calls))
        self._add(Message("assistant", event.text, calls=calls))
        for call in calls:
            self._open[call.id] = len(self._seen)
            self._add(Message("tool", OPEN, call_id=call.id, tool=call.tool))
            self.ids.add(call.id)

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        place = self._open.pop(result.call_id, None)
        if place is None:
            return
        heading = f"{result.heading}\n" if result.heading else ""
        note = f"\n{MARK} {result.note}" if result.note else ""
        tool = self._seen[place].tool or ""
        seen, plain = Message("tool", f"{heading}{result.content}{note}", (), result.call_id, tool), None
        if result.by is None and result.kind in OF_TOOLS:
            ran = result.tool if heading else ""
            seen, plain = self._marked(result.call_id, tool, result.content, ran=ran, heading=heading, note=note)
        self._seen[place], self._plain[place] = seen, plain
        self._answered[result.call_id] = place
        self.characters += len(seen.content) - len(OPEN)

    def _add(self, message: Message, plain: Message | Mark | None = None) -> None:
        self._seen.append(message)
        self._plain.append(plain)
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
