"""One tool that keeps failing in one way, whatever its arguments; or with errors of one kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from ..messages import Finding
from ..thresholds import Thresholds
from .detector import When
from .doing import doing, only_looks
from .round import Pair, Ring, Round

REMEMBERED = 16
"""Tools that are followed at once."""
AFTER_NEWS = 0.5
"""What one call that fails once more counts if something was done by another tool: it may be a test after an edit."""
ARGUMENTS = 400
"""Characters of arguments in which a site is looked for."""
SHOWN = 120
"""Characters of a failure that messages show."""

_ABSENT = re.compile(r"\b404\b|not found|no such|not exist|refused|unreachable|no match|could not find", re.IGNORECASE)
"""What is said of the thing that was asked for, rather than of the tool."""
_SHUT = re.compile(r"\b(?:40[135]|410|451)\b|forbidden|unauthori[sz]ed", re.IGNORECASE)
"""What is said of a site, if one was asked."""
_HOST = re.compile(r"https?://([^/\s\"'?#\\]+)")
ELSEWHERE = 0.5
"""What such an error counts among errors of one kind: the next site may be open."""


class Failing:
    """Rounds in a row in which every call of a tool failed with one error: equal but for what it repeats of the
    arguments, and for volatile parts.

    "Not found" and a non-zero exit are results, not failures. A round without the tool changes nothing, and neither
    does one in which no call of it ran; a success or another error of it ends the streak. Calls that a block of ours
    refuses go on counting.
    """

    name = "failing"
    when: When = "trouble"
    __slots__ = ("_in_any_way", "_streaks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._in_any_way = thresholds.failing_in_any_way
        self._streaks: dict[str, _Streak] = {}

    @property
    def busy(self) -> bool:
        return bool(self._streaks)

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        streaks = self._streaks
        if round.novel and streaks:
            self._hear(round)
        tools: dict[str, list[Pair]] = {}
        for pair in round.pairs:
            if self.signature(pair) is not None or pair.tool in streaks:
                tools.setdefault(pair.tool, []).append(pair)
        findings = []
        for tool, pairs in tools.items():
            streak = self._follow(tool, pairs)
            if streak is not None and streak.count > 1 and streak.weight == streak.count:
                findings.append(self._finding(tool, streak))
        while len(streaks) > REMEMBERED:
            streaks.pop(next(iter(streaks)))
        return findings

    def _hear(self, round: Round) -> None:
        """Something new was done in this round: a check that still fails after a change is no mere repetition."""
        if all(pair.telling or not pair.novel for pair in round.pairs):
            return
        there = {pair.tool for pair in round.pairs}
        for tool, streak in self._streaks.items():
            streak.heard = streak.heard or tool not in there

    def signature(self, pair: Pair) -> str | None:
        """What the failure of a call is known by; None for one that did not fail."""
        if pair.signature is None:
            return None
        # That one of many things is not there says nothing of the tool: such failures are alike by their call.
        place = pair.key if _ABSENT.search(pair.signature) is not None else _site(pair)
        return f"{pair.signature} {pair.family}{place}"

    def shown(self, pair: Pair) -> str:
        """A failure as messages name it."""
        return (pair.signature or "")[:SHOWN]

    def _follow(self, tool: str, pairs: list[Pair]) -> _Streak | None:
        """The streak of the tool after this round, if the round was one more of it."""
        streak = self._streaks.pop(tool, None)
        ran = [pair for pair in pairs if pair.ran]
        if not ran:
            if streak is None:
                return None
            self._streaks[tool] = streak
            if not any(pair.refused for pair in pairs):
                return None
        else:
            signatures = {self.signature(pair) for pair in ran}
            if None in signatures or (len(signatures) > 1 and not self._in_any_way):
                return None
            signature = "any" if self._in_any_way else self.signature(ran[0])
            if streak is None or streak.signature != signature or self.is_news(ran):
                streak = _Streak(signature, pairs[0].n)
            self._streaks[tool] = streak
            streak.shown, streak.known = self.shown(ran[0]), ran[0].content[:400]
        streak.weight += AFTER_NEWS if streak.heard and len(streak.keys) == 1 else self.weight(pairs[0])
        streak.heard = False
        streak.note(pairs[0])
        streak.keys = tuple(dict.fromkeys((*streak.keys, *(pair.key for pair in pairs[1:]))))
        return streak

    def weight(self, pair: Pair) -> float:
        """What one more round counts."""
        return 1

    def is_news(self, ran: list[Pair]) -> bool:
        """Whether something has moved, though the error is the same."""
        return False

    def _finding(self, tool: str, streak: _Streak) -> Finding:
        return Finding(
            detector=self.name,
            pattern=f"failing: {streak.shown}",
            count=streak.count,
            calls=streak.calls,
            # One call that fails is blocked by its key; a tool that fails whatever it gets, by its name.
            keys=(f"tool:{tool}",) if len(streak.keys) > 1 else streak.keys,
            subject=tool,
            tool=tool,
            onset=streak.onset,
            known=streak.known,
        )


def _site(pair: Pair) -> str:
    """The site that a failure says something of, rather than of the tool."""
    if pair.signature is None or _SHUT.search(pair.signature) is None:
        return ""
    return " ".join(_HOST.findall(pair.arguments[:ARGUMENTS]))


class _Streak:
    __slots__ = ("calls", "count", "heard", "keys", "known", "onset", "shown", "signature", "weight")

    def __init__(self, signature: str | None, onset: int) -> None:
        self.signature = signature
        self.onset = onset
        self.count = 0
        self.weight = 0.0
        self.heard = False
        """Whether another tool was told to do something new since the last time."""
        self.calls: tuple[str, ...] = ()
        self.keys: tuple[str, ...] = ()
        self.shown = ""
        self.known = ""

    def note(self, pair: Pair, shown: str = "") -> None:
        """One more call of it, which is weighed already."""
        self.count = int(self.weight)
        self.calls = (*self.calls[-7:], pair.call_id)
        self.keys = tuple(dict.fromkeys((*self.keys[-7:], pair.key)))
        if shown:
            self.shown, self.known = shown, pair.content[:400]


class Erring(Failing):
    """As :class:`Failing`, for errors of one kind: words with digits, names and what is quoted may differ.

    The bar is higher, and what is new from another tool ends the streak: an error of the same kind in another place,
    after a change, may be the next of many that are mended one by one. So does an equal call that fails otherwise.
    """

    name = "erring"
    __slots__ = ("_doings",)

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        super().__init__(thresholds, polls)
        self._doings: dict[tuple[str, str], _Streak] = {}
        """By tool, and by what it was told to do."""

    @property
    def busy(self) -> bool:
        return bool(self._streaks or self._doings)

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        found = [*super().round(round, ring)]
        if not round.wide:
            found += self._persist(round)
        return found

    def _persist(self, round: Round) -> Iterator[Finding]:
        """A tool that does many things may do others in between: what counts is that one of them fails, and that
        nothing was done by which it might fail no longer."""
        failed: dict[tuple[str, str], Pair] = {}
        for pair in round.pairs:
            if not pair.ran:
                continue
            if self.signature(pair) is None:
                if self._doings:
                    self._doings.pop((pair.tool, doing(pair.tool, pair.arguments) or ""), None)
                    if pair.novel and not only_looks(pair.tool, pair.arguments):
                        self._doings.clear()
            elif (done := doing(pair.tool, pair.arguments)) is not None:
                failed.setdefault((pair.tool, done), pair)
        for (tool, done), pair in failed.items():
            streak = self._doings.pop((tool, done), None)
            signature = self.signature(pair)
            if streak is None or streak.signature != signature or self.is_news([pair]):
                streak = _Streak(signature, pair.n)
            self._doings[tool, done] = streak
            streak.weight += self.weight(pair)
            streak.note(pair, self.shown(pair))
            alone = self._streaks.get(tool)
            if streak.count > 1 and streak.weight == streak.count and (alone is None or alone.count < streak.count):
                finding = self._finding(tool, streak)
                # The tool may be of use for something else.
                yield msgspec.structs.replace(finding, keys=streak.keys, subject=f"{tool} {done}")
        while len(self._doings) > REMEMBERED:
            self._doings.pop(next(iter(self._doings)))

    def _hear(self, round: Round) -> None:
        if all(self.signature(pair) is not None for pair in round.pairs):
            return  # another tool that fails, or complains, as this one does is no news
        for tool in self._streaks.keys() - {pair.tool for pair in round.pairs}:
            del self._streaks[tool]

    def signature(self, pair: Pair) -> str | None:
        return pair.signature

    def weight(self, pair: Pair) -> float:
        return ELSEWHERE if pair.ran and _site(pair) else 1

    def is_news(self, ran: list[Pair]) -> bool:
        # Where the arguments differ, if only in what varies, another text of the error may be no more than their echo.
        return any(pair.moved and not pair.like for pair in ran)
