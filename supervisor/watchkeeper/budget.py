"""Budgets: a tree of limits. Hold before, settle after; nothing is ever spent that was not held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from .errors import ConfigurationError

EXACT = 1e-12
"""Part of a limit within which sums of fractions count as equal to it: 0.1 + 0.2 fits into 0.3. Whole numbers are exact
up to a limit of 10^12."""


class Hold:
    """An amount that is set aside in a budget and all above it, until it is settled or released, once."""

    __slots__ = ("amounts", "budget", "id", "open")

    def __init__(self, budget: Budget, amounts: dict[str, float], number: int) -> None:
        self.budget = budget
        self.amounts = amounts
        self.id = f"h{number}"
        self.open = True


class Short:
    """Why a hold was not given: the dimension, what was wanted and what is left of it."""

    __slots__ = ("dimension", "left", "wanted")

    def __init__(self, dimension: str, wanted: float, left: float) -> None:
        self.dimension = dimension
        self.wanted = wanted
        self.left = left


class Budget:
    """Limits by dimension, for example ``Budget(tokens=100_000)``; share one among runs by passing it to each.

    A budget draws from all of its ``parents``, as a rule one: a run that is given a budget to share draws from that and
    from its supervisor's. None means: no limit of its own. :meth:`hold` and :meth:`take` are atomic over the whole
    path: either this budget and every one above it have room, or nothing is done. Not thread-safe: use it in the loop,
    from a tool as ``current_call().run.budget``.

    Promise: ``spent + held <= limit`` in every dimension, until a settlement above its hold does not fit any more; that
    overrun is returned by :meth:`settle` and ends the run that caused it. Amounts are numbers of 0 or more: all methods
    that take some raise ``ValueError`` for others and change nothing.
    """

    def __init__(self, *parents: Budget, **limits: float | None) -> None:
        for name, limit in limits.items():
            if limit is not None and not limit >= 0:
                raise ConfigurationError(f"budget: {name} must be 0 or more, or None for no limit; not {limit!r}")
        self.path: tuple[Budget, ...] = tuple(dict.fromkeys([self, *(one for above in parents for one in above.path)]))
        """This budget and all above it, each once."""
        self.limits: dict[str, float] = {
            name: limit for name, limit in limits.items() if limit is not None and limit != math.inf
        }
        self.spent: dict[str, float] = {}
        self.held: dict[str, float] = {}
        self.unknown: dict[str, int] = {}
        """By dimension, settlements whose amount nobody could tell: with any of them ``spent`` is the least it was."""
        self._holds = 0
        self._open = 0
        """Holds of this budget and of those below it that are neither settled nor released."""

    def count_holds_from(self, number: int) -> None:
        """Holds up to this number were given before: the next one has a higher one."""
        self._holds = max(self._holds, number)

    def child(self, **limits: float | None) -> Budget:
        return Budget(self, **limits)

    def left(self, dimension: str) -> float | None:
        """What can still be held: the least over this budget and those above it. None: no limit anywhere."""
        least: float | None = None
        for budget in self.path:
            limit = budget.limits.get(dimension)
            if limit is not None:
                room = limit - budget.used(dimension)
                least = room if least is None else min(least, room)
        return least

    def share(self, dimension: str) -> float:
        """The largest share of a limit that is spent or held, over this budget and those above it. 0 without limits."""
        most = 0.0
        for budget in self.path:
            limit = budget.limits.get(dimension)
            if limit is not None:
                most = max(most, budget.used(dimension) / limit if limit else 1.0)
        return most

    def hold(self, amounts: Mapping[str, float]) -> Hold | Short:
        """Set amounts aside in this budget and all above it, or say which limit is short; nothing is held then."""
        if (short := self._short(amounts)) is not None:
            return short
        for budget in self.path:
            budget._open += 1
            for dimension, amount in amounts.items():
                budget.held[dimension] = budget.held.get(dimension, 0) + amount
        self._holds += 1
        return Hold(self, dict(amounts), self._holds)

    def take(self, amounts: Mapping[str, float]) -> Short | None:
        """Spend at once what is known beforehand, or say which limit is short; nothing is spent then."""
        if (short := self._short(amounts)) is not None:
            return short
        for budget in self.path:
            for dimension, amount in amounts.items():
                budget.spent[dimension] = budget.spent.get(dimension, 0) + amount
        return None

    def settle(self, hold: Hold, amounts: Mapping[str, float], unknown: Iterable[str] = ()) -> dict[str, float]:
        """Turn a hold into what was really spent. Returns by how much a limit is overrun, by dimension; empty if none.

        ``unknown`` names dimensions in which something was spent and nobody knows how much: that is counted, as such.
        Raises ``ValueError`` if the hold is another budget's, or is settled or released already.
        """
        _check(amounts)
        self.release(hold)
        over: dict[str, float] = {}
        for dimension in unknown:
            for budget in self.path:
                budget.unknown[dimension] = budget.unknown.get(dimension, 0) + 1
        for budget in self.path:
            for dimension, amount in amounts.items():
                budget.spent[dimension] = budget.spent.get(dimension, 0) + amount
                if dimension in budget.limits and (excess := budget.excess(dimension)):
                    over[dimension] = max(over.get(dimension, 0.0), excess)
        return over

    def release(self, hold: Hold) -> None:
        """Give a hold back unspent. Raises ``ValueError`` as :meth:`settle` does."""
        if hold.budget is not self:
            raise ValueError(f"hold {hold.id} was given by another budget")
        if not hold.open:
            raise ValueError(f"hold {hold.id} is settled already")
        hold.open = False
        for budget in self.path:
            for dimension, amount in hold.amounts.items():
                rest = budget.held.get(dimension, 0) - amount
                if rest > amount * EXACT:
                    budget.held[dimension] = rest
                else:
                    budget.held.pop(dimension, None)
            budget._open -= 1
            if not budget._open:  # what sums of fractions of very different sizes leave behind is nobody's
                budget.held.clear()

    def limit(self, dimension: str) -> float | None:
        """The least limit over this budget and those above it."""
        limits = [budget.limits[dimension] for budget in self.path if dimension in budget.limits]
        return min(limits, default=None)

    def used(self, dimension: str) -> float:
        """What is spent and held of this budget, whatever those above it say."""
        return self.spent.get(dimension, 0) + self.held.get(dimension, 0)

    def fits(self, dimension: str, amount: float) -> bool:
        """Whether so much more can be held here, whatever the budgets above it say."""
        limit = self.limits.get(dimension)
        return limit is None or self.used(dimension) + amount <= limit * (1 + EXACT)

    def excess(self, dimension: str) -> float:
        """By how much this budget is overrun; 0 if it is not."""
        limit = self.limits.get(dimension)
        if limit is None:
            return 0.0
        excess = self.used(dimension) - limit
        return excess if excess > limit * EXACT else 0.0

    def _short(self, amounts: Mapping[str, float]) -> Short | None:
        _check(amounts)
        limited = [budget for budget in self.path if budget.limits]
        for dimension, amount in amounts.items():
            for budget in limited:
                if dimension in budget.limits and not budget.fits(dimension, amount):
                    return Short(dimension, amount, max(self.left(dimension) or 0.0, 0.0))
        return None


def _check(amounts: Mapping[str, float]) -> None:
    for dimension, amount in amounts.items():
        if not 0 <= amount < math.inf:
            raise ValueError(f"budget: an amount of {dimension} must be 0 or more, not {amount!r}")
