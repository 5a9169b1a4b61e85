"""One tool whose results end in one and the same complaint, though they count as results and not as failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from ..messages import Finding
from ..thresholds import Thresholds
from .detector import When
from .failing import SHOWN, Erring
from .round import Pair, Ring, Round
from .volatile import RESULTS, in_ones

EDGE = 1200
"""Characters at the end of a result in which a complaint is looked for."""
LINE = 400

_RAISED = re.compile(r"\s*(?:[-*>] )?(?:[A-Z]+\d+:? )?[\w.]*(?:Error|Exception|Panic)\b").match
_REPORTED = re.compile(r"\b(?:[Ee]rror|ERROR|fatal|FATAL|panic)(?:\[\w+\])?:").search
_SAID = re.compile(r"\b(?:[Ii]nvalid|[Aa]ccess denied|[Uu]nable to|[Ff]ailed to|[Cc]annot|[Cc]ould not)\b").search
_DENIED = re.compile(r"\"(?:ok|success)\": ?false").search
Tells = Callable[[str], object]
_PIECES: tuple[tuple[str, dict[str, Tells]], ...] = (
    (
        "rror",
        {
            "Error": _RAISED,
            "rror:": _REPORTED,
            "rror[": _REPORTED,
            '"error': re.compile(r"\"error\": ?[\"{]").search,
        },
    ),
    ("E", {"ERROR": _REPORTED, "Exception": _RAISED}),
    ("anic", {"Panic": _RAISED, "anic:": _REPORTED, "anic[": _REPORTED}),
    ("atal", {"atal:": _REPORTED, "atal[": _REPORTED}),
    ("F", {"FATAL": _REPORTED}),
    ("N", {"No such file": re.compile("No such file or directory").search}),
    ("T", {"Too Many Requests": bool}),
    ("x", {"uota exceeded": re.compile(r"[Qq]uota exceeded").search}),
    ("z", {"not recognized as": bool}),
    (
        '"',
        {
            '": false': _DENIED,
            '":false': _DENIED,
            '"status"': re.compile(r"\"status\": ?(?:\"(?:error|failed)\"|[45]\d\d\b)").search,
        },
    ),
    ("curl", {"curl: (": re.compile(r"curl: \(\d+\)").match}),
    ("H", {"HTTP": re.compile(r"\bHTTP/[\d.]+ [45]\d\d\b|^HTTP [45]\d\d [A-Z{]").search}),
    ("not", {"annot": _SAID, "ould not": _SAID, "command not found": bool}),
    ("denied", {"ccess denied": _SAID, "ermission denied": re.compile("Permission denied").search}),
    ("nvalid", {"nvalid": _SAID}),
    ("nable to", {"nable to": _SAID}),
    ("ailed to", {"ailed to": _SAID}),
    ("ate limit", {"ate limit": re.compile(r"[Rr]ate limit").search}),
)
"""Pieces of complaints, without digits, each with what tells whether a line that has it is one, behind something that
they have in common. One expression for all of them takes ten times as long; a single character is found, or is not, far
sooner than a word."""
_NUMBER = "429"
_LIMITED = re.compile(r"\b429\b")
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
    __slots__ = ("_clean", "_last", "_said")
    _said: dict[str, str]
    """What the results of this round complain of."""

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        super().__init__(thresholds, polls)
        self._last: tuple[int, str | None] = (0, None)
        """The last end of a result, as a hash, and what it complains of."""
        self._clean = 0
        """The last one without a piece of any complaint, but for its last line: as a hash, whatever its digits are."""

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        if round.wide:
            return ()
        self._said = {pair.call_id: said for pair in round.pairs if (said := self._complaint(pair)) is not None}
        if not self._said and not self.busy:
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
            said = self._complaint_in(end)
            self._last = hash(end), said
        return said

    def _complaint_in(self, end: str) -> str | None:
        body, _, last = end.rpartition("\n")
        bare = hash(in_ones(body))
        pieces = _pieces_in(last if bare == self._clean else end)
        if not pieces:
            self._clean = bare
        if not pieces and _NUMBER not in end and _STATUS.match(end) is None:
            return None
        return _complaint_in(end, pieces)


def _pieces_in(text: str) -> dict[str, Tells]:
    return {
        piece: tells for part, pieces in _PIECES if part in text for piece, tells in pieces.items() if piece in text
    }


def _complaint_in(end: str, pieces: Mapping[str, Tells]) -> str | None:
    lines = (line[:LINE] for line in reversed(end.split("\n")))
    found = next((line for line in lines if _complains(line, pieces)), None)
    if found is None:
        return None
    busy = _BUSY.search(found)
    # With its names and numbers: another one is another thing to mend.
    return busy[0] if busy is not None else " ".join(_TIME.sub("#", RESULTS.forms.sub("#", found)).split())


def _complains(line: str, pieces: Mapping[str, Tells]) -> bool:
    if _STATUS.match(line) is not None or (_NUMBER in line and _LIMITED.search(line) is not None):
        return True
    return any([tells(line) for piece, tells in pieces.items() if piece in line])
