"""Budgets that runs of several workers share, in the memory of one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..engine import BudgetStanding, Slice, UnknownBudget
from .checks import check_amounts, check_name

Amounts = dict[str, float]


class Shares:
    """What each budget holds, and what of it is granted to which run."""

    def __init__(self) -> None:
        self._holds: dict[str, Amounts] = {}
        self._granted: dict[tuple[str, str], Amounts] = {}
        """By budget and run."""
        self._charged: dict[tuple[str, str], Amounts] = {}
        self._spent: dict[str, Amounts] = {}
        """By budget, what runs have charged that have ended."""

    async def define(self, budget: str, amounts: Mapping[str, float]) -> None:
        check_name("the name of a shared budget", budget)
        check_amounts(amounts)
        self._holds[budget] = dict(amounts)

    async def left(self, budget: str) -> dict[str, float]:
        return self._left(budget)

    async def standing(self) -> list[BudgetStanding]:
        return [BudgetStanding(name, dict(holds), self._left(name)) for name, holds in sorted(self._holds.items())]

    def grant(self, run: str, budget: str, amounts: Mapping[str, float]) -> Slice:
        check_amounts(amounts)
        left = self._left(budget)
        has = self._granted.setdefault((budget, run), {})
        for name, amount in amounts.items():
            given = min(amount, max(left.get(name, 0.0), 0.0))
            if given:
                has[name] = has.get(name, 0.0) + given
                left[name] -= given
        return Slice(has=dict(has), left=left, holds=dict(self._holds[budget]))

    def charge(self, run: str, budget: str, dimension: str, amount: float) -> None:
        """Note that so much of what was granted has been spent, or is held."""
        charged = self._charged.setdefault((budget, run), {})
        charged[dimension] = charged.get(dimension, 0.0) + amount

    def check(self, budget: str) -> None:
        """Raises :class:`UnknownBudget`."""
        if budget not in self._holds:
            raise unknown_budget(budget)

    def reclaim(self, run: str, *, ended: bool = False) -> None:
        """Of what a run was granted only what it has charged stays granted. ``ended``: it will charge no more."""
        for key in {key for key in (*self._granted, *self._charged) if key[1] == run}:
            charged = {name: max(amount, 0.0) for name, amount in self._charged.get(key, {}).items()}
            self._granted[key] = charged
            if ended:
                _add(self._spent.setdefault(key[0], {}), charged.items())
                del self._granted[key]
                self._charged.pop(key, None)

    def _left(self, budget: str) -> Amounts:
        self.check(budget)
        gone = dict(self._spent.get(budget, {}))
        for (name, _), granted in self._granted.items():
            if name == budget:
                _add(gone, granted.items())
        return {name: amount - gone.get(name, 0.0) for name, amount in self._holds[budget].items()}


def _add(amounts: Amounts, more: Iterable[tuple[str, float]]) -> None:
    for name, amount in more:
        amounts[name] = amounts.get(name, 0.0) + amount


def unknown_budget(budget: str) -> UnknownBudget:
    return UnknownBudget(
        f"there is no shared budget {budget[:100]!r}; say what it holds under [budgets.NAME] of the configuration, or "
        "with limits.define() of the engine"
    )
