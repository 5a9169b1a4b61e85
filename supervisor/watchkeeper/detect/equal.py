"""Equal call with equal result, round after round."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Ring, Round


class Equal:
    """A call that gave the same result in the round before, and before that.

    The streak of a call ends when its result changes or a round passes without it. Polls are not judged here, nor is a
    call whose result says that something goes on.
    """

    name = "equal"
    __slots__ = ("_steps", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._steps = thresholds.equal
        self._streaks: dict[int, tuple[int, int, tuple[str, ...]]] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        before = self._streaks
        now: dict[int, tuple[int, int, tuple[str, ...]]] = {}
        findings = []
        for pair in round.pairs:
            if pair.poll:
                continue
            both = pair.id
            seen = before.get(both)
            if seen is None:
                now[both] = (1, pair.n, (pair.call_id,))
            else:
                count, onset, calls = seen
                now[both] = (count + 1, onset, (*calls[-7:], pair.call_id))
                if not self._steps.tells(count + 1):
                    continue
                findings.append(
                    Finding(
                        detector=self.name,
                        pattern="equal call, equal result",
                        count=count + 1,
                        calls=now[both][2],
                        keys=(pair.key,),
                        tool=pair.tool,
                        onset=onset,
                        known=ring.content(pair),
                    )
                )
        self._streaks = now
        return findings
