"""The allowance: what a run's budget and time leave for its next request, and what a request has taken. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .budget import Budget, Hold, Short
from .messages import Usage
from .price import Price
from .stopwatch import Timed

GRADUAL = ("tokens", "input_tokens", "output_tokens", "money")
"""Dimensions that requests use up bit by bit; of turns and calls the last one is as good as the first."""
FEW = 3
"""Turns or calls of which the model needs no reminder before they are used up."""
LEAST_REPLY = 16
"""Tokens of a reply below which asking makes no sense: the budget counts as used up."""
MAX_USAGE = 10**9
"""Tokens of one reply above which a report is not believed."""


class Charge(NamedTuple):
    """What a request has taken: as tokens, from the budget, beyond its limits, and in what nobody knows how much."""

    usage: Usage
    amounts: dict[str, float]
    over: dict[str, float]
    unknown: tuple[str, ...]


class Use(NamedTuple):
    """A limited dimension: the share that is used up, and what is left."""

    dimension: str
    share: float
    left: float


class Uses(NamedTuple):
    """How all limits stand at one moment: those of the budget by dimension, and those of time."""

    budget: dict[str, Use]
    times: list[Use]

    def all(self) -> Iterator[Use]:
        yield from self.budget.values()
        yield from self.times


class Allowance:
    """One run's view of its budget, in requests. ``price`` is the model's, as soon as it is known."""

    def __init__(self, budget: Budget, reply_tokens: int) -> None:
        self.price: Price | None = None
        self._budget = budget
        self._reply_tokens = reply_tokens

    @property
    def unpriced(self) -> bool:
        """Money is limited, and what a request costs is not known."""
        return self.price is None and self._budget.limit("money") is not None

    def hold(self, read: int, most: int | None = None) -> Hold | Short:
        """Hold what a request with so many input tokens may take. The reply's part is cut to what is left, and to
        ``most``; if that is too little for one, nothing is held."""
        reply = self._reply_tokens if most is None else min(self._reply_tokens, most)
        for name, room in self._rooms(read):
            if room < LEAST_REPLY:
                return Short(name, LEAST_REPLY, max(room, 0.0))
            reply = int(min(reply, room))
        return self._budget.hold(self._most(read, reply))

    def wants(self, read: int, most: int | None = None) -> dict[str, float]:
        """What :meth:`hold` sets aside where no limit cuts the reply."""
        return self._most(read, self._reply_tokens if most is None else min(self._reply_tokens, most))

    def affords(self, read: int) -> bool:
        """Whether a request with so many input tokens would get its hold."""
        hold = self.hold(read)
        if isinstance(hold, Short):
            return False
        self._budget.release(hold)
        return True

    def settle(self, hold: Hold, usage: Usage | None, *, sent: bool = True) -> Charge:
        """Charge a request: at what was used, or at its hold where nobody says what was, or says what cannot be. One
        that was never ``sent`` costs nothing."""
        if not sent:
            return Charge(Usage(), {}, self._budget.settle(hold, {}), ())
        if usage is None or not _is_possible(usage):
            usage = Usage(int(hold.amounts["input_tokens"]), int(hold.amounts["output_tokens"]), estimated=True)
            amounts = hold.amounts
        else:
            amounts = _tokens(usage.input_tokens, usage.output_tokens)
            if self.price is not None:
                amounts["money"] = self.price.of(usage)
        unknown = () if self.price is not None else ("money",)
        return Charge(usage, amounts, self._budget.settle(hold, amounts, unknown), unknown)

    def nearly_used(self, at: float, uses: Uses, read: int) -> str | None:
        """A dimension of which so large a share is used up, or too little left for one more request after the next,
        which reads so much: better an answer now than none then."""
        limited = uses.budget
        for name in GRADUAL:
            if (limited[name].share if name in limited else 0.0) >= at:
                return name
        for time in uses.times:
            if time.share >= at:
                return time.dimension
        for name, amount in self._most(read, LEAST_REPLY).items():
            if name in limited and limited[name].left < 2 * amount:
                return name
        return None

    def uses(self, times: Sequence[Timed]) -> Uses:
        """How each limited dimension stands."""
        budget, found = self._budget, {}
        for one in budget.path:
            for name in one.limits:
                if name not in found:
                    found[name] = Use(name, budget.share(name), max(budget.left(name) or 0.0, 0.0))
        return Uses(found, [Use(time.reason, time.share, max(time.left, 0.0)) for time in times])

    def is_small(self, dimension: str) -> bool:
        """It allows only a few turns or calls anyway."""
        return _is_counted(dimension) and (self._budget.limit(dimension) or 0) <= FEW

    def _rooms(self, read: int) -> Iterator[tuple[str, float]]:
        """How long the reply may be, by each dimension that limits it."""
        left = self._budget.left
        if (tokens := left("tokens")) is not None:
            yield "tokens", tokens - read
        if (written := left("output_tokens")) is not None:
            yield "output_tokens", written
        if self.price is not None and (money := left("money")) is not None:
            yield "money", self.price.affords(read, money)

    def _most(self, read: int, written: int) -> dict[str, float]:
        amounts = _tokens(read, written)
        if self.price is not None:
            amounts["money"] = self.price.most(read, written)
        return amounts


def _is_possible(usage: Usage) -> bool:
    return min(usage.input_tokens, usage.output_tokens) >= 0 and 0 < usage.total < MAX_USAGE


def _tokens(read: int, written: int) -> dict[str, float]:
    return {"tokens": read + written, "input_tokens": read, "output_tokens": written}


def _is_counted(name: str) -> bool:
    return name in ("turns", "calls") or name.startswith("calls:")
