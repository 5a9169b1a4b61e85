"""Whether two calls mean the same though they are put differently: paraphrases, and slices of one thing."""

from __future__ import annotations

import re

TELLING = 160
"""Characters from which on an equal result says by itself that nothing new was asked: it is no acknowledgement."""
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
LONGEST = 90
LONG = 300
"""The same for one that says so in as many words."""
FEW_WORDS = 8
"""Words up to which a result may be an acknowledgement."""
BARE = 12
"""Characters of words up to which a result holds hardly more than ids and numbers."""
_DONE = " ok okay done true success successful successfully sent written built set made complete insert update delete "
_WELL_DONE = re.compile(
    r"\b(?:has|have|was|were) (?:been )?(?:successfully )?\w+ed\b[^.]* successfully|\bsuccessfully \w+ed\b"
    r"|\b(?:has|have) been \w+ed successfully\b|\bcreated successfully\b"
)
_FRUITLESS = re.compile(
    r"\bno\b|not\b|nothing|\bnone\b|\bnull\b|\b0 |error|fail|denied|invalid|missing|unable|cannot|can't|unknown|empty"
    r"|declined|refused"
)
"""What a short result says that brought nothing."""
_NEGATIVE = re.compile(r"not found|\b40[0-9]\b|no such|error|invalid|incorrect|wrong|denied|failed|failure|forbidden")


def alike(one: list[str], other: list[str], content: str) -> bool:
    """Whether two calls of a tool, given as parts of their arguments, differ in words only and have most of them in
    common.

    Ids, numbers, paths and identifiers name things: "set item 17 to done" and "set item 18 to done" are not alike,
    unless hardly anything else differs and the result is more than an acknowledgement.
    """
    left, right = words_of([part for part in one if part not in other]), words_of([p for p in other if p not in one])
    if not left or not right:
        return not left and not right
    if not (any(map(is_name, left - right)) and any(map(is_name, right - left))):
        return len(left & right) >= SHARE * min(len(left), len(right))
    whole, more = words_of(one), words_of(other)
    common = len(whole & more)
    return not is_acknowledgement(content) and common >= 4 and common >= MOSTLY * max(len(whole), len(more))


def is_telling(content: str) -> bool:
    """Whether a result says so much that getting it once more is no news, whatever was asked. Where it says that
    nothing was there, other things may have been looked for."""
    return len(content) >= TELLING and _NEGATIVE.search(content[:2000].lower()) is None


def is_fruitless(content: str) -> bool:
    """Whether a text says that something brought nothing."""
    return _FRUITLESS.search(content.lower()) is not None


def is_acknowledgement(content: str) -> bool:
    """Whether a result says no more than that something was done: nothing at all, "ok", "file saved", a new id."""
    if len(content) > LONG or is_fruitless(content):
        return False
    if _WELL_DONE.search(content.lower()) is not None:
        return True
    if len(content) > LONGEST:
        return False
    words = [word.rstrip(".:") for word in _WORD.findall(content.lower())]
    plain = [word for word in words if not any(map(str.isdecimal, word))]
    if len(" ".join(plain)) < BARE and len(plain) < max(len(words), 1):
        return True
    return len(plain) <= FEW_WORDS and any(word.endswith("ed") or f" {word} " in _DONE for word in plain)


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
