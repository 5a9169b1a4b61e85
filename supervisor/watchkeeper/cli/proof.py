"""The proof of a cancel, out of the facts: what was at work when it was asked for, and what ended when. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..messages import (
    CallEnded,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    Event,
    Gap,
    ModelFailed,
    ModelPartialDropped,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Outcome,
    RunEnded,
    RunEnding,
)
from .narrator import INDENT, Line, line
from .printable import count, duration, identifier, one_line

MODEL = "model"


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """What was at work. ``since`` is UTC in seconds; a request to the model has no call."""

    call: str
    tool: str
    since: float


class Landed(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended, so many ``seconds`` after the request to cancel."""

    call: str
    tool: str
    kind: str
    seconds: float


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """``seconds``: from sending the request to its end record; None: it has not come yet."""

    run: str
    mode: str
    in_flight: tuple[InFlight, ...] = ()
    ended: tuple[Landed, ...] = ()
    outcome: str = ""
    reason: str = ""
    seconds: float | None = None
    joined: float | None = None
    """From the request's arrival at the run to the last task joined, as the run has measured it."""

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Evidence:
    """A fold over the facts of one run."""

    def __init__(self) -> None:
        self._at_work: dict[str, InFlight] = {}
        self._asked: float | None = None
        self._mode = ""
        self._in_flight: tuple[InFlight, ...] = ()
        self._landed: list[Landed] = []
        self._joined: float | None = None
        self.outcome: Outcome | None = None

    def observe(self, event: Event | Gap) -> None:
        match event:
            case CallStarted():
                self._at_work.setdefault(event.call_id, InFlight(call=event.call_id, tool=event.tool, since=event.at))
            case CallEnded():
                self._land(event.result.call_id, event.result.kind, event.at)
            case ModelRequested():
                self._at_work[""] = InFlight(call="", tool=MODEL, since=event.at)
            case ModelReplied() | ModelRetried():
                self._land("", "finished", event.at)
            case ModelFailed():
                self._land("", "failed", event.at)
            case ModelPartialDropped():
                self._land("", "cancelled" if self._asked is not None else "failed", event.at)
            case CancelRequested():
                self._mode = event.mode
                if self._asked is None:
                    self._asked, self._in_flight = event.at, tuple(self._at_work.values())
            case CancelConfirmed():
                self._joined = event.seconds
            case RunEnding():
                self._land("", "cancelled", event.at)
            case RunEnded():
                self.outcome = event.outcome
            case _:
                pass

    def _land(self, call: str, kind: str, at: float) -> None:
        found = self._at_work.pop(call, None)
        if found is not None and self._asked is not None:
            after = max(at - self._asked, 0.0)
            self._landed.append(Landed(call=call, tool=found.tool, kind=kind, seconds=after))

    def proof(self, run: str, seconds: float | None) -> Proof:
        outcome = self.outcome
        return Proof(
            run=run,
            mode=self._mode,
            in_flight=self._in_flight,
            ended=tuple(self._landed),
            outcome=outcome.status if outcome is not None else "",
            reason=outcome.reason if outcome is not None else "",
            seconds=seconds,
            joined=self._joined,
        )


def told(proof: Proof, short: str) -> Iterator[Line]:
    """The proof in lines."""
    name = identifier(short)
    if proof.seconds is None:
        yield line(f"{name}: has not ended yet", "bad")
    else:
        joined = f", the last task joined after {duration(proof.joined)}" if proof.joined is not None else ""
        yield Line(
            (
                (f"{name}: {proof.outcome or 'ended'} ", "good"),
                (f"({one_line(proof.reason, 80)}) in {duration(proof.seconds)}{joined}; ", "plain"),
                (f"{count(len(proof.in_flight), 'call')} in flight" if proof.in_flight else "nothing in flight", "dim"),
            ),
            wrap=True,
        )
    landed = {one.call: one for one in proof.ended}
    for one in proof.in_flight:
        end = landed.get(one.call)
        how = f"{end.kind} after {duration(end.seconds)}" if end is not None else "has not ended"
        what = f"{one_line(one.tool, 40)} {one_line(one.call, 40)}".rstrip()
        yield line(f"{INDENT}{what}: {how}", "plain" if end is not None and end.kind != "abandoned" else "bad")
