"""Equal call with equal result, round after round."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Ring, Round


class Equal:
    """A call that gave the same result in the round before, and before that.

    The streak of a call ends when its result changes or a round passes without it. Polls are not judged here.
    """

    name = "equal"

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._polls = polls
        self._streaks: dict[tuple[str, str], tuple[int, int, tuple[str, ...]]] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        before, now = self._streaks, {}
        findings = []
        for pair in round.pairs:
            if pair.tool in self._polls:
                continue
            count, onset, calls = before.get(pair.both, (0, pair.n, ()))
            now[pair.both] = (count + 1, onset, (*calls[-7:], pair.call_id))
            if count:
                findings.append(
                    Finding(
                        detector=self.name,
                        pattern="equal call, equal result",
                        count=count + 1,
                        calls=now[pair.both][2],
                        keys=(pair.key,),
                        tool=pair.tool,
                        onset=onset,
                        known=ring.last_result.get(pair.key, ("", ""))[1],
                    )
                )
        self._streaks = now
        return findings
