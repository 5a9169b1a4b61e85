"""What a run is doing right now, as a fold over its facts: the part of the live view that changes in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ..messages import (
    Blocked,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    CancelRequested,
    Event,
    Gap,
    ModelFirstChunk,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    ModelStreamed,
    Nudged,
    Paused,
    Resumed,
    RunEnding,
    RunStarted,
    Settled,
    Stopped,
    TurnStarted,
)
from .printable import arguments, duration, one_line

TAIL = 90
"""Characters of the streaming reply that are shown."""
SHOWN = 8
"""Calls at work that are shown by name."""


class Board:
    """Feed it the facts; :meth:`lines` says what to show at a moment of the run's clock."""

    def __init__(self) -> None:
        self._limits: dict[str, float | None] = {}
        self._turn = 0
        self._doing = "begins"
        self._since = 0.0
        self._tail = ""
        self._ended = False
        self._calls: dict[str, tuple[str, float | None]] = {}
        self._spent: Counter[str] = Counter()
        self._cost = 0.0
        self._verdicts: Counter[str] = Counter()
        self._fold: dict[type, Callable[[Any], None]] = {
            RunStarted: self._run_started,
            TurnStarted: self._turn_started,
            ModelRequested: self._asked,
            ModelFirstChunk: self._first_chunk,
            ModelStreamed: self._streamed,
            ModelReplied: self._replied,
            ModelRetried: self._retried,
            Settled: self._settled,
            CallProposed: self._proposed,
            CallAdmitted: lambda _: self._spent.update(calls=1),
            CallStarted: self._started,
            CallEnded: self._call_ended,
            Nudged: lambda _: self._verdicts.update(nudge=1),
            Blocked: lambda _: self._verdicts.update(block=1),
            Stopped: lambda _: self._verdicts.update(stop=1),
            Paused: lambda event: self._do("is paused", event.t),
            Resumed: lambda event: self._do("goes on", event.t),
            CancelRequested: self._cancelling,
            RunEnding: self._ending,
        }

    def observe(self, event: Event | Gap) -> None:
        fold = self._fold.get(type(event))
        if fold is not None:
            fold(event)

    def lines(self, t: float) -> list[str]:
        """What to show at ``t`` seconds of the run; nothing once it has ended."""
        if self._ended:
            return []
        of = self._limits.get("turns")
        turn = f"turn {self._turn}" + (f" of {of:g}" if of is not None else "")
        shown = [f"{turn}: {self._doing}, {duration(max(t - self._since, 0.0))}"]
        if self._tail:
            shown.append(f"  … {one_line(self._tail, TAIL)}")
        running = [(text, since) for text, since in self._calls.values() if since is not None]
        for text, since in running[:SHOWN]:
            shown.append(f"  ▸ {text}  {duration(max(t - since, 0.0))}")
        if len(running) > SHOWN:
            shown.append(f"  ▸ and {len(running) - SHOWN} more")
        shown.append(f"{duration(t)}  ·  {self._budget()}")
        return shown

    def _budget(self) -> str:
        parts = []
        for name in ("calls", "tokens"):
            limit = self._limits.get(name)
            parts.append(f"{name} {self._spent[name]:,.0f}" + (f" of {limit:,.0f}" if limit is not None else ""))
        if self._cost:
            money = self._limits.get("money")
            parts.append(f"cost {self._cost:.4g}" + (f" of {money:g}" if money is not None else ""))
        parts += [f"{n} {name}{'s' if n > 1 else ''}" for name, n in self._verdicts.items()]
        return "  ·  ".join(parts)

    def _do(self, what: str, t: float) -> None:
        self._doing, self._since, self._tail = what, t, ""

    def _run_started(self, event: RunStarted) -> None:
        self._limits = event.limits

    def _turn_started(self, event: TurnStarted) -> None:
        self._turn = event.turn

    def _asked(self, event: ModelRequested) -> None:
        self._do("asks the model" + (f" (try {event.attempt})" if event.attempt > 1 else ""), event.t)

    def _first_chunk(self, event: ModelFirstChunk) -> None:
        self._do("the model replies", event.t)

    def _streamed(self, event: ModelStreamed) -> None:
        self._tail = (self._tail + event.text)[-TAIL:]

    def _replied(self, event: ModelReplied) -> None:
        self._do("decides", event.t)

    def _retried(self, event: ModelRetried) -> None:
        self._do(f"waits to ask again ({event.error})", event.t)

    def _settled(self, event: Settled) -> None:
        self._spent["tokens"] += int(event.amounts.get("tokens", 0))
        self._cost += event.amounts.get("money", 0.0)

    def _proposed(self, event: CallProposed) -> None:
        if not self._calls:
            self._do("calls tools", event.t)
        self._calls[event.call_id] = (f"{one_line(event.tool, 40)} {arguments(event.arguments, 60)}", None)

    def _started(self, event: CallStarted) -> None:
        if event.call_id in self._calls:
            self._calls[event.call_id] = (self._calls[event.call_id][0], event.t)

    def _call_ended(self, event: CallEnded) -> None:
        self._calls.pop(event.result.call_id, None)

    def _cancelling(self, event: CancelRequested) -> None:
        self._do("is being cancelled" if event.mode != "after_turn" else "ends after this turn", event.t)

    def _ending(self, event: RunEnding) -> None:
        self._ended = True
