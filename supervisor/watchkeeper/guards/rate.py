"""Rate limits of tools: a least interval between two calls, and a token bucket."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from ..errors import ConfigurationError
from ..messages import CallAdmitted, CallEnded, Event
from ..wording import Wording
from .guard import Proposal, Refuse, Wait

WAITED = 1.0
"""Waits up to so many seconds are waited; longer ones are refused with the seconds left."""
ROUNDING = 1e-9
"""Seconds that are none."""


class Rate(msgspec.Struct, frozen=True):
    """How often a tool may be called. ``interval``: least seconds from one call to the next. ``calls``: so many at
    once, and after that as many as fit into ``seconds``, evenly: a bucket of so many tokens that fills up in that time.

    Raises :class:`ConfigurationError` for numbers that make no sense.
    """

    interval: float | None = None
    calls: int | None = None
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.interval is None and self.calls is None:
            raise ConfigurationError("a rate needs an interval, or calls in so many seconds")
        for name in ("interval", "calls", "seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigurationError(f"a rate's {name} must be more than 0, not {value:g}")

    def lanes(self) -> list[_Lane]:
        found = [] if self.interval is None else [_Lane(self.interval, 0.0)]
        if self.calls is not None:
            each = self.seconds / self.calls
            found.append(_Lane(each, each * (self.calls - 1)))
        return found


class _Lane:
    """Calls in a row, ``each`` seconds apart, save that they may be ``early`` by so much in all (the generic cell rate
    algorithm: one number stands for a bucket of tokens)."""

    __slots__ = ("_due", "_each", "_early")

    def __init__(self, each: float, early: float) -> None:
        self._each = each
        self._early = early
        self._due = -math.inf

    def free_at(self) -> float:
        return self._due - self._early

    def take(self, at: float) -> None:
        self._due = max(self._due, at) + self._each


class RateLimit:
    """Spaces the calls of each tool within a run. A call that is not admitted, by this guard or another, uses up
    nothing.

    ``rates``: by name of the tool, or by a glob of names; the name comes first, then the first glob that fits, then
    ``interval``, the least seconds between two calls of any tool. Tools that share a glob do not share a rate.
    """

    name = "rate"

    def __init__(self, rates: Mapping[str, Rate], wording: Wording, *, interval: float | None = None) -> None:
        self._rates = rates
        self._others = Rate(interval) if interval is not None else None
        self._wording = wording
        self._lanes: dict[str, list[_Lane]] = {}
        self._at: dict[str, float] = {}
        """When the calls that were let pass are to start, by call id, until they are admitted or answered."""

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            CallAdmitted: self._admitted,
            CallEnded: self._ended,
        }

    def call(self, proposal: Proposal) -> Refuse | Wait | None:
        tool = proposal.tool.name
        lanes = self._lanes.get(tool)
        if lanes is None:
            rate = self._rate_of(tool)
            lanes = self._lanes[tool] = rate.lanes() if rate is not None else []
        if not lanes:
            return None
        wait = max(lane.free_at() for lane in lanes) - proposal.t
        if wait > WAITED + ROUNDING:
            return Refuse(self._wording.too_soon(tool, wait).text, "too_soon")
        self._at[proposal.call_id] = proposal.t + max(wait, 0.0)
        return Wait(wait) if wait > ROUNDING else None

    def _rate_of(self, tool: str) -> Rate | None:
        if tool in self._rates:
            return self._rates[tool]
        return next((rate for name, rate in self._rates.items() if fnmatchcase(tool, name)), self._others)

    def _admitted(self, event: CallAdmitted) -> None:
        at = self._at.pop(event.call_id, None)
        if at is not None:
            for lane in self._lanes[event.tool]:
                lane.take(at)

    def _ended(self, event: CallEnded) -> None:
        self._at.pop(event.result.call_id, None)
