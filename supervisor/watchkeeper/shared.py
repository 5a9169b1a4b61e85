"""A budget that run trees share, as one of them sees it, and what its facts take of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .budget import EXACT, Budget
from .engine import Slice
from .finishing import after
from .messages import (
    ApprovalRequested,
    CallAdmitted,
    CallEnded,
    CallStarted,
    Event,
    Held,
    LimitsRaised,
    Reminded,
    RunStarted,
    Settled,
    TurnStarted,
)

LOW = 0.5
"""Share of a limit from which each turn begins with a look at how it stands."""


class SharedBudget(Budget):
    """A level of a run's tree of budgets whose limits hold for all runs that name it, on all workers.

    Only what the engine has granted can be held: so nothing is held beyond its limits, whatever others do. What is left
    of it is told as it stood when the engine was asked last (:meth:`see`).
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._granted: dict[str, float] = {}
        self._others: dict[str, float] = {}
        """What other runs have of it."""

    def see(self, slice: Slice) -> bool:
        """Take in how it stands by now; whether there is more that can be held."""
        more = any(amount > self._granted.get(name, 0.0) for name, amount in slice.has.items())
        self.limits = dict(slice.holds)
        self._granted = dict(slice.has)
        self._others = {
            name: holds - slice.left.get(name, 0.0) - slice.has.get(name, 0.0) for name, holds in slice.holds.items()
        }
        return more

    @property
    def low(self) -> bool:
        """So much of it was used that others may be near its end, or may have given back what one waits for."""
        return any(self.used(name) >= LOW * limit for name, limit in self.limits.items())

    def missing(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """What must be granted before such amounts can be held here, what was spent beyond a grant included."""
        found = {}
        for name in self.limits:
            if not self.fits(name, amount := amounts.get(name, 0.0)):
                found[name] = super().used(name) + amount - self._granted.get(name, 0.0)
        return found

    def used(self, dimension: str) -> float:
        return super().used(dimension) + self._others.get(dimension, 0.0)

    def fits(self, dimension: str, amount: float) -> bool:
        limit = self.limits.get(dimension)
        if limit is None:
            return True
        return super().used(dimension) + amount <= self._granted.get(dimension, 0.0) + EXACT * limit

    def excess(self, dimension: str) -> float:
        """None is told at once: what others have left meanwhile may cover it, and :meth:`.Supply.ready` says if not."""
        return 0.0


class Charges:
    """Feed it the facts of one run, in order, those of its sub-agents left out. What they take of a shared budget is
    what they have spent and what they hold: a hold that a dead attempt has left stays charged until it is settled.
    ``counted``: what a call of a tool counts in."""

    def __init__(self, counted: Callable[[str], Mapping[str, float]]) -> None:
        self._counted = counted
        self._taken: dict[str, float] = {}
        self._holds: dict[str, list[dict[str, float]]] = {}
        """By number; a judge or a step has numbers of its own."""
        self._calls: dict[str, str] = {}
        """The tools of the calls that are admitted and not started."""
        self._asked: set[str] = set()
        self._finishing: str | None = None
        self._folds: dict[type[Event], Callable[[Any], None]] = {
            Held: self._held,
            Settled: self._settled,
            TurnStarted: self._turn_started,
            Reminded: self._finish,
            LimitsRaised: self._finish,
            CallAdmitted: self._admitted,
            ApprovalRequested: self._approval_requested,
            CallStarted: self._started,
            CallEnded: self._ended,
        }

    def take(self, facts: Iterable[Event]) -> dict[str, float]:
        """What these facts take by dimension, below 0 where they give back."""
        self._taken = {}
        for fact in facts:
            fold = self._folds.get(type(fact))
            if fold is not None:
                fold(fact)
        return {name: amount for name, amount in self._taken.items() if amount}

    def _add(self, amounts: Mapping[str, float], sign: int = 1) -> None:
        for name, amount in amounts.items():
            self._taken[name] = self._taken.get(name, 0.0) + sign * amount

    def _held(self, event: Held) -> None:
        self._holds.setdefault(event.held, []).append(event.amounts)
        self._add(event.amounts)

    def _settled(self, event: Settled) -> None:
        holds = self._holds.get(event.held)
        if holds:
            self._add(holds.pop(0), -1)
            if not holds:
                del self._holds[event.held]
        self._add(event.amounts)

    def _turn_started(self, event: TurnStarted) -> None:
        if self._finishing is None:
            self._add({"turns": 1})

    def _finish(self, event: Reminded | LimitsRaised) -> None:
        self._finishing = after(self._finishing, event)

    def _admitted(self, event: CallAdmitted) -> None:
        self._calls[event.call_id] = event.tool
        self._add(self._counted(event.tool))

    def _approval_requested(self, event: ApprovalRequested) -> None:
        self._asked.add(event.call_id)

    def _started(self, event: CallStarted) -> None:
        self._calls.pop(event.call_id, None)

    def _ended(self, event: CallEnded) -> None:
        tool = self._calls.pop(event.result.call_id, None)
        if tool is not None and event.result.call_id in self._asked:  # its place was kept, and it did not run
            self._add(self._counted(tool), -1)
        self._asked.discard(event.result.call_id)


def charges_of(budget: str, before: Iterable[Event], facts: Iterable[Event]) -> dict[str, float]:
    """The charges of facts that come behind those ``before``, of a run that nobody executes. Empty without a budget."""
    if not budget:
        return {}
    before = list(before)
    limits = next((fact.limits for fact in before if isinstance(fact, RunStarted)), {})

    def counted(tool: str) -> dict[str, float]:
        return {"calls": 1.0} if limits.get(f"calls:{tool}") is None else {"calls": 1.0, f"calls:{tool}": 1.0}

    charges = Charges(counted)
    charges.take(before)
    return named(budget, charges.take(facts))


def named(budget: str, amounts: Mapping[str, float]) -> dict[str, float]:
    return {f"{budget}/{name}": amount for name, amount in amounts.items()}
