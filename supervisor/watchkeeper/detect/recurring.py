"""One pair of call and result that comes again and again among others that are new."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .detector import When
from .round import Pair, Ring, Round
from .saying import is_complaint, is_fine

REMEMBERED = 8
"""Calls that are followed at once."""
NEUTRAL = 0.5
"""What a result that complains of nothing counts: a gauge that stays where it is may be looked at often."""
APART = 10
"""Rounds without a call after which it is not coming back: what is looked at now and then does not recur."""


class Recurring:
    """A stuck call between fresh reads, or a check that says the same after each of many changes.

    What was changed in between is evidence, not a reset: some checks in a row with equal results are ordinary work, so
    the bar is far above that of calls in a row. A known call with another result is a reset, for then something moves.
    An acknowledgement is no result that can recur: what comes of "scroll down" is seen by another call.
    """

    name = "recurring"
    when: When = "known"
    __slots__ = ("_steps", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._steps = thresholds.recurring
        self._streaks: dict[int, tuple[float, int, int, float]] = {}
        """By pair: what its coming weighed so far, when it came first, in which round last, and what it weighs each
        time. The latest last."""

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if round.wide:
            return ()
        now = ring.rounds
        streaks = self._streaks
        found: list[Finding] = []
        if round.moved:
            streaks.clear()
        for pair in round.pairs:
            if pair.novel or pair.masked or pair.poll or not pair.telling:  # one that has drifted is novel
                continue
            both = pair.id
            seen = streaks.pop(both, None)
            before, onset, last, weight = (1.0, pair.n, now, _weight(pair)) if seen is None else seen
            if now - last > APART:
                before, onset = 1.0, pair.n
            streaks[both] = before + weight, onset, now, weight
            count = int(before + weight)
            if len(streaks) > REMEMBERED:
                streaks.pop(next(iter(streaks)))
            if (
                count > int(before) and self._steps.tells(count) and last < now - 1
            ):  # those in a row are not judged here
                found.append(
                    Finding(
                        detector=self.name,
                        pattern="equal call, equal result, among others",
                        count=count,
                        calls=(pair.call_id,),
                        keys=(pair.key,),
                        tool=pair.tool,
                        onset=onset,
                        known=ring.content(pair),
                    )
                )
        return found


def _weight(pair: Pair) -> float:
    """What one more equal pair counts. That all is well may be seen again and again."""
    if not pair.ran or pair.signature is not None or is_complaint(pair.content):
        return 1
    return 0 if is_fine(pair.content) else NEUTRAL
