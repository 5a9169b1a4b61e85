"""Whether two thoughts say nearly the same, by shingles of two words. And which words of a text stand for its goal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from ..detect.alike import stem
from ..detect.monologue import PHRASES

LOOKED_AT = 800
"""Characters of a text that are looked at."""
ALIKE = 0.5
"""Share of the shingles of two thoughts that they have in common, from which on they are near-equal. In 985 recorded
runs (508 of them successes, 224 of these with thoughts) no run had a third near-equal thought in a row, and two good
ones had a second; one word put differently in ten leaves about 0.6."""
FEWEST = 4
"""Different words below which a text is a phrase and no thought."""
STEM = 6
"""Letters of a word by which it is recognised: "configure", "configuration" and "configured" are one."""

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_]+(?:[./_:][^\\W_]+)*")
"""A word with what holds it together, as names have it; of writing without spaces each character."""
_CAPITAL = re.compile("(?<=[\\w,-] )[A-Z\u00c0-\u00de\u0391-\u03a9\u0410-\u042f]\\w+")
"""A word with a capital that does not begin a sentence."""
_PLAIN = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_PHRASES = frozenset(PHRASES.split())
_GENERAL = """
can could please find search look show get give tell make use using work task goal step answer question want need about
any all some there what which who how why when where also only more most very into from with without then than them they
their its are was were will would should must not the and for that this these those you your our has have had been one
two each every out over under again http https www com json txt path name value true false null none query text input
output
"""
_COMMON = _PHRASES | frozenset(_GENERAL.split())
"""Words that say little of what a task is about."""


class Thought:
    """A thought as it is compared."""

    __slots__ = ("names", "shingles", "text")

    def __init__(self, text: str) -> None:
        self.text = text = text[:LOOKED_AT]
        words = [
            stem(word) if word[-1] in "gsd" else word for word in _WORD.findall(text.lower()) if word not in _PHRASES
        ]
        self.names = frozenset([word for word in words if not word.isalpha()] + _CAPITAL.findall(text))
        """Words that name one thing: with digits in them, put together as paths and identifiers are, or capitalised."""
        few = len(frozenset(words)) < FEWEST
        self.shingles = frozenset() if few else frozenset(pairwise(words))

    def __bool__(self) -> bool:
        """Whether it says enough to be one."""
        return bool(self.shingles)

    def is_like(self, other: Thought) -> bool:
        """Near-equal, and no new thing is named in it: who goes through many things says the same of each."""
        shared = len(self.shingles & other.shingles)
        if shared < ALIKE * (len(self.shingles) + len(other.shingles) - shared):
            return False
        return self.names <= other.names


def words_of(text: str) -> Iterator[str]:
    """The words of a text that say what it is about, each by its first letters; lazily, for the first one may do."""
    for found in _PLAIN.finditer(text.lower()):
        word = found[0]
        if "\u3040" <= word[0] <= "\ud7af":
            yield from map("".join, pairwise(word))
        elif (len(word) > 2 or not word.isascii()) and word not in _COMMON:
            yield stem(word)[:STEM]
