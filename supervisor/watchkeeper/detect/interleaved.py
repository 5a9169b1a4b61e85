"""Cycles with noise: a lap of calls that are known, with some fresh ones between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import PERIODS, Thresholds
from .round import Ring, Round

SHOWN = 64
"""Calls of a lap that a finding names."""
FRESH = 5
"""New rounds in a row that end a streak: with so much news between two repeats they are no cycle."""


class Interleaved:
    """Looks at the rounds in which nothing is new, and whether they make a cycle. A lap in which every pair was seen
    before is what good runs hardly have, so some noise between does not make it one. A known call with another result
    does: something moves.

    The first lap of a cycle is new: it counts as one lap before the first that is seen.
    """

    name = "interleaved"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._known: deque[Round] = deque(maxlen=PERIODS[-1] + 1)
        self._matched = dict.fromkeys(PERIODS, 0)
        self._onsets = dict.fromkeys(PERIODS, 0)
        self._fresh = 0
        self._noise = 0

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if round.novel:
            self._fresh += 1
            self._noise += 1
            if (self._fresh > FRESH or round.moved) and self._known:
                self._known.clear()
                self._matched = dict.fromkeys(PERIODS, 0)
            return ()
        self._fresh = 0
        if any(pair.poll for pair in round.pairs):
            return ()
        known, matched = self._known, self._matched
        if not known:
            self._noise = 0
        known.append(round)
        found: Finding | None = None
        for period in PERIODS:
            if len(known) <= period or known[-1 - period].fingerprint != round.fingerprint:
                matched[period] = 0
                continue
            matched[period] += 1
            if matched[period] == 1:
                self._onsets[period] = known[-1 - period].first.n
            laps, rest = divmod(matched[period] + period, period)
            if not rest and self._noise and (found is None or laps + 1 > found.count):
                found = self._lap(period, laps + 1) or found
        return () if found is None else (found,)

    def _lap(self, period: int, laps: int) -> Finding | None:
        lap = list(self._known)[-period:]
        if all(one.fingerprint == lap[0].fingerprint for one in lap):
            return None
        pairs = [pair for one in lap for pair in one.pairs]
        if not any(pair.telling for pair in pairs):
            return None
        keys = tuple(sorted({pair.key for pair in pairs}))
        return Finding(
            detector=self.name,
            pattern=f"cycle of {period} among others",
            count=laps,
            calls=tuple(pair.call_id for pair in pairs[-SHOWN:]),
            keys=keys,
            subject=f"{period} {hash(keys)}",
            tool=" → ".join(one.first.tool for one in lap),
            onset=self._onsets[period],
        )
