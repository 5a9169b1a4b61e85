"""Polls without progress: patience in time, then a count."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .detector import When
from .round import Pair, Ring, Round
from .waiting import is_wait

REMEMBERED = 16


class Poll:
    """A tool that is declared ``poll``, or a call that is told that something goes on, asked again and again with the
    same answer.

    Where the facts carry times, only what comes after the patience counts: else a quick poller would be told, blocked
    and stopped in one breath. Where they carry none, each counts. A declared poll whose answer changes is another one;
    other calls in between change nothing. A wait that is repeated alone, or around such a look, counts as one too,
    until a look of another kind shows that something has changed.
    """

    name = "poll"
    when: When = "polls"
    __slots__ = ("_patience", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._patience = thresholds.poll_patience
        self._streaks: dict[str, _Streak] = {}

    @property
    def busy(self) -> bool:
        return bool(self._streaks)

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        findings = []
        if self._streaks:
            self._has_moved(round)
        for pair in round.pairs:
            if not (pair.poll or (self._streaks and pair.key in self._streaks)):
                continue
            streak = self._streaks.pop(pair.key, None)
            if streak is None or streak.result != pair.result:
                self._streaks[pair.key] = _Streak(pair)
                continue
            self._streaks[pair.key] = streak
            streak.calls = (*streak.calls[-7:], pair.call_id)
            waited = pair.t - streak.since
            streak.count += waited >= self._patience if waited > 0 else not pair.t
            if streak.count:
                findings.append(
                    Finding(
                        detector=self.name,
                        pattern="poll without progress",
                        count=streak.count + (not pair.t),
                        calls=streak.calls,
                        keys=(pair.key,),
                        tool=pair.tool,
                        onset=streak.onset,
                        known=ring.content(pair),
                    )
                )
        while len(self._streaks) > REMEMBERED:
            self._streaks.pop(next(iter(self._streaks)))
        return findings

    def _has_moved(self, round: Round) -> None:
        """What was waited for was seen to change: who waits between looks at it has not waited in vain."""
        if any((pair.drifted or (pair.moved and pair.novel)) and not pair.poll for pair in round.pairs):
            self._streaks = {key: streak for key, streak in self._streaks.items() if not streak.alone}


class _Streak:
    __slots__ = ("alone", "calls", "count", "onset", "result", "since")

    def __init__(self, pair: Pair) -> None:
        self.result = pair.result
        self.onset = pair.n
        self.since = pair.t
        self.calls: tuple[str, ...] = (pair.call_id,)
        self.count = 0
        self.alone = is_wait(pair)
        """Whether it waits, and looks at nothing itself."""
