"""Cycles with noise: a lap of calls that are known, with some fresh ones between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..messages import Finding
from ..thresholds import PERIODS, Thresholds
from .cycle import found_in
from .detector import When
from .round import Pair, Ring, Round, Trace
from .saying import is_complaint, is_fine

FRESH = 5
"""New rounds in a row that end a streak: with so much news between two repeats they are no cycle."""
SHORT = 48
"""Characters of a result without a number, up to which it says hardly more than that something was done."""
UNKNOWN, NEWS, RECEIPT, FINE = range(4)
"""What a result says: something; that something was done, in few words or with another number each time; that all is
well, or no more than an acknowledgement."""
_DIGIT = re.compile(r"\d")


class Interleaved:
    """Looks at the rounds in which nothing is new, and whether they make a cycle. A lap in which every pair was seen
    before is what good runs hardly have, so some noise between does not make it one. A known call with another result
    does: something moves. And a lap in which all is well, after something new was done, is how work is checked, or how
    one thing after the other is dealt with in the same few steps.

    The first lap of a cycle is new: it counts as one lap before the first that is seen.
    """

    name = "interleaved"
    when: When = "always"
    __slots__ = ("_known", "_last", "_matched", "_noise", "_onsets", "_ordered", "_same")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._known: list[Known] = []
        self._matched = [0] * PERIODS.stop
        self._onsets = [0] * PERIODS.stop
        self._last = 0
        """The number of the last round that was known."""
        self._noise = False
        self._ordered = False
        """Whether something new was ordered, and acknowledged, since the last round that was known."""
        self._same = 0
        """Rounds in a row, of those that were known, that are equal."""

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if round.novel and not round.moved:
            self._ordered = self._ordered or any(pair.novel and pair.ran and not pair.telling for pair in round.pairs)
            return ()
        fresh = ring.rounds - self._last - 1
        if round.moved or fresh > FRESH:
            self._known, self._matched, self._noise = [], [0] * PERIODS.stop, False
        if round.novel:
            return ()
        self._last = ring.rounds
        trace = round.traced()
        if trace.poll:
            return ()
        known, matched = self._known, self._matched
        self._noise = bool(known) and (self._noise or fresh > 0)
        self._same = self._same + 1 if known and known[-1].trace.fingerprint == round.fingerprint else 0
        known.append(Known(trace, self._says(round), self._ordered))
        self._ordered = False
        if len(known) > PERIODS.stop:
            del known[0]
        if self._same >= PERIODS.stop:  # one round over and over is no cycle
            return ()
        found: Finding | None = None
        for period in PERIODS:
            if len(known) <= period or known[-1 - period].trace.fingerprint != round.fingerprint:
                matched[period] = 0
                continue
            matched[period] += 1
            if matched[period] == 1:
                self._onsets[period] = known[-1 - period].trace.n
            laps, rest = divmod(matched[period] + period, period)
            if not rest and self._noise and (found is None or laps + 1 > found.count):
                found = self._lap(period, laps + 1) or found
        return () if found is None else (found,)

    def _says(self, round: Round) -> int:
        """What a round says, asked when it is there again: until then nobody wants to know."""
        for one in reversed(self._known):
            if one.trace.fingerprint == round.fingerprint:
                return one.says if one.says != UNKNOWN else min(map(_says, round.pairs))
        return UNKNOWN

    def _lap(self, period: int, laps: int) -> Finding | None:
        known = self._known[-period:]
        least = min(one.says for one in known)
        if least == FINE or (least == RECEIPT and any(one.ordered for one in known)):
            return None
        lap = [one.trace for one in known]
        return found_in(lap, self.name, f"cycle of {period} among others", laps, self._onsets[period])


class Known(NamedTuple):
    """A round in which nothing was new."""

    trace: Trace
    says: int
    ordered: bool
    """Whether something new was ordered before it."""


def _says(pair: Pair) -> int:
    if is_fine(pair.content) or not pair.telling:
        return FINE
    if pair.signature is not None or is_complaint(pair.content):
        return NEWS
    few = len(pair.content) <= SHORT and _DIGIT.search(pair.content) is None
    return RECEIPT if few or pair.masked else NEWS
