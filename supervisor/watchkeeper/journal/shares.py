"""Budgets that runs of several workers share, in the memory of one process."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine import EngineError
from .checks import check_amounts, check_name


class Shares:
    """What each budget holds and what of it is granted."""

    def __init__(self) -> None:
        self._holds: dict[str, dict[str, float]] = {}
        self._granted: dict[str, dict[str, float]] = {}
        self._charged: dict[str, dict[str, float]] = {}

    async def define(self, budget: str, amounts: Mapping[str, float]) -> None:
        check_name("the name of a shared budget", budget)
        check_amounts(amounts)
        self._holds[budget] = dict(amounts)
        self._granted.setdefault(budget, {})

    async def grant(self, budget: str, amounts: Mapping[str, float]) -> dict[str, float]:
        check_amounts(amounts)
        left = self._left(budget)
        given = {name: min(amount, max(left.get(name, 0.0), 0.0)) for name, amount in amounts.items()}
        self._add(budget, given)
        return given

    async def give_back(self, budget: str, amounts: Mapping[str, float]) -> None:
        check_amounts(amounts)
        self._left(budget)
        granted = self._granted[budget]
        for name, amount in amounts.items():
            granted[name] = max(granted.get(name, 0.0) - amount, 0.0)

    async def left(self, budget: str) -> dict[str, float]:
        return self._left(budget)

    def charge(self, budget: str, dimension: str, amount: float) -> None:
        """Note that so much of what was granted has been spent."""
        charged = self._charged.setdefault(budget, {})
        charged[dimension] = charged.get(dimension, 0.0) + amount

    def reclaim(self) -> None:
        """All who were granted something are gone: take back what they had not spent."""
        for budget in self._granted:
            self._granted[budget] = dict(self._charged.get(budget, {}))

    def _left(self, budget: str) -> dict[str, float]:
        holds = self._holds.get(budget)
        if holds is None:
            raise unknown_budget(budget)
        granted = self._granted[budget]
        return {name: amount - granted.get(name, 0.0) for name, amount in holds.items()}

    def _add(self, budget: str, amounts: Mapping[str, float]) -> None:
        granted = self._granted[budget]
        for name, amount in amounts.items():
            granted[name] = granted.get(name, 0.0) + amount


def unknown_budget(budget: str) -> EngineError:
    return EngineError(f"there is no shared budget {budget[:100]!r}; say what it holds with limits.define() first")
