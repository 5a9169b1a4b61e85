"""Polls without progress: patience in time, then a count."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Ring, Round


class Poll:
    """A tool that is declared ``poll``, asked again and again with the same answer for longer than its patience."""

    name = "poll"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._polls = polls
        self._patience = thresholds.poll_patience
        self._streaks: dict[str, tuple[str, int, int, float, tuple[str, ...]]] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if not self._polls:
            return ()
        findings = []
        for pair in round.pairs:
            if pair.tool not in self._polls:
                continue
            result, count, onset, since, calls = self._streaks.pop(pair.key, ("", 0, pair.n, pair.t, ()))
            if result != pair.result:
                count, onset, since, calls = 0, pair.n, pair.t, ()
            calls = (*calls[-7:], pair.call_id)
            # Only polls past the patience count: else a quick poller would be told, blocked and stopped in one breath.
            count += pair.t - since >= self._patience
            self._streaks[pair.key] = (pair.result, count, onset, since, calls)
            if count:
                findings.append(
                    Finding(
                        detector=self.name,
                        pattern="poll without progress",
                        count=count,
                        calls=calls,
                        keys=(pair.key,),
                        tool=pair.tool,
                        onset=onset,
                        known=pair.content,
                    )
                )
        while len(self._streaks) > 256:
            self._streaks.pop(next(iter(self._streaks)))
        return findings
