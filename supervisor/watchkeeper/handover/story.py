"""What was done, turn by turn, and what became of single calls: a fold over the facts of one run. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Literal

import msgspec

from ..messages import (
    CallEnded,
    CallProposed,
    CallRecord,
    Event,
    ModelReplied,
    Nudged,
    Paused,
    PushedBack,
    Reminded,
    Result,
    Resumed,
    RunStarted,
    UserMessage,
)

SAID, ARGUMENTS, RESULT, NOTE = 600, 300, 500, 300
"""Characters of what the model said, of a call's arguments and of its result, and of a note."""
FIRST, LAST = 6, 14
"""Turns at the beginning and at the end that are told; what lies between them is counted."""
CALLS = 8
"""Calls of one turn that are told."""
NOTES = 6

OURS = ("refused", "denied", "not_run", "cancelled", "timed_out", "abandoned")
"""How a call ends whose result is a message of ours."""

Who = Literal["user", "watchkeeper"]


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call as a reader sees it. What nobody has seen of it is empty."""

    call: str
    tool: str
    turn: int
    kind: str
    arguments: str = ""
    result: str = ""
    why: str = ""
    """The code of the error, or who has refused it."""
    wrote: bool = False
    ran: float = 0.0
    """Seconds."""
    frame: str = ""
    """Of a call that was given up: where it was."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn."""

    turn: int
    said: str = ""
    calls: tuple[Attempt, ...] = ()
    more: int = 0
    """Calls of it that are not told."""
    notes: tuple[tuple[Who, str], ...] = ()
    """What the user and watchkeeper have said in it, after its calls; in turn 0: before the first one."""


def cut(text: str, limit: int) -> str:
    """The text, or its first part and how much more there is."""
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit:,} more characters)"


class _Turn:
    __slots__ = ("calls", "more", "notes", "number", "said")

    def __init__(self, number: int) -> None:
        self.number = number
        self.said = ""
        self.calls: dict[str, Attempt] = {}
        self.more = 0
        self.notes: list[tuple[Who, str]] = []

    def step(self) -> Step:
        return Step(
            turn=self.number,
            said=self.said,
            calls=tuple(self.calls.values()),
            more=self.more,
            notes=tuple(self.notes),
        )


class Story:
    """Feed it the facts of one run, in order. ``wanted``: calls that are to be known whatever their turn."""

    def __init__(self, wanted: Collection[str] = ()) -> None:
        self.begun: RunStarted | None = None
        self.first = 0
        """Number of the first fact."""
        self.at = 0.0
        """When the run began, UTC."""
        self.turns = 0
        """Turns of which there is something to tell."""
        self._wanted = wanted
        self._known: dict[str, Attempt] = {}
        self._head: list[_Turn] = []
        self._tail: deque[_Turn] = deque(maxlen=LAST)
        self._now: _Turn | None = None
        self._fold: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._run_started,
            ModelReplied: self._replied,
            CallProposed: self._proposed,
            CallEnded: self._ended,
            UserMessage: self._user_spoke,
            Nudged: lambda event: self._note(event, "watchkeeper", event.text),
            Reminded: lambda event: self._note(event, "watchkeeper", event.text),
            PushedBack: lambda event: self._note(event, "watchkeeper", event.text),
            Paused: lambda event: self._note(event, "watchkeeper", f"paused: {event.reason}"),
            Resumed: lambda event: self._note(event, "watchkeeper", f"resumed: {event.reason or 'no reason given'}"),
        }

    def observe(self, event: Event) -> None:
        if not self.first:
            self.first, self.at = event.n, event.at - event.t
        fold = self._fold.get(type(event))
        if fold is not None:
            fold(event)

    def steps(self) -> tuple[Step, ...]:
        return tuple(turn.step() for turn in (*self._head, *self._tail))

    def attempt(self, record: CallRecord) -> Attempt:
        """A call of the outcome with what was seen of it."""
        seen = self._known.get(record.id)
        return Attempt(
            call=record.id,
            tool=record.tool,
            turn=record.turn,
            kind=record.kind,
            arguments=seen.arguments if seen is not None else "",
            result=seen.result if seen is not None else "",
            why=seen.why if seen is not None else "",
            wrote=record.wrote,
            ran=record.ran,
            frame=record.frame or "",
        )

    def _run_started(self, event: RunStarted) -> None:
        self.begun = event

    def _turn(self, event: Event) -> _Turn:
        if self._now is None or self._now.number != event.turn:
            self._now = _Turn(event.turn)
            self.turns += 1
            if len(self._head) < FIRST:
                self._head.append(self._now)
            else:
                self._tail.append(self._now)
        return self._now

    def _replied(self, event: ModelReplied) -> None:
        self._turn(event).said = cut(event.text.strip(), SAID)

    def _proposed(self, event: CallProposed) -> None:
        turn = self._turn(event)
        attempt = Attempt(
            call=event.call_id,
            tool=event.tool,
            turn=event.turn,
            kind="",
            arguments=cut(event.arguments, ARGUMENTS),
        )
        if len(turn.calls) < CALLS:
            turn.calls[event.call_id] = attempt
        else:
            turn.more += 1
        if event.call_id in self._wanted:
            self._known[event.call_id] = attempt

    def _ended(self, event: CallEnded) -> None:
        result, turn = event.result, self._turn(event)
        for place in (turn.calls, self._known):
            before = place.get(result.call_id)
            if before is None and place is self._known and result.call_id in self._wanted:  # its beginning is not there
                before = Attempt(call=result.call_id, tool=result.tool, turn=event.turn, kind="")
            if before is not None:
                place[result.call_id] = msgspec.structs.replace(
                    before,
                    kind=result.kind,
                    arguments=before.arguments or cut(event.arguments, ARGUMENTS),
                    result=cut(_shown(result), RESULT),
                    why=result.error or (result.by or "" if result.kind in ("refused", "denied", "not_run") else ""),
                    ran=event.ran,
                )

    def _user_spoke(self, event: UserMessage) -> None:
        if self.begun is None or event.text != self.begun.task:
            self._note(event, "user", event.text)

    def _note(self, event: Event, who: Who, text: str) -> None:
        notes = self._turn(event).notes
        if len(notes) < NOTES:
            # The first line of a message to the model says what happened; the rest is for the model.
            notes.append((who, cut(text.partition("\n")[0] if who == "watchkeeper" else text, NOTE)))


def _shown(result: Result) -> str:
    """Of a message of ours to the model its first line, which says what happened."""
    return result.content.partition("\n")[0] if result.kind in OURS else result.content
