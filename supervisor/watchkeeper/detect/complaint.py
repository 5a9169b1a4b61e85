"""One tool whose results end in one and the same complaint, though they count as results and not as failures."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..messages import Finding
from .detector import When
from .failing import SHOWN, Erring
from .round import Pair, Ring, Round
from .volatile import RESULTS

EDGE = 1200
"""Characters at the end of a result in which a complaint is looked for."""
LINE = 400

_COMPLAINT = re.compile(
    r"^\s*(?:[-*>] )?(?:[A-Z]+\d+:? )?[\w.]*(?:Error|Exception|Panic)\b"
    r"|\b(?:[Ee]rror|ERROR|fatal|FATAL|panic)(?:\[\w+\])?:|command not found"
    r"|No such file or directory|Permission denied|not recognized as|^curl: \(\d+\)|\b429\b|[Rr]ate limit"
    r"|Too Many Requests|[Qq]uota exceeded|\"(?:ok|success)\": ?false"
)
_TIME = re.compile(r"\d+(?:\.\d+)?(?= (?:ms|s|secs?|seconds?|minutes?)\b)")
_BUSY = re.compile(r"\b429\b|[Rr]ate limit|Too Many Requests|[Qq]uota exceeded")
"""What is said of the caller, whatever was asked for."""

_SIGNS = {
    "rror": ("Error", "rror:", "rror["),
    "xception": ("Exception",),
    "ot ": ("command not found", "not recognized as"),
    "anic": ("Panic", "anic:", "anic["),
    "atal": ("atal:", "atal["),
    "ERROR": ("ERROR:", "ERROR["),
    "ATAL": ("ATAL:", "ATAL["),
    "No such file": ("No such file",),
    "ermission denied": ("ermission denied",),
    "curl: (": ("curl: (",),
    "429": ("429",),
    "ate limit": ("ate limit",),
    "Too Many": ("Too Many Requests",),
    "uota exceeded": ("uota exceeded",),
    "false": ('": false', '":false'),
}
"""What each complaint has one of, by a piece of it that few other texts have."""


class Complaint(Erring):
    """As errors of one kind: a shell command that exits with an error may be just what was to be seen, a test that
    goes on failing between edits is ordinary work."""

    name = "complaint"
    when: When = "always"
    __slots__ = ("_said",)
    _said: dict[str, str]
    """What the results of this round complain of."""

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if round.wide:
            return ()
        self._said = {pair.call_id: said for pair in round.pairs if (said := _complaint(pair)) is not None}
        if not self._said and not self._streaks:
            return ()
        return super().round(round, ring)

    def signature(self, pair: Pair) -> str | None:
        return self._said.get(pair.call_id)

    def shown(self, pair: Pair) -> str:
        return self._said.get(pair.call_id, "")[:SHOWN]


def _complaint(pair: Pair) -> str | None:
    if pair.signature is not None or not pair.ran:
        return None
    end = pair.content[-EDGE:]
    # Plain look-ups first: one expression for all of it takes twenty times as long.
    if not any([piece in end and any([sign in end for sign in signs]) for piece, signs in _SIGNS.items()]):
        return None
    lines = (line for line in reversed(end.split("\n")) if _COMPLAINT.search(line[:LINE]))
    found = next(lines, None)
    if found is not None and (busy := _BUSY.search(found[:LINE])) is not None:
        return busy[0]
    # With its names and numbers: another one is another thing to mend.
    return None if found is None else " ".join(_TIME.sub("#", RESULTS.forms.sub("#", found[:LINE])).split())
