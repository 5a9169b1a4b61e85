"""Cycles of rounds: A B A B …, and any period up to eight, with equal results in each lap."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import PERIODS, Thresholds
from .round import Ring, Round


class Cycle:
    """For each period the number of rounds in a row that equal the one a period before; the smallest period wins.

    Constant work a round: eight comparisons. A streak of equal rounds (period 1) is not a cycle. A cycle in which any
    result changes in each lap is not seen as one: what changes may be progress.
    """

    name = "cycle"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._polls = polls
        self._rounds: deque[Round] = deque(maxlen=PERIODS[-1])
        self._matched = dict.fromkeys(PERIODS, 0)

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        rounds = self._rounds
        constant = bool(rounds) and rounds[-1].fingerprint == round.fingerprint
        found: tuple[int, int] | None = None
        for period in PERIODS:
            if len(rounds) >= period and rounds[-period].fingerprint == round.fingerprint:
                self._matched[period] += 1
                laps, rest = divmod(self._matched[period] + period, period)
                if found is None and rest == 0 and laps >= 2 and not constant:
                    found = period, laps
            else:
                self._matched[period] = 0
        rounds.append(round)
        if found is None:
            return ()
        period, laps = found
        lap = list(rounds)[-period:]
        if len({one.fingerprint for one in lap}) < 2 or all(
            pair.tool in self._polls for one in lap for pair in one.pairs
        ):
            return ()
        pairs = [pair for one in lap for pair in one.pairs]
        return (
            Finding(
                detector=self.name,
                pattern=f"cycle of {period}",
                count=laps,
                calls=tuple(pair.call_id for pair in pairs),
                # The order within the lap depends on where it is cut: the keys are named in an order of their own.
                keys=tuple(sorted({pair.key for pair in pairs})),
                tool=" → ".join(one.first.tool for one in lap),
                onset=lap[0].first.n,
            ),
        )
