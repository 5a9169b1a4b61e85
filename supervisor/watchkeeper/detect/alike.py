"""Whether two calls mean the same though they are put differently: paraphrases, and slices of one thing."""

from __future__ import annotations

import re
from functools import lru_cache

from .volatile import ARGUMENTS

MOSTLY = 0.8
"""Share of words in common from which on an id that differs makes no difference."""
SHARE = 0.5
"""Share of words that two calls have in common, of the one that has fewer, from which on they are alike."""

_WORD = re.compile(r"[\w./:@-]+")
_STOP = (
    " the a an of for in on at to and or with by from is are was be how what which where when who does do can please"
    " find search look show get me about any all some this that it its as into if there again now you your my i us we"
    " would could let like thanks once more "
)
"""Words that say little, each between spaces."""


def alike(one: list[str], other: list[str], telling: bool) -> bool:
    """Whether two calls of a tool, given as parts of their arguments, ask the same in other words.

    Ids, paths and identifiers name things: "set item A17 to done" and "set item A18 to done" are not alike, and neither
    are two that differ in one word. ``telling``: both had one result that says much; then numbers may differ, as in
    slices of a text, and so may all words.
    """
    left, right = words_of([part for part in one if part not in other]), words_of([p for p in other if p not in one])
    if not left or not right:
        return not left and not right
    mine, theirs = left - right, right - left
    if telling and not (any(map(_is_thing, mine)) and any(map(_is_thing, theirs))):
        return True
    if not (any(map(is_name, mine)) and any(map(is_name, theirs))):
        if len(mine) == len(theirs) == 1 and len(left) > 2:  # one word for another: the next of many things
            return False
        return len(left & right) >= SHARE * min(len(left), len(right))
    whole, more = words_of(one), words_of(other)
    common = len(whole & more)
    return common >= 4 and common >= MOSTLY * max(len(whole), len(more))


def asked(parts: list[str]) -> list[str]:
    """What a call asks: its parts without those that say how much is wanted or where it is put for the time being,
    without the time of asking, and the words in one case and without signs."""
    kept = [one for one in map(_asks, parts) if one is not None]
    return kept or parts


@lru_cache(maxsize=64)
def _asks(part: str) -> str | None:
    """What one part asks; None if it is beside the point."""
    if _BESIDE.match(part):
        return None
    bare = ARGUMENTS.forms.sub("#", part) if any(map(str.isdecimal, part)) else _SIGNS.sub(" ", part.lower())
    return _AROUND.sub(r"\1", _QUOTES.sub("", bare)).strip()


_BESIDE = re.compile(
    r"(?:\w+\.)*(?:limit|max_?(?:results|lines|tokens|bytes|items|rows)|page_?size|per_?page|num_?results|top_?[kn]|timeout)"
    r"(?:_?(?:ms|s|sec|seconds))?: |[\w.]+: /tmp/\S+$",
    re.IGNORECASE,
)
_NAMES = re.compile(r"[\d/@._]")
_QUOTES = re.compile(r"[\"'`;]")
_AROUND = re.compile(r"\s*([^\w\s])\s*")
_SIGNS = re.compile(r"[\s_-]+")


def _is_thing(word: str) -> bool:
    """Whether a word names one thing and is no mere number."""
    return is_name(word) and any(map(str.isalpha, word))


def words_of(parts: list[str]) -> set[str]:
    """The words of values that say something, each without its ending."""
    return set[str]().union(*map(_words, parts))


@lru_cache(maxsize=64)
def _words(part: str) -> frozenset[str]:
    found = (word.strip("./:@-") for word in _WORD.findall(part.partition(": ")[2] or part))
    return frozenset(
        [word if is_name(word) else stem(word.lower()) for word in found if f" {word.lower()} " not in _STOP and word]
    )


def stem(word: str) -> str:
    """A word without its ending, roughly."""
    if word[-1:] not in "gsd":
        return word
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def is_name(word: str) -> bool:
    """Whether a word names one thing: it has digits, signs or capitals in it."""
    if word.isalpha():
        return not word[1:].islower() and not word.islower()
    return _NAMES.search(word) is not None or not (word.islower() or word[1:].islower())
