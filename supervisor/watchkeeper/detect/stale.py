"""Nothing new: calls go on, and all that they are and all that they bring was there before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from zlib import crc32

from ..messages import Finding
from ..thresholds import PERIODS, Thresholds
from .bloom import Bloom
from .round import Pair, Ring, Round
from .saying import is_nothing

EDGE = 8000
"""Characters of a result that are looked at."""
LINES = 24
"""Lines of them that are looked at."""
ENOUGH = 4
"""New lines of a result that are remembered."""
LINES_KEPT = 200
"""Lines and words that are remembered before the older ones are forgotten."""
WORDS = 8
"""Words at the beginning and at the end of arguments that are remembered."""

_WORD = re.compile(r"[^\s\"',;(){}\[\]<>|]{2,}")
_NUMBERS = re.compile(r"\d\D+\d")
_GLOB = re.compile(r"\*(?!\d)")
_SLICES = re.compile(r'"(?:page|offset|start|skip|limit)\w*": ?"?\d+"?', re.IGNORECASE)
"""Numbers that say which part of one thing is wanted."""
LONGEST_LAP = 32
"""Rounds that a lap may have to be known as one."""
LEAK = 3
"""Rounds without news that one with news makes up for: what grows has three quarters of its rounds without."""


class Stale:
    """Rounds in a row without news: pairs that are all known, or new calls whose results hold known lines only.

    A known call with another result is news, unless it is part of a long lap; so is a new order that is acknowledged.
    Waiting is not judged here.
    """

    name = "stale"
    __slots__ = ("_before", "_calls", "_count", "_keys", "_known", "_laps", "_most", "_onset", "_seen", "_steps")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._steps = thresholds.stale
        self._seen = Bloom(LINES_KEPT)
        self._known = ""
        """The last result that had no new line."""
        self._laps: dict[int, tuple[int, int]] = {}
        """Of pairs in which a call had another result than before: when, and how many rounds after the last time."""
        self._count = 0
        """Rounds without news, less some for each with news."""
        self._most = 0
        self._before = 0
        self._onset = 0
        self._calls: tuple[str, ...] = ()
        self._keys: tuple[str, ...] = ()

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if round.wide:
            self._count = self._most = 0
            return ()
        told = [self._is_news(pair, ring) for pair in round.pairs]
        if True in told:
            self._count = max(self._count - LEAK, 0)
            return ()
        first, before = round.first, self._before
        self._before = round.fingerprint
        # One round over and over is judged as such, a wait by its patience.
        if None in told or before == round.fingerprint or round.polls:
            return ()
        if not self._count:
            self._onset, self._most, self._calls, self._keys = first.n, 0, (), ()
        self._count += 1
        self._calls = (*self._calls[-7:], first.call_id)
        self._keys = tuple(dict.fromkeys((*self._keys[-7:], first.key)))
        if self._count <= self._most:
            return ()
        self._most = self._count
        if not self._steps.tells(self._count):
            return ()
        return (
            Finding(
                detector=self.name,
                pattern="nothing new",
                count=self._count,
                calls=self._calls,
                keys=self._keys,
                subject="stale",
                tool=first.tool,
                onset=self._onset,
                known=ring.content(first),
            ),
        )

    def _is_in_lap(self, pair: Pair, n: int) -> bool:
        """Whether a call whose result is another one than the last time had this one twice before, after as many rounds
        each time: more than a cycle has."""
        last, before = self._laps.pop(pair.id, (n, 0))
        self._laps[pair.id] = n, n - last
        if len(self._laps) > LONGEST_LAP:
            del self._laps[next(iter(self._laps))]
        return n - last == before >= PERIODS.stop

    def _is_news(self, pair: Pair, ring: Ring) -> bool | None:
        """Whether a call brought anything new. None: it cannot be said."""
        if pair.moved and not self._is_in_lap(pair, ring.rounds):
            return True
        if not pair.ran:
            return False
        if pair.near or pair.stale:
            return False
        if not pair.novel:
            return None
        content, seen = pair.content, self._seen
        new = 0
        lines = content[:EDGE].split("\n") if pair.result != self._known else []
        for line in lines[:: len(lines) // LINES + 1]:  # from all over it: its beginning may be a heading each time
            bare = line.strip()
            if len(bare) > 3 and not seen.add(crc32(bare.encode("utf-8", "replace"))):
                new += 1
                if new == ENOUGH:  # what is not remembered will be news once more
                    break
        if new:
            return True
        self._known = pair.result
        asked = _WORD.findall(_SLICES.sub("", pair.arguments[:EDGE]))
        if len(asked) > 2 * WORDS:
            asked[WORDS:-WORDS] = []
        words = [word for word in asked if not seen.add(crc32(word.encode("utf-8", "replace")))]
        words = [word for word in words if "*" not in word or not _GLOB.search(word)]
        if not pair.telling:
            # A new order, acknowledged; or one more of the same. Of known numbers it is new how they are put together.
            return True if words or (not pair.like and _NUMBERS.search(pair.arguments[:EDGE])) else None
        # A known answer about another thing, "active" of each of many machines, is neither; and what finds nothing is
        # judged as such.
        return None if words or is_nothing(content) else False
