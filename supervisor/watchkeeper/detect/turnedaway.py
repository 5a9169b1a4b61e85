"""Calls that never run: tools that do not exist, that are forbidden, or that are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .detector import When
from .round import Pair, Ring, Round

_UNKNOWN = re.compile(
    r"(?:unknown|no such|invalid|unrecogni[sz]ed|unsupported|undefined) (?:tool|function|action)\b"
    r"|\b(?:tool|function|action)\b.{0,80}?(?:not found|does not exist|doesn't exist|is not (?:a )?(?:valid|known)"
    r"|not (?:available|registered|defined|supported|allowed|permitted)|is disabled)"
)


class TurnedAway:
    """Rounds in a row in which no call ran: all were of unknown tools, denied or refused, whichever they were."""

    name = "turned_away"
    when: When = "trouble"
    __slots__ = ("_calls", "_count", "_onset")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._count = 0
        self._onset = 0
        self._calls: tuple[str, ...] = ()

    @property
    def busy(self) -> bool:
        return self._count > 0

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if not round.troubled or not all(_is_turned_away(pair) for pair in round.pairs):
            self._count = 0
            return ()
        first = round.first
        if not self._count:
            self._onset, self._calls = first.n, ()
        self._count += 1
        self._calls = (*self._calls[-7:], first.call_id)
        if self._count < 2:
            return ()
        return (
            Finding(
                detector=self.name,
                pattern="calls that never run",
                count=self._count,
                calls=self._calls,
                subject="turned away",
                tool=first.tool,
                onset=self._onset,
                known=first.content[:400],
            ),
        )


def _is_turned_away(pair: Pair) -> bool:
    if pair.kind in ("refused", "denied"):
        # Arguments that do not fit have a detector of their own, and so has what we block. That tools are off, or the
        # calls of the run used up, is the way to its end.
        return pair.error not in ("bad_arguments", "tools_off", "too_many_calls") and not pair.refused
    return pair.signature is not None and _UNKNOWN.search(pair.content[:300].lower()) is not None
