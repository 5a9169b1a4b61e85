"""Equal call whatever the result: a much higher bar, because a poll that progresses looks the same."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Pair, Ring, Round

EDGE = 4000
"""Characters of a result that are looked at."""
WORDS = 64
"""Words of a result that are remembered, to see whether the next one brings others."""
NEW = 5
"""Words that are not among them, from which on a result has brought something: a page of a text, lines of a log."""
BROUGHT = 3
"""How many rounds count as one whose results have brought something: a text has its last page, a stream of new texts
may have none."""
WHOLES = 8
"""Wholes that are remembered, each with how much of it is done."""

_WORD = re.compile(r"[^\W\d_]{4,}")
_PART = re.compile(r"\b(\d{1,9}) ?(?:/|of|out of) ?(\d{1,9})\b")
_AT = re.compile(
    r"\b(page|epoch|chapter|part|batch|row|record|processed|downloaded|uploaded|copied|scanned|indexed|imported|converted"
    r"|completed|done)s?[\"']?(?: ?[:=#] ?| )[\"']?(\d{1,9})\b(?! ?(?:/|of))",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"\b(\d{1,3})(?:\.\d+)? ?%")


class EqualAny:
    """One call, round after round, with results that differ. Tools that are declared ``poll`` are left alone.

    A result in which more of a whole is done than ever (page 4 of 48, 61 %, page 17 of who knows how many) begins the
    count anew: it goes on to an end of its own. One with other words counts for less, one with other numbers as one
    more.
    """

    name = "equal_any"
    __slots__ = ("_steps", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._steps = thresholds.equal_any
        self._streaks: dict[str, _Streak] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        before = self._streaks
        now: dict[str, _Streak] = {}
        findings = []
        for pair in round.pairs:
            if pair.poll or pair.like:  # what differs in its arguments may be what the results differ by
                continue
            streak = before.get(pair.key)
            if streak is None:
                now[pair.key] = _Streak(pair)
                continue
            now[pair.key] = streak
            if streak.is_one_more(pair) and self._steps.tells(streak.count):
                findings.append(
                    Finding(
                        detector=self.name,
                        pattern="equal call, any result",
                        count=streak.count,
                        calls=streak.calls,
                        keys=(pair.key,),
                        tool=pair.tool,
                        onset=streak.onset,
                        known=pair.content[:400],
                    )
                )
        self._streaks = now
        return findings


class _Streak:
    __slots__ = ("_weight", "_wholes", "_words", "calls", "onset")

    def __init__(self, pair: Pair) -> None:
        self._words = b""
        self._wholes: dict[int | str, int] = {}
        self._begin(pair)

    def _begin(self, pair: Pair) -> None:
        self._weight = BROUGHT
        self.onset = pair.n
        self.calls: tuple[str, ...] = (pair.call_id,)

    @property
    def count(self) -> int:
        return self._weight // BROUGHT

    def is_one_more(self, pair: Pair) -> bool:
        """Note one more call; whether the count has grown by it."""
        before = self.count
        if pair.moved:
            text = pair.content[:EDGE]
            if self._goes_on(text):
                self._begin(pair)
                return False
            self._weight += 1 if self._has_brought(text) else BROUGHT
        else:
            self._weight += BROUGHT
        self.calls = (*self.calls[-7:], pair.call_id)
        return self.count > before

    def _goes_on(self, text: str) -> bool:
        """Whether more of any whole is done than ever before."""
        parts: list[tuple[int, int | str]] = [(int(part), int(whole)) for part, whole in _PART.findall(text)[:WHOLES]]
        parts += [(int(part), 100) for part in _PERCENT.findall(text)[:WHOLES]]
        wholes, more = self._wholes, False
        parts += [(int(number), name.lower()) for name, number in _AT.findall(text)[:WHOLES]]
        for part, whole in parts:
            if type(whole) is int and part > whole:
                continue
            done = wholes.pop(whole, None)
            more = more or (done is not None and part > done)
            wholes[whole] = max(part, done or 0)
            if len(wholes) > WHOLES:
                del wholes[next(iter(wholes))]
        return more

    def _has_brought(self, text: str) -> bool:
        words = set(map(hash, _WORD.findall(text)[:WORDS]))
        known, self._words = self._words, array("q", words).tobytes()
        return bool(known) and len(words.difference(array("q", known))) >= NEW
