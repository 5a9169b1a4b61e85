"""Arguments that do not fit, sent again and again."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Ring, Round


class BadArguments:
    """Rounds in a row in which one tool got arguments that it cannot take; a call that fits ends the streak."""

    name = "arguments"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._streaks: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        findings = []
        for pair in round.pairs:
            if pair.error != "bad_arguments":
                if self._streaks:
                    self._streaks.pop(pair.tool, None)
                continue
            count, onset, calls = self._streaks.get(pair.tool, (0, pair.n, ()))
            if calls and calls[-1] in {other.call_id for other in round.pairs}:
                continue  # one round, one try
            calls = (*calls[-7:], pair.call_id)
            self._streaks[pair.tool] = (count + 1, onset, calls)
            findings.append(
                Finding(
                    detector=self.name,
                    pattern=f"bad arguments for {pair.tool}",
                    count=count + 1,
                    calls=calls,
                    tool=pair.tool,
                    onset=onset,
                    known=pair.content,
                )
            )
        while len(self._streaks) > 64:
            self._streaks.pop(next(iter(self._streaks)))
        return findings
