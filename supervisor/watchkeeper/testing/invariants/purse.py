"""The budget: nothing is spent or held beyond a limit, and each hold is settled once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ...messages import CallStarted, ChildEnded, Event, Held, LimitsRaised, Overrun, RunEnded, RunStarted, Settled
from .rules import Say

SLACK = 1e-6
"""Part of a limit within which sums of fractions count as equal to it."""


class Purse:
    """The rule ``budget``: as far as one log tells; what sub-agents draw is known when they have ended."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._limits: dict[str, float | None] = {}
        self._held: Counter[str] = Counter()
        self._holds: list[Held] = []
        self._spent: Counter[str] = Counter()
        self._started: set[str] = set()
        self._over: tuple[int, str] | None = None
        """A settlement that goes beyond a limit, until it is said to be an overrun."""
        self._overrun = False
        self.folds: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._run_started,
            LimitsRaised: self._raised,
            CallStarted: self._call_started,
            Held: self._hold,
            Settled: self._settled,
            Overrun: self._overran,
            ChildEnded: self._child_ended,
            RunEnded: self._run_ended,
        }

    def finish(self, broken_off: bool) -> None:
        for hold in self._holds if not broken_off else ():
            self._say("budget", hold, f"hold {hold.held} is never settled")
        if self._over is not None:
            self._say("budget", *self._over)

    def _run_started(self, event: RunStarted) -> None:
        self._limits = self._limits or dict(event.limits)

    def _raised(self, event: LimitsRaised) -> None:
        for dimension, amount in event.amounts.items():
            if (limit := self._limits.get(dimension)) is not None:
                self._limits[dimension] = limit + amount

    def _call_started(self, event: CallStarted) -> None:
        self._started.add(event.call_id)
        self._within("calls", len(self._started), event)

    def _hold(self, event: Held) -> None:
        self._holds.append(event)
        self._held.update(event.amounts)
        self._check_budget(event)

    def _settled(self, event: Settled) -> None:
        held = next((one for one in self._holds if one.held == event.held), None)
        if held is None:
            self._say("budget", event, f"hold {event.held} is settled, and is not open")
        else:
            self._holds.remove(held)
            self._held.subtract(held.amounts)
        self._spent.update(event.amounts)
        self._check_budget(event)

    def _check_budget(self, event: Event) -> None:
        for dimension in self._limits:
            self._within(dimension, self._spent[dimension] + self._held[dimension], event)

    def _within(self, dimension: str, amount: float, event: Event) -> None:
        limit = self._limits.get(dimension)
        if limit is None or self._overrun or amount <= limit + SLACK * max(limit, 1):
            return
        what = f"{amount:g} {dimension} are spent or held, of {limit:g}"
        if isinstance(event, Settled):
            self._over = self._over or (event.n, what)
        else:
            self._say("budget", event, what)

    def _overran(self, event: Overrun) -> None:
        self._overrun, self._over = True, None

    def _child_ended(self, event: ChildEnded) -> None:
        self._spent.update(event.spent)
        self._overrun |= event.reason == "overrun"

    def _run_ended(self, event: RunEnded) -> None:
        for dimension, amount in event.outcome.spent.items():
            spent = self._spent[dimension]
            if amount < spent - SLACK * max(spent, 1):
                self._say("budget", event, f"{amount:g} {dimension} are spent, as the outcome says, of {spent:g}")
