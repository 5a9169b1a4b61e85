"""Arguments that do not fit, sent again and again."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .detector import When
from .round import Pair, Ring, Round

REMEMBERED = 16
"""Tools that are followed at once."""


class BadArguments:
    """Rounds in which one tool got arguments that it cannot take; a call of it that fits ends the streak."""

    name = "arguments"
    when: When = "trouble"
    __slots__ = ("_streaks",)

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._streaks: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    @property
    def busy(self) -> bool:
        return bool(self._streaks)

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        bad: dict[str, Pair] = {}
        for pair in round.pairs:
            if pair.error == "bad_arguments":
                bad.setdefault(pair.tool, pair)  # one round, one try
        if not bad and not self._streaks:
            return ()
        for pair in round.pairs:
            if pair.error != "bad_arguments":
                self._streaks.pop(pair.tool, None)
                bad.pop(pair.tool, None)
        return [self._found(pair) for pair in bad.values()]

    def _found(self, pair: Pair) -> Finding:
        count, onset, calls = self._streaks.pop(pair.tool, (0, pair.n, ()))
        calls = (*calls[-7:], pair.call_id)
        self._streaks[pair.tool] = (count + 1, onset, calls)
        if len(self._streaks) > REMEMBERED:
            self._streaks.pop(next(iter(self._streaks)))
        return Finding(
            detector=self.name,
            pattern=f"bad arguments for {pair.tool}",
            count=count + 1,
            calls=calls,
            tool=pair.tool,
            onset=onset,
            known=pair.content[:400],
        )
