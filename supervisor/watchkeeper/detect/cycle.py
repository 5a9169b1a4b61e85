"""Cycles of rounds: A B A B …, and any period up to eight, with equal results in each lap."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import PERIODS, Thresholds
from .round import Ring, Round

SHOWN = 64
"""Calls of a lap that a finding names."""


class Cycle:
    """For each period the number of rounds in a row that equal the one a period before. The most laps win, and of equal
    ones the smallest period: within a lap of a long cycle there may be some of a short one.

    Constant work a round: seven comparisons. A streak of equal rounds (period 1) is not a cycle. A cycle in which any
    result changes in each lap is not seen as one: what changes may be progress. Nor is one with a poll or a wait in it:
    waiting between two looks is how one polls, and polls have a patience of their own.
    """

    name = "cycle"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._rounds: deque[Round] = deque(maxlen=PERIODS[-1] + 1)
        self._matched = dict.fromkeys(PERIODS, 0)
        self._onsets = dict.fromkeys(PERIODS, 0)

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        rounds, matched, fingerprint = self._rounds, self._matched, round.fingerprint
        rounds.append(round)
        found: Finding | None = None
        for period in PERIODS:
            if len(rounds) <= period or rounds[-1 - period].fingerprint != fingerprint:
                matched[period] = 0
                continue
            matched[period] += 1
            if matched[period] == 1:
                self._onsets[period] = rounds[-1 - period].first.n
            laps, rest = divmod(matched[period] + period, period)
            if not rest and (found is None or laps > found.count):
                found = self._lap(period, laps) or found
        return () if found is None else (found,)

    def _lap(self, period: int, laps: int) -> Finding | None:
        lap = list(self._rounds)[-period:]
        if all(one.fingerprint == lap[0].fingerprint for one in lap):
            return None
        pairs = [pair for one in lap for pair in one.pairs]
        if any(pair.poll for pair in pairs):
            return None
        # The order within the lap depends on where it is cut: the keys are named in an order of their own.
        keys = tuple(sorted({pair.key for pair in pairs}))
        return Finding(
            detector=self.name,
            pattern=f"cycle of {period}",
            count=laps,
            calls=tuple(pair.call_id for pair in pairs[-SHOWN:]),
            keys=keys,
            subject=f"{period} {','.join(keys)}",
            tool=" → ".join(one.first.tool for one in lap),
            onset=self._onsets[period],
        )
