"""Compaction after compaction: the context is full of what the work needs, and the work goes round in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..messages import ContextChanged, ContextCompacted, Event, Finding
from ..thresholds import Thresholds
from .round import Ring, Round

SHARE = 4
"""One round in so many may be new in a lap that begins as the one before did."""


class Compaction:
    """Compactions in a row between which no call brought anything new.

    Looking things up again after a compaction is honest work, as long as something comes of it: a lap counts if
    nothing in it was new, or if it begins with the same call and result as the lap before and hardly anything was.
    A user who speaks begins anew.
    """

    name = "compaction"
    __slots__ = ("_before", "_calls", "_count", "_first", "_new", "_onset", "_rounds")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._count = 0
        self._onset = 0
        self._first: object = None
        """The round with which this lap began."""
        self._before: object = None
        """The round with which the lap before began."""
        self._rounds = 0
        self._new = 0
        self._calls: tuple[str, ...] = ()

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], Iterable[Finding]]]:
        return {ContextChanged: self._changed, ContextCompacted: self._changed}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if not self._rounds:
            self._first = round.fingerprint
            self._calls = (*self._calls[-7:], round.first.call_id)
        self._rounds += 1
        self._new += round.novel
        return ()

    def _changed(self, event: ContextChanged | ContextCompacted) -> Iterable[Finding]:
        same = self._rounds > 0 and self._first == self._before and self._new * SHARE <= self._rounds
        if self._count and (not self._new or same):
            self._count += 1
        else:
            self._count, self._onset, self._calls = 1, event.n, self._calls[-1:]
        self._before = self._first
        self._first, self._rounds, self._new = None, 0, 0
        if self._count < 2:
            return ()
        return (
            Finding(
                detector=self.name,
                pattern="compactions without anything new in between",
                count=self._count,
                calls=self._calls,
                subject=self.name,
                onset=self._onset,
            ),
        )
