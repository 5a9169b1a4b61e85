"""Whether two calls mean the same though they are put differently: paraphrases, and slices of one thing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from .volatile import is_random, without_times

SENTENCE = 4
"""Words in common from which on an id that means nothing makes no difference."""
SHARE = 0.5
"""Share of words that two calls have in common, of the one that has fewer, from which on they are alike."""

_WORD = re.compile(r"[\w./:@-]+")
_SAYING_LITTLE = (
    "the a an of for in on at to and or with by from is are was be how what which where when who does do can please"
    " find search look show get me about any all some this that it its as into if there again now you your my i us we"
    " would could let like thanks once more"
)
_STOP = frozenset(_SAYING_LITTLE.split())
"""Words that say little."""
_ORDER = re.compile(
    r"(?:^|[._])(?:cmd|command|code|script|sql|keys|keystrokes|input|payload|expression|formula)\w*$", re.IGNORECASE
)
_AMOUNT = re.compile(r"\d+|\d{4}-\d\d-\d\d[T ][\d:.]+Z?")
_CODE = re.compile(r"[<>{}=;$|&\\]")
_DISPLAY = re.compile(
    r"(?:\s*(?:2>&1|2>/dev/null|\|\| true|; echo \$\?|\| (?:cat|sort|(?:head|tail)(?: -\S+)*(?: \d+)?)))+(?=[\s\"']*$)"
)
"""What a command line ends in that only changes how much is shown of its outcome."""
_IDS = re.compile(r"[A-Za-z0-9]{8,}")
_NOTE = re.compile(r"(?:\w+\.)*(?:notes?|comments?|description|remarks?): (?:\S+ ){2}", re.IGNORECASE)
_MUCH = re.compile(
    r"(?:\w+\.)*(?:limit|max_?(?:results|lines|tokens|bytes|items|rows)|page_?size|per_?page|num_?results|top_?[kn]|timeout)"
    r"(?:_?(?:ms|s|sec|seconds))?",
    re.IGNORECASE,
)
"""How much is wanted, and how long it is waited for."""
_WHERE_TO = re.compile(r"(?:\w+\.)*(?:out|output|save|dest|log|report|work|tmp|temp)\w*: /tmp/\S+$", re.IGNORECASE)
"""Where the outcome is put for the time being."""
_FOR_NOW = re.compile(r"[\w.]+: /tmp/\S+$")
"""A place for the time being, beside what is asked."""
_NAMES = re.compile(r"[\d/@._]")
_QUOTES = "\"'`;"
_AROUND = re.compile(r"\s(?:\s*(?=[^\w\s])|(?<=[^\w\s]\s)\s*)")
"""Blanks beside a sign."""
_DIGIT = re.compile(r"\d")


def alike(one: list[str], other: list[str], telling: bool) -> bool:
    """Whether two calls of a tool, given as parts of their arguments, ask the same in other words.

    Ids, paths and identifiers name things: "set item A17 to done" and "set item A18 to done" are not alike, and neither
    are two that differ in one word. ``telling``: both had one result that says much; then numbers may differ, as in
    slices of a text, and so may all words of what is asked in sentences. A command, code or a single word is the next
    of many things to try, whatever it brings.
    """
    mine, theirs = (
        [undisplayed(part) for part in one if part not in other],
        [undisplayed(part) for part in other if part not in one],
    )
    left, right = words_of(mine), words_of(theirs)
    if not left or not right:
        return not left and not right
    if telling and all(map(_is_amount, mine)) and all(map(_is_amount, theirs)):
        return True
    ours, others = left - right, right - left
    if any(map(_is_order, mine)) and any(map(_is_meant, ours)) and any(map(_is_meant, others)):
        return False
    if not things_of(mine) <= right and not things_of(theirs) <= left:
        return all(map(is_random, ours | others)) and len(words_of(one) & words_of(other)) >= SENTENCE
    free = telling and all(map(_is_free, mine)) and all(map(_is_free, theirs))
    if free or (any(map(is_name, ours)) and any(map(is_name, others))):
        return free
    if len(ours) == len(others) == 1 and len(left) > 2:  # one word for another: the next of many things
        return False
    return len(left & right) >= SHARE * min(len(left), len(right))


def _is_meant(word: str) -> bool:
    """Whether a word of an order makes it another one: it is no number, no flag, no file for the time being."""
    return len(word) > 2 and _has_letter(word) and not word.startswith("tmp/")


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def _is_order(part: str) -> bool:
    """Whether a part is a command line or code: with another word in it it is another one."""
    return _names_order(part.partition(": ")[0])


@lru_cache(maxsize=128)
def _names_order(name: str) -> bool:
    return _ORDER.search(name) is not None


def _is_amount(part: str) -> bool:
    """Whether a part is a number or a time."""
    return _AMOUNT.fullmatch(part.partition(": ")[2]) is not None


def _is_free(part: str) -> bool:
    """Whether a part is a number or a sentence: neither names a thing."""
    name, _, value = part.partition(": ")
    if value.isdecimal():
        return True
    return " " in value and not _names_order(name) and _CODE.search(value) is None


def asked(parts: list[str]) -> list[str]:
    """What a call asks: its parts without those that say how much is wanted or where it is put for the time being,
    without the time of asking, and the words in one case and without signs."""
    kept = [one for one in map(_asks, parts) if one is not None]
    return kept or [part for part in parts if not _is_much(part) and not _WHERE_TO.match(part)]


@lru_cache(maxsize=128)
def undisplayed(part: str) -> str:
    """A part without what only changes how much is shown of the outcome."""
    return _DISPLAY.sub("", part) if _is_order(part) else part


def bare(parts: list[str]) -> list[str]:
    """What a call asks, without remarks beside it for a person to read, and without ids that mean nothing."""
    kept = [part for part in parts if not _NOTE.match(part)] or parts
    return [_IDS.sub(_masked_id, part) for part in asked(kept)]


def _masked_id(found: re.Match[str]) -> str:
    return "#" if is_random(found[0]) else found[0]


@lru_cache(maxsize=128)
def _asks(part: str) -> str | None:
    """What one part asks; None if it is beside the point."""
    if _is_much(part) or _FOR_NOW.match(part):
        return None
    part = undisplayed(part)
    if _DIGIT.search(part) is not None:
        bare = without_times(part)
    else:
        bare = " ".join(part.lower().replace("_", " ").replace("-", " ").split())
    for sign in _QUOTES:
        bare = bare.replace(sign, "")
    return _AROUND.sub("", bare).strip()


def _is_much(part: str) -> bool:
    """Whether a part only says how much is wanted."""
    name, given, _ = part.partition(": ")
    return bool(given) and _names_amount(name)


@lru_cache(maxsize=128)
def _names_amount(name: str) -> bool:
    return _MUCH.fullmatch(name) is not None


def words_of(parts: Iterable[str]) -> frozenset[str]:
    """The words of values that say something, each without its ending."""
    return frozenset().union(*map(_words, parts))


def things_of(parts: Iterable[str]) -> frozenset[str]:
    """Those of these words that name one thing and are no mere numbers."""
    return frozenset().union(*map(_things, parts))


@lru_cache(maxsize=128)
def _things(part: str) -> frozenset[str]:
    return frozenset(filter(_is_thing, _words(part)))


@lru_cache(maxsize=512)
def _is_thing(word: str) -> bool:
    return is_name(word) and _has_letter(word)


@lru_cache(maxsize=128)
def _words(part: str) -> frozenset[str]:
    return frozenset(filter(None, map(_word, _WORD.findall(part.partition(": ")[2] or part))))


@lru_cache(maxsize=512)
def _word(found: str) -> str:
    """A word as it is compared; empty if it says little."""
    word = found.strip("./:@-")
    if word.lower() in _STOP:
        return ""
    return word if is_name(word) else stem(word.lower())


def stem(word: str) -> str:
    """A word without its ending, roughly."""
    if word[-1:] not in "gsd":
        return word
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=256)
def is_name(word: str) -> bool:
    """Whether a word names one thing: it has digits, signs or capitals in it."""
    if word.isalpha():
        return not word[1:].islower() and not word.islower()
    return _NAMES.search(word) is not None or not (word.islower() or word[1:].islower())
