"""One tool whose results end in one and the same complaint, though they count as results and not as failures."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..messages import Finding
from ..thresholds import Thresholds
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
    r"|\"error\": ?[\"{]|\"status\": ?(?:\"(?:error|failed)\"|[45]\d\d\b)"
    r"|\bHTTP/[\d.]+ [45]\d\d\b|^(?:HTTP )?[45]\d\d [A-Z{]"
    r"|\b(?:[Ii]nvalid|[Aa]ccess denied|[Uu]nable to|[Ff]ailed to|[Cc]annot|[Cc]ould not)\b"
)
_RATE = re.compile(r"\b429\b")
_STATUS = re.compile(r"[45]\d\d [A-Z{]")
"""How an answer by HTTP begins that some tools give."""
_TIME = re.compile(r"\d+(?:\.\d+)?(?= (?:ms|s|secs?|seconds?|minutes?)\b)")
_BUSY = re.compile(r"\b429\b|[Rr]ate limit|Too Many Requests|[Qq]uota exceeded")
"""What is said of the caller, whatever was asked for."""


class Complaint(Erring):
    """As errors of one kind: a shell command that exits with an error may be just what was to be seen, a test that
    goes on failing between edits is ordinary work."""

    name = "complaint"
    when: When = "always"
    __slots__ = ("_last", "_said")
    _said: dict[str, str]
    """What the results of this round complain of."""

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        super().__init__(thresholds, polls)
        self._last: tuple[int, str | None] = (0, None)
        """The last end of a result, as a hash, and what it complains of."""

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if round.wide:
            return ()
        self._said = {pair.call_id: said for pair in round.pairs if (said := self._complaint(pair)) is not None}
        if not self._said and not self._streaks:
            return ()
        return super().round(round, ring)

    def signature(self, pair: Pair) -> str | None:
        return self._said.get(pair.call_id)

    def shown(self, pair: Pair) -> str:
        return self._said.get(pair.call_id, "")[:SHOWN]

    def _complaint(self, pair: Pair) -> str | None:
        if pair.signature is not None or not pair.ran:
            return None
        end = pair.content[-EDGE:]
        seen, said = self._last
        if seen != hash(end):
            said = _complaint_in(end) if _may_complain(end) else None
            self._last = hash(end), said
        return said


def _may_complain(end: str) -> bool:
    """Whether a text has a piece of any complaint: one expression for all of them takes twice as long. A single
    character is found, or is not, far sooner than a word."""
    return (
        ("rror" in end and ("Error" in end or "rror:" in end or "rror[" in end))
        or ("E" in end and ("ERROR" in end or "Exception" in end))
        or ("anic" in end and ("Panic" in end or "anic:" in end or "anic[" in end))
        or ("atal" in end and ("atal:" in end or "atal[" in end))
        or ("F" in end and "FATAL" in end)
        or ("N" in end and "No such file" in end)
        or ("T" in end and "Too Many Requests" in end)
        or ("x" in end and "uota exceeded" in end)
        or ("z" in end and "not recognized as" in end)
        or ('"' in end and ('": false' in end or '":false' in end))
        or ("(" in end and "curl: (" in end)
        or ("4" in end and "429" in end and _RATE.search(end) is not None)
        or _STATUS.match(end) is not None
        or "HTTP" in end
        or '"status"' in end
        or '"error' in end
        or "nvalid" in end
        or "annot" in end
        or "nable to" in end
        or "ailed to" in end
        or "ould not" in end
        or "ccess denied" in end
        or "command not found" in end
        or "ermission denied" in end
        or "ate limit" in end
    )


def _complaint_in(end: str) -> str | None:
    lines = (line[:LINE] for line in reversed(end.split("\n")))
    found = next((line for line in lines if _may_complain(line) and _COMPLAINT.search(line)), None)
    if found is None:
        return None
    busy = _BUSY.search(found)
    # With its names and numbers: another one is another thing to mend.
    return busy[0] if busy is not None else " ".join(_TIME.sub("#", RESULTS.forms.sub("#", found)).split())
