"""Saying the same again: replies without calls in a row, and equal thoughts before calls that differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from string import digits, whitespace
from typing import Any

from ..messages import Event, Finding, ModelReplied
from ..thresholds import Thresholds
from .alike import stem
from .detector import When
from .round import Ring, Round

LONG = 100
"""Characters from which a text before calls is a thought; shorter ones ("Let me look at the next one.") are phrases."""
WORDS = 8
"""Different words that make a thought; fewer are filling."""
LOOKED_AT = 600
"""Characters of a text that are compared."""
KNOWN = 1000
"""Words that are remembered of like thoughts."""
ALIKE = 0.8
"""Shared part of the words of both texts (case, numbers and order aside) from which they are near-equal. In recorded
runs thoughts that follow each other share under 0.7 or are equal; there is next to nothing between."""

_WORDS = re.compile(r"\w+")
_BLANKS = bytes([code if chr(code).isalnum() or chr(code) == "_" else 32 for code in range(256)])
"""The same for ASCII: what is no part of a word is a blank."""
PHRASES = (
    " the a an to of and so now next then ok okay right well let me i ll will am m going gonna need want have should"
    " must would can could first again please just us we you your my this that it is be for in on with at as last but"
    " not"
    " s ve d t here now proceed start begin starting go ahead try "
)
"""Words of announcements, each between spaces."""
_NUMBERS = re.compile(r"\d+")


def words_of(text: str) -> frozenset[int]:
    """The words of a text, as hashes: numbers are all alike."""
    return frozenset(filter(None, map(_word, set(_split(text[:LOOKED_AT].casefold())))))


def _split(text: str) -> list[str]:
    if text.isascii():  # which takes half as long
        return text.encode().translate(_BLANKS).decode().split()
    return _WORDS.findall(text)


@lru_cache(maxsize=2048)
def _word(found: str) -> int | None:
    """The hash of a word; None if it is one of announcements."""
    word = _NUMBERS.sub("0", found)
    return None if f" {word} " in PHRASES else hash(stem(word))


def alike(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether two texts say nearly the same. Two without any word do."""
    shared = len(one & other)
    return shared >= ALIKE * (len(one) + len(other) - shared)


def _length(text: str) -> int:
    """The characters of a text with single blanks."""
    return len(" ".join(text.split()))


def _first_number(text: str) -> int:
    if text.isascii() and not any(map(text.__contains__, digits)):  # far sooner than the expression
        return -1
    found = _NUMBERS.search(text)
    return int(found[0][:18]) if found is not None else -1


def _is_long(text: str) -> bool:
    """Whether a text has :data:`LONG` characters, if each run of blanks is one."""
    start = text[: 2 * LONG]
    if start.isascii() and len(start) - sum(map(start.count, whitespace)) >= LONG:
        return True
    return _length(start) >= LONG or _length(text[:LOOKED_AT]) >= LONG


class Monologue:
    """Replies without a call that say nearly the same as one of the two before.

    A call ends the streak, and so does a user who speaks. Replies that were cut off say nothing either way. Phrases
    that announce ("Let me now …", "OK, I will …") do not make a difference.
    """

    name = "monologue"
    when: When = "never"
    __slots__ = ("_count", "_onset", "_said")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._said: tuple[frozenset[int], ...] = ()
        """The last two replies: two that take turns say nothing new either."""
        self._count = 0
        self._onset = 0

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], Iterable[Finding]]]:
        return {ModelReplied: self._replied}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        return ()

    def _replied(self, event: ModelReplied) -> Iterable[Finding]:
        if event.calls:
            self._said = ()
            return ()
        if event.finish in ("chant", "length"):
            return ()
        said = words_of(event.text)
        known = any(alike(said, other) for other in self._said)
        self._said = (*self._said[-1:], said)
        if not known:
            self._count, self._onset = 1, event.n
            return ()
        self._count += 1
        return (
            Finding(
                detector=self.name,
                pattern="near-equal replies without a call",
                count=self._count,
                subject=self.name,
                onset=self._onset,
            ),
        )


class Thoughts:
    """Long texts before calls that say nearly the same as the one before, whatever the calls do. Replies with a short
    text or none say nothing either way.

    Who does the same to many files says the same of each: a thought with a word that none of the like ones before it
    had, or with a higher number, moves on and does not count.
    """

    name = "thoughts"
    when: When = "never"
    __slots__ = ("_known", "_number", "_onset", "_thought", "count")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str]) -> None:
        self._thought: frozenset[int] | None = None
        self._known: frozenset[int] = frozenset()
        """Words of the like thoughts so far."""
        self._number = -1
        self.count = 0
        self._onset = 0

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], Iterable[Finding]]]:
        return {ModelReplied: self.replied}

    def round(self, round: Round, ring: Ring) -> Iterable[Finding]:
        return ()

    def begin(self) -> None:
        """Anew: a user has spoken. (The judge makes its detectors anew then.)"""
        self._thought, self.count = None, 0

    def replied(self, event: ModelReplied) -> Iterable[Finding]:
        if not event.calls or not event.stored:
            return ()
        text = event.text if len(event.text) >= LONG else event.reasoning
        if not _is_long(text):
            return ()
        thought, number = words_of(text), _first_number(text[:LOOKED_AT])
        if len(thought) < WORDS:
            return ()
        before, self._thought = self._thought, thought
        if before is None or not alike(thought, before):
            self._known, self._number, self.count, self._onset = thought, number, 1, event.n
            return ()
        moves_on = not thought <= self._known or number > self._number
        self._number = number
        if len(self._known) < KNOWN:
            self._known |= thought
        if moves_on:
            return ()
        self.count += 1
        return (
            Finding(
                detector=self.name,
                pattern="near-equal thoughts",
                count=self.count,
                subject=self.name,
                onset=self._onset,
            ),
        )
