"""One tool that finds nothing, again and again, wherever it looks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
from .round import Pair, Ring, Round

REMEMBERED = 6
"""Tools that are followed at once."""
SHORT = 200
"""Characters of a result up to which it may say that there was nothing."""

_NOTHING = re.compile(
    r"no (?:\w+ ){0,3}(?:found|results?|match(?:es)?|hits|records?|rows?|data|items|entries|documents?)\b"
    r"|not(?:hing)? found|nothing|could not find"
    r"|(?:^|\b)0 (?:results?|match(?:es)?|hits|rows?|records?|items|files|documents?)"
    r"|^[\[\]{}()\"'\s]*(?:null|none|empty)?[\[\]{}()\"'\s]*$"
    r"|\b(?:results|items|hits|matches|data|rows|documents|total|count)[\"']?\s*:\s*(?:\[\s*\]|null|0\b)"
)


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
            if pair.signature is None and pair.ran and (not is_nothing(pair) or pair.poll):
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


def is_nothing(pair: Pair) -> bool:
    """Whether a result says that there is nothing. An empty text does not: it is what many orders are answered with."""
    content = pair.content.strip()
    return 0 < len(content) <= SHORT and _NOTHING.search(content.lower()) is not None
