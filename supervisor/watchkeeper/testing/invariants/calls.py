"""Calls and their approvals: one result each, nothing without permission, once, apart from what they conflict with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

from ...admission import SHOWN_ARGUMENTS
from ...messages import (
    ApprovalRequested,
    ApprovalResolved,
    Call,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallReplaced,
    CallStarted,
    Event,
    EvidenceFound,
    Kind,
    Message,
    ModelReplied,
    ModelRequested,
    Recovered,
    RunEnded,
    RunEnding,
    RunStarted,
)
from ...naming import meant
from ...outputs import MAX_DETAIL
from ...planner import conflict
from ...redaction import MARK
from ...tools import Effect
from .rules import LATE, PERMITS, Say


class _Call:
    __slots__ = (
        *("approval", "arguments", "attempts", "effect", "here", "proposed", "result", "slot", "tool", "turn"),
        "waits",
    )

    def __init__(self, event: CallProposed) -> None:
        self.proposed = event.n
        self.turn = event.turn
        self.slot = event.slot
        self.tool = event.tool
        self.effect: Effect | None = None
        self.waits: tuple[int, ...] = ()
        self.attempts = 0
        self.here = 0
        """How often it started since the run was taken up last."""
        self.approval: bool | None = None
        self.arguments: str | None = None
        self.result: CallEnded | None = None


class Calls:
    """The rules ``result``, ``permission``, ``once``, ``apart`` and, of evidence and permissions, ``authority``."""

    def __init__(self, say: Say, idempotent: Collection[str]) -> None:
        self._say = say
        self._idempotent = frozenset(idempotent)
        self._continued: bool | None = None
        """It goes on from an earlier run, whose evidence counts; None: it never began."""
        self._tools: tuple[str, ...] = ()
        self._calls: dict[str, _Call] = {}
        self._slots: dict[tuple[int, int], _Call] = {}
        self._open: dict[str, _Call] = {}
        self._running: dict[str, _Call] = {}
        self._replied: tuple[Call, ...] = ()
        self._executions: dict[str, str] = {}
        self._asked: dict[str, ApprovalRequested] = {}
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._run_started,
            Recovered: self._recovered,
            ModelRequested: self._requested,
            ModelReplied: self._answered,
            CallProposed: self._proposed,
            CallReplaced: self._replaced,
            CallAdmitted: self._admitted,
            CallStarted: self._started,
            CallEnded: self._ended,
            ApprovalRequested: self._asks,
            ApprovalResolved: self._resolved,
            EvidenceFound: self._evidence,
            RunEnding: self._run_ending,
            RunEnded: self._run_ended,
        }

    def finish(self, broken_off: bool) -> None:
        for call_id, call in self._open.items() if not broken_off else ():
            self._say("result", call.proposed, f"call {call_id} ({call.tool}) has no result")

    def _run_started(self, event: RunStarted) -> None:
        self._continued = bool(event.continues)
        self._tools = event.tools

    def _recovered(self, event: Recovered) -> None:
        """Nothing of the attempt before is at work any more; which calls run again is the rule ``attempt``."""
        self._running.clear()
        for call in self._open.values():
            call.here = 0

    def _requested(self, event: ModelRequested) -> None:
        for call_id, call in self._open.items():
            self._say("result", event, f"the model is asked before call {call_id} ({call.tool}) has a result")
        for asked in self._replied:
            if asked.id not in self._calls:
                self._say("result", event, f"the model is asked, and its call {asked.id} was never taken up")

    def _answered(self, event: ModelReplied) -> None:
        self._replied = event.calls if event.stored else ()

    def _proposed(self, event: CallProposed) -> None:
        if event.call_id in self._calls:
            self._say("result", event, f"there is a call {event.call_id} already")
            return
        call = _Call(event)
        if before := [one.slot for one in self._open.values() if one.turn == event.turn and one.slot > event.slot]:
            self._say("result", event, f"slot {event.slot} is taken up after slot {before[-1]}")
        self._calls[event.call_id] = self._open[event.call_id] = self._slots[event.turn, event.slot] = call

    def _replaced(self, event: CallReplaced) -> None:
        if event.call_id in self._open:
            self._open[event.call_id].tool = event.instead or event.tool

    def _admitted(self, event: CallAdmitted) -> None:
        call = self._open.get(event.call_id)
        if call is None:
            self._say("permission", event, f"call {event.call_id} is admitted, and is not open")
            return
        if (meant(call.tool, self._tools) or call.tool) != event.tool:
            self._say("permission", event, f"call {event.call_id} asked for {call.tool}, and {event.tool} is admitted")
        call.tool = event.tool
        call.effect = Effect(_whole(event.reads), _whole(event.writes))
        call.waits = event.waits_for

    def _started(self, event: CallStarted) -> None:
        call, name = self._open.get(event.call_id), f"call {event.call_id} ({event.tool})"
        if call is None or call.effect is None:
            self._say("permission", event, f"{name} starts without being proposed and admitted")
            return
        if call.tool != event.tool:
            self._say("permission", event, f"{name} starts, and {call.tool} was admitted")
        if call.approval is False:
            self._say("permission", event, f"{name} starts without the approval that it asks for")
        for slot in call.waits:
            before = self._slots.get((call.turn, slot))
            if before is not None and before.result is None:
                self._say("permission", event, f"{name} starts before slot {slot}, for which it waits")
        call.attempts += 1
        call.here += 1
        if event.attempt != call.attempts:
            self._say("once", event, f"{name} starts as attempt {event.attempt}, after {call.attempts - 1}")
        if call.here > 1 and call.effect.writes and event.tool not in self._idempotent:
            self._say("once", event, f"{name} writes, is not declared idempotent, and runs again")
        key = event.idempotency_key
        if key and self._executions.setdefault(key, event.call_id) != event.call_id:
            self._say("once", event, f"{name} has the idempotency key of call {self._executions[key]}")
        if call.effect.writes and not key:
            self._say("once", event, f"{name} writes and has no idempotency key")
        for other_id, other in self._running.items():
            if other is not call and other.effect is not None and conflict(call.effect, other.effect):
                self._say("apart", event, f"{name} starts while call {other_id} ({other.tool}) is at work")
        self._running[event.call_id] = call

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        call = self._open.pop(result.call_id, None)
        self._running.pop(result.call_id, None)
        name = f"call {result.call_id} ({result.tool})"
        if call is None:
            known = result.call_id in self._calls
            self._say("result", event, f"{name} has {'a second result' if known else 'a result, and is not known'}")
            return
        call.result = event
        if call.attempts and result.kind in ("refused", "denied"):
            self._say("permission", event, f"{name} is {result.kind}, and was started")
        if result.kind == "finished" and not call.attempts and not result.reused_from and call.effect is not None:
            self._say("permission", event, f"{name} is finished, and was never started")
        if result.productive and result.kind != "finished":
            self._say("authority", event, f"{name} is {result.kind} and productive")
        if call.attempts and call.arguments is not None and not call.arguments.startswith(event.arguments[:200]):
            self._say("permission", event, f"{name} ran with other arguments than those that were approved")
        if len(event.arguments) > SHOWN_ARGUMENTS + 100 or len(event.detail) > MAX_DETAIL:
            self._say("bound", event, f"the texts of {name} are longer than they may be")

    def _asks(self, event: ApprovalRequested) -> None:
        self._asked[event.approval] = event
        if not 0 < event.seconds < float("inf"):
            self._say("bound", event, f"approval {event.approval} waits {event.seconds} seconds")
        if event.call_id in self._open:
            call = self._open[event.call_id]
            call.approval = False
            call.arguments = None if MARK in event.arguments else event.arguments

    def _resolved(self, event: ApprovalResolved) -> None:
        asked = self._asked.pop(event.approval, None)
        if asked is None and event.by != "earlier":
            self._say("authority", event, f"approval {event.approval} was not asked for, or is resolved twice")
        if asked is not None and event.t - asked.t > asked.seconds + LATE:
            self._say("bound", event, f"approval {event.approval} was open for {event.t - asked.t:.1f} seconds")
        if asked is not None and event.call_id in self._open:
            self._open[event.call_id].approval = event.how in PERMITS

    def _evidence(self, event: EvidenceFound) -> None:
        for call_id in event.calls:
            call = self._calls.get(call_id)
            if call is None or call.result is None or not call.result.result.productive:
                self._say("authority", event, f"call {call_id} is evidence, and found nothing")

    def _run_ending(self, event: RunEnding) -> None:
        for call_id, call in self._open.items():
            self._say("alive", event, f"call {call_id} ({call.tool}) is still open")

    def _run_ended(self, event: RunEnded) -> None:
        """The outcome says what the facts say."""
        outcome = event.outcome
        told = {record.id: record.kind for record in outcome.calls}
        done = {call_id: call.result.result.kind for call_id, call in self._calls.items() if call.result is not None}
        if told != done:
            self._say("result", event, f"the outcome has other calls than the facts: {_apart(told, done)}")
        found = {call_id for call_id, call in self._calls.items() if call.result and call.result.result.productive}
        if self._continued is False and (strange := set(outcome.evidence) - found):
            self._say("authority", event, f"evidence of the outcome is no productive call: {', '.join(strange)}")
        self._compare(event, outcome.history)

    def _compare(self, event: RunEnded, history: tuple[Message, ...]) -> None:
        """The conversation has the result of each call, right behind the reply that asked for it, in slot order."""
        for message, follows in pairwise(history):
            if message.role == "assistant" and message.calls and follows.call_id != message.calls[0].id:
                self._say("result", event, f"results do not follow call {message.calls[0].id} in the conversation")
        read = {one.call_id: one for one in history if one.role == "tool"}
        order = [one.call_id for one in history if one.role == "tool"]
        if order != [call.id for message in history for call in message.calls]:
            self._say("result", event, "the conversation has not one result for each call, in slot order")
        for call_id, call in self._calls.items():
            if call.result is not None and call_id in read and call.result.result.content not in read[call_id].content:
                self._say("result", event, f"the model reads something else than the result of call {call_id}")


def _whole(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that can be compared: what was cut out of them is not known to be the same."""
    return tuple(name for name in names if MARK not in name)


def _apart(told: dict[str, Kind], done: dict[str, Kind]) -> str:
    wrong = sorted(call for call in told.keys() | done.keys() if told.get(call) != done.get(call))
    return ", ".join(f"{call} is {told.get(call, 'not there')} / {done.get(call, 'open')}" for call in wrong[:5])
