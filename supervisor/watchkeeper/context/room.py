"""When a view is made smaller, and when that has come to its end: thresholds, and the guard against going round."""

from __future__ import annotations

import math
from typing import Literal

from ..messages import ContextCompacted
from .limits import ContextLimits

LEAST_FREED = 0.05
"""Share of a request that a compaction must free; one that frees less would come again at once."""
LEARNED = 0.9
"""Of a request that a server called too long, the share that it is taken to accept from then on."""
LEAST_REPLY = 16
"""Tokens of a reply below which asking makes no sense."""

Need = Literal["no", "compact", "full"]


class Room:
    """What a request may take, in tokens, and how the compactions so far have gone. Pure: it is told all it knows.

    ``at`` is all that a turn looks at: below it there is nothing to do.
    """

    def __init__(self, limits: ContextLimits, window: int | None) -> None:
        self.limits = limits
        self.window = limits.window or (window if isinstance(window, int) and window > 0 else None)
        """What the model takes, as far as somebody has said so."""
        self._bound: float = math.inf if self.window is None else self.window
        """The same, or what a server's refusal has taught."""
        self.full = False
        """There is nothing left to be freed: the run is to end."""
        self.at = math.inf
        self._set()
        self._last: int | None = None
        self._soon = 0
        """Compactions in a row that came sooner than ``every`` turns after the one before."""
        self._refused: int | None = None
        """The turn whose request a server called too long."""

    def _set(self) -> None:
        limits = self.limits
        if limits.compact:
            self.at = min(self._bound * limits.start, limits.tokens if limits.tokens is not None else math.inf)

    @property
    def target(self) -> int:
        return int(self.at * self.limits.target)

    def reply(self, estimate: int) -> int | None:
        """The longest reply to a request of so many tokens at most; None: no limit is known.

        The estimate is a cautious one, so an eighth of the window is always granted.
        """
        return None if self.window is None else max(self.window - estimate, self.window // 8, LEAST_REPLY)

    def fits(self, used: float) -> bool:
        """Whether a request of at least so many tokens can be answered at all."""
        return self.window is None or used + LEAST_REPLY <= self.window

    def need(self, used: int, turn: int) -> Need:
        """What is to be done before the request of a turn that would take so many tokens."""
        if used < self.at:
            return "no"
        if not self._is_soon(turn):
            self._soon = 0
            return "compact"
        if used + LEAST_REPLY <= self._bound:
            return "no"
        return self._once_more()

    def refused(self, used: int, turn: int, window: int | None = None) -> Need:
        """What is to be done when a server has called a request of about so many tokens too long: one compaction and
        one retry, not a loop. ``window``: what it said that the model takes."""
        if not self.limits.compact or self.full or self._refused == turn:
            return "no"
        self._refused = turn
        if window is not None:
            self.window = window if self.window is None else min(window, self.window)
        self._bound = self.window if self.window is not None else min(self._bound, max(used * LEARNED, 1.0))
        self._set()
        if self._is_soon(turn):
            return self._once_more()
        self._soon = 0
        return "compact"

    def remember(self, fact: ContextCompacted) -> None:
        """A compaction that was done before the run was recovered."""
        if fact.reason == "refused":
            self.refused(fact.before, fact.turn, fact.window)
        else:
            self.need(fact.before, fact.turn)
        self.compacted(fact.before, fact.after, fact.turn)

    def compacted(self, before: int, after: int, turn: int) -> bool:
        """A compaction was done. True if it freed enough to try once more what was refused. If it did not, or the view
        is still longer than it may be, there is no room any more."""
        self._last = turn
        freed = before - after >= before * LEAST_FREED
        if after >= self.at or not freed:
            self.ended()
        return freed

    def sums_up(self, last: int | None, turn: int) -> bool:
        """Whether the model may be asked for a summary, given the turn of the last one."""
        return self.limits.summary and (last is None or turn - last >= self.limits.every)

    def ended(self) -> None:
        self.full, self.at = True, math.inf

    def _is_soon(self, turn: int) -> bool:
        return self._last is not None and turn - self._last < self.limits.every

    def _once_more(self) -> Need:
        self._soon += 1
        if self._soon > self.limits.in_a_row:
            self.ended()
            return "full"
        return "compact"
