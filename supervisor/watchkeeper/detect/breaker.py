"""The breaker: equal pairs within the window, whatever stands between them. A hard ceiling."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .detector import When
from .round import Pair, Ring, Round


class Breaker:
    """So many equal pairs within the window that nothing else may let the run go on."""

    name = "breaker"
    when: When = "known"
    __slots__ = ("_at", "_told", "_window")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._at = min(thresholds.breaker, thresholds.window)
        self._window = thresholds.window
        self._told = 0
        """The pair that was told last: once is enough."""

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        return [self._found(pair, ring) for pair in round.pairs if self._is_reached(pair, ring)]

    def _is_reached(self, pair: Pair, ring: Ring) -> bool:
        return ring.count(pair) >= self._at and not pair.poll and pair.id != self._told

    def _found(self, pair: Pair, ring: Ring) -> Finding:
        self._told = pair.id
        count = ring.count(pair)
        return Finding(
            detector=self.name,
            pattern=f"{count} equal calls and results within {self._window}",
            count=count,
            calls=(pair.call_id,),
            keys=(pair.key,),
            tool=pair.tool,
            known=ring.content(pair),
        )
