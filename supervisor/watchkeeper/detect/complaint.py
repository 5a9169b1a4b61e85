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

_SIGNS = (
    *("Error", "Exception", "Panic", "rror:", "rror[", "ERROR:", "ERROR[", "atal:", "ATAL:", "anic:", "atal[", "ATAL["),
    *("anic[", "command not found", "No such file", "ermission denied", "not recognized as"),
    *("curl: (", "429", "ate limit", "Too Many Requests", "uota exceeded", '": false', '":false'),
)
"""What each complaint has one of."""


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
    if not (
        "rror" in end or "xception" in end or "not " in end or "No such" in end or "denied" in end or "atal" in end
        or "anic" in end or "ERROR" in end or "FATAL" in end or "curl" in end or "429" in end or "limit" in end
        or "Too M" in end or "uota" in end or "false" in end
    ) or not any([word in end for word in _SIGNS]):  # fmt: skip
        return None
    lines = (line for line in reversed(end.split("\n")) if _COMPLAINT.search(line[:LINE]))
    found = next(lines, None)
    if found is not None and (busy := _BUSY.search(found[:LINE])) is not None:
        return busy[0]
    # With its names and numbers: another one is another thing to mend.
    return None if found is None else " ".join(_TIME.sub("#", RESULTS.forms.sub("#", found[:LINE])).split())
