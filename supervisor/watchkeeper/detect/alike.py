"""Whether two calls mean the same though they are put differently: paraphrases, and slices of one thing."""

from __future__ import annotations

import re

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
    kept = [part for part in parts if not _BESIDE.match(part)] or parts
    return [
        ARGUMENTS.forms.sub("#", part) if any(map(str.isdecimal, part)) else _SIGNS.sub(" ", part.lower())
        for part in kept
    ]


_BESIDE = re.compile(
    r"(?:\w+\.)*(?:limit|max_?(?:results|lines|tokens|bytes|items|rows)|page_?size|per_?page|num_?results|top_?[kn]|timeout)"
    r"(?:_?(?:ms|s|sec|seconds))?: |[\w.]+: /tmp/\S+$",
    re.IGNORECASE,
)
_SIGNS = re.compile(r"[\s_-]+")


def _is_thing(word: str) -> bool:
    """Whether a word names one thing and is no mere number."""
    return is_name(word) and any(map(str.isalpha, word))


def words_of(parts: list[str]) -> set[str]:
    """The words of values that say something, each without its ending."""
    text = " ".join(part.partition(": ")[2] or part for part in parts)
    found = (word.strip("./:@-") for word in _WORD.findall(text))
    return {
        word if is_name(word) else stem(word.lower()) for word in found if f" {word.lower()} " not in _STOP and word
    }


def stem(word: str) -> str:
    """A word without its ending, roughly."""
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def is_name(word: str) -> bool:
    return (
        any(map(str.isdecimal, word))
        or any(mark in word for mark in "/@._")
        or not (word.islower() or word[1:].islower())
    )
