"""Cycles of rounds: A B A B …, and any period up to eight, with equal results in each lap."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import PERIODS, Thresholds
from .round import SHOWN, Ring, Round, Trace


class Cycle:
    """For each period the number of rounds in a row that equal the one a period before. The most laps win, and of equal
    ones the smallest period: within a lap of a long cycle there may be some of a short one.

    Constant work a round: seven comparisons. A streak of equal rounds (period 1) is not a cycle. A cycle in which any
    result changes in each lap is not seen as one: what changes may be progress. Nor is one with a poll or a wait in it:
    waiting between two looks is how one polls, and polls have a patience of their own.
    """

    name = "cycle"
    __slots__ = ("_any", "_matched", "_onsets", "_rounds", "_same")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._rounds: list[Trace] = []
        self._matched = [0] * PERIODS.stop
        self._onsets = [0] * PERIODS.stop
        self._same = 0
        """Rounds in a row that are equal."""
        self._any = False
        """Whether any period matches."""

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        rounds, matched, fingerprint = self._rounds, self._matched, round.fingerprint
        rounds.append(round.traced())
        if len(rounds) > PERIODS.stop:
            del rounds[0]
        if round.unseen and not round.wide:  # like none before
            if self._any:
                self._matched, self._any = [0] * PERIODS.stop, False
            return ()
        self._same = self._same + 1 if len(rounds) > 1 and rounds[-2].fingerprint == fingerprint else 0
        if self._same >= PERIODS.stop:  # one round over and over is no cycle
            return ()
        found: Finding | None = None
        for period in PERIODS:
            if len(rounds) <= period or rounds[-1 - period].fingerprint != fingerprint:
                matched[period] = 0
                continue
            self._any = True
            matched[period] += 1
            if matched[period] == 1:
                self._onsets[period] = rounds[-1 - period].n
            laps, rest = divmod(matched[period] + period, period)
            if not rest and (found is None or laps > found.count):
                found = self._lap(period, laps) or found
        return () if found is None else (found,)

    def _lap(self, period: int, laps: int) -> Finding | None:
        lap = self._rounds[-period:]
        if any(one.poll for one in lap):
            return None
        return found_in(lap, self.name, f"cycle of {period}", laps, self._onsets[period])


def found_in(lap: list[Trace], detector: str, pattern: str, laps: int, onset: int) -> Finding | None:
    """A finding about a lap of a cycle; none if all its rounds are equal: that is no cycle."""
    if all(one.fingerprint == lap[0].fingerprint for one in lap):
        return None
    # The order within the lap depends on where it is cut: the keys are named in an order of their own.
    keys = tuple(sorted({key for one in lap for key in one.keys}))
    return Finding(
        detector=detector,
        pattern=pattern,
        count=laps,
        calls=tuple(call for one in lap for call in one.calls)[-SHOWN:],
        keys=keys,
        subject=f"{len(lap)} {','.join(keys)}",
        tool=" → ".join(one.tool for one in lap),
        onset=onset,
    )
