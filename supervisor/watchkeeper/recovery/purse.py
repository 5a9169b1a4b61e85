"""What a run has drawn from its budget before it was broken off, as a fold over its facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..budget import Budget
from ..finishing import after
from ..messages import CallAdmitted, ChildEnded, Event, Held, LimitsRaised, Reminded, Settled, TurnStarted
from .past import Past


class Purse:
    """Feed it the facts in order. ``drawn`` is what the run draws from at that moment, which may be a step's; what is
    spent there is spent in all budgets above it, also in those that it shares. ``counted``: what a call of a tool
    counts in."""

    def __init__(self, past: Past, drawn: Callable[[], Budget], counted: Callable[[str], Mapping[str, float]]) -> None:
        self._past = past
        self._drawn = drawn
        self._counted = counted
        self._finishing: str | None = None
        self.holds = 0
        """The highest number of a hold: further ones come after it."""
        self._folds: dict[type[Event], Callable[[Any], None]] = {
            Held: self._held,
            Settled: self._settled,
            TurnStarted: self._turn_started,
            CallAdmitted: self._admitted,
            ChildEnded: self._child_ended,
            Reminded: self._finish,
            LimitsRaised: self._finish,
        }

    def observe(self, event: Event) -> None:
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(event)

    def _held(self, event: Held) -> None:
        number = event.held.removeprefix("h")
        if number.isdecimal():
            self.holds = max(self.holds, int(number))

    def _settled(self, event: Settled) -> None:
        self.spend(event.amounts, event.unknown)

    def _turn_started(self, event: TurnStarted) -> None:
        if self._finishing is None:
            self.spend({"turns": 1})

    def _admitted(self, event: CallAdmitted) -> None:
        if self._past.counts(event.call_id):
            self.spend(self._counted(event.tool))

    def _child_ended(self, event: ChildEnded) -> None:
        self.spend(event.spent)

    def _finish(self, event: Reminded | LimitsRaised) -> None:
        self._finishing = after(self._finishing, event)

    @property
    def spent(self) -> Mapping[str, float]:
        return self._drawn().spent

    def spend(self, amounts: Mapping[str, float], unknown: Iterable[str] = ()) -> None:
        spend(self._drawn(), amounts, unknown)


def spend(drawn: Budget, amounts: Mapping[str, float], unknown: Iterable[str] = ()) -> None:
    """What was spent is spent, also beyond a limit."""
    for budget in drawn.path:
        for dimension, amount in amounts.items():
            budget.spent[dimension] = budget.spent.get(dimension, 0) + amount
        for dimension in unknown:
            budget.unknown[dimension] = budget.unknown.get(dimension, 0) + 1


def used_of(past: Past, hold: Held) -> dict[str, float]:
    """What of a hold that was never settled counts as spent: all of it, save for a call that was never started."""
    begun = any(call.started for call in past.open.values() if (call.turn, call.slot) == (hold.turn, hold.slot))
    return dict(hold.amounts) if begun or not hold.slot else {}
