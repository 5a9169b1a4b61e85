"""One tool that finds nothing, again and again, wherever it looks."""

from __future__ import annotations

from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import FAILURES, Ring, Round
from .saying import is_nothing
from .waiting import goes_on

REMEMBERED = 6
"""Tools that are followed at once."""


class Fruitless:
    """Calls of one tool in a row that all found nothing. A search may honestly look in many places: the bar is high."""

    name = "fruitless"
    __slots__ = ("_steps", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._steps = thresholds.fruitless
        self._streaks: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        found: list[Finding] = []
        if round.wide:
            return found
        streaks = self._streaks
        for pair in round.pairs:
            count, onset, calls = streaks.pop(pair.tool, (0, pair.n, ()))
            blocked = pair.refused and self._steps.block is not None and count >= self._steps.block
            if pair.signature is not None or not (pair.ran or blocked):  # neither found nor found nothing
                if count:
                    streaks[pair.tool] = count, onset, calls
                continue
            silent = pair.kind in FAILURES and not goes_on(pair)  # it failed, and said no word
            if pair.ran and (pair.poll or not (silent or is_nothing(pair.content))):
                continue
            calls = (*calls[-7:], pair.call_id)
            streaks[pair.tool] = count + 1, onset, calls
            if self._steps.tells(count + 1):
                found.append(
                    Finding(
                        detector=self.name,
                        pattern="nothing found",
                        count=count + 1,
                        calls=calls,
                        keys=(f"tool:{pair.tool}",),
                        subject=pair.tool,
                        tool=pair.tool,
                        onset=onset,
                        known=pair.content[:400],
                    )
                )
        while len(streaks) > REMEMBERED:
            streaks.pop(next(iter(streaks)))
        return found
