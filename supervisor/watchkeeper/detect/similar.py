"""Calls that are put differently and all have one result: paraphrased searches, slices of one thing."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Pair, Ring, Round

REMEMBERED = 6
"""Tools that are followed at once."""


class Similar:
    """Calls of one tool, each unlike the one before, that all had one and the same result.

    Many orders of one kind ("set item 17 to done", "set item 18 to done") have one acknowledgement too: what counts is
    a call that is alike or whose result tells too much for an acknowledgement.
    """

    name = "similar"
    __slots__ = ("_block", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._block = thresholds.similar.block
        self._streaks: dict[str, _Streak] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        found: list[Finding] = []
        if round.wide:
            return found
        for pair in round.pairs:
            if pair.refused and (blocked := self._streaks.get(pair.tool)) is not None and self._is_blocked(blocked):
                blocked.note(pair)
                found.append(self._finding(blocked, pair))
            if not pair.ran or pair.signature is not None:
                continue
            streak = self._streaks.pop(pair.tool, None)
            if streak is None or streak.result != pair.family or pair.poll:
                streak = _Streak(pair)
            elif pair.near or not pair.novel:
                # A new one that is not alike, but had the same result, says nothing either way.
                streak.note(pair)
                if streak.varied:
                    found.append(self._finding(streak, pair))
            self._streaks[pair.tool] = streak
        while len(self._streaks) > REMEMBERED:
            self._streaks.pop(next(iter(self._streaks)))
        return found

    def _is_blocked(self, streak: _Streak) -> bool:
        """Whether a refusal may be due to this streak."""
        return self._block is not None and streak.count >= self._block

    def _finding(self, streak: _Streak, pair: Pair) -> Finding:
        return Finding(
            detector=self.name,
            pattern="put differently, same result",
            count=streak.count,
            calls=streak.calls,
            keys=(f"tool:{pair.tool}",),
            subject=pair.tool,
            tool=pair.tool,
            onset=streak.onset,
            known=pair.content[:400],
        )


class _Streak:
    __slots__ = ("calls", "count", "onset", "result", "varied")

    def __init__(self, pair: Pair) -> None:
        self.result = pair.family
        self.varied = False
        """Whether any was put differently: else they are equal calls, which have detectors of their own."""
        self.onset = pair.n
        self.calls: tuple[str, ...] = (pair.call_id,)
        self.count = 1

    def note(self, pair: Pair) -> None:
        self.count += 1
        self.varied = self.varied or pair.near
        self.calls = (*self.calls[-7:], pair.call_id)
