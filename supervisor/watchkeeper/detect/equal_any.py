"""Equal call whatever the result: a much higher bar, because a poll that progresses looks the same."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Ring, Round


class EqualAny:
    """One call, round after round, with results that differ. Tools that are declared ``poll`` are left alone."""

    name = "equal_any"
    __slots__ = ("_steps", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._steps = thresholds.equal_any
        self._streaks: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        before = self._streaks
        now: dict[str, tuple[int, int, tuple[str, ...]]] = {}
        findings = []
        for pair in round.pairs:
            if pair.poll or pair.like:  # what differs in its arguments may be what the results differ by
                continue
            seen = before.get(pair.key)
            if seen is None:
                now[pair.key] = (1, pair.n, (pair.call_id,))
                continue
            count, onset, calls = seen
            now[pair.key] = (count + 1, onset, (*calls[-7:], pair.call_id))
            if self._steps.tells(count + 1):
                findings.append(
                    Finding(
                        detector=self.name,
                        pattern="equal call, any result",
                        count=count + 1,
                        calls=now[pair.key][2],
                        keys=(pair.key,),
                        tool=pair.tool,
                        onset=onset,
                        known=pair.content[:400],
                    )
                )
        self._streaks = now
        return findings
