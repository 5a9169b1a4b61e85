"""What a result says, roughly: that something was done, that nothing was there, that something is wrong."""

from __future__ import annotations

import re
from functools import lru_cache

from .volatile import plain

TELLING = 160
"""Characters from which on an equal result says by itself that nothing new was asked: it is no acknowledgement."""
LONGEST = 90
"""Characters up to which a result may be an acknowledgement."""
LONG = 300
"""The same for one that says so in as many words."""
FEW_WORDS = 8
"""Words up to which a result may be an acknowledgement."""
END = 1500
"""Characters at the end of a result in which it says how things are."""
BARE = 12
"""Characters of words up to which a result holds hardly more than ids and numbers."""
_DONE = " ok okay done true success successful successfully sent written built set made complete insert update delete "
_PICTURES = frozenset(("image", "img", "screenshot", "picture", "photo", "binary"))
_WELL_DONE = re.compile(
    r"\b(?:has|have|was|were) (?:been )?(?:successfully )?\w+ed\b[^.]* successfully|\bsuccessfully \w+ed\b"
    r"|\b(?:has|have) been \w+ed successfully\b|\bcreated successfully\b"
)
_OK = re.compile(
    r"[\"'](?:ok|success|succeeded|sent|saved|created|updated|deleted|accepted)[\"']: ?true\b"
    r"|[\"'](?:status|state|result)[\"']: ?[\"'](?:ok|success|sent|saved|created|updated|deleted|accepted|done)[\"']"
)
_FRUITLESS = re.compile(
    r"\bno\b|not\b|nothing|\bnone\b|\bnull\b|(?<![\d.])0 |error|fail|denied|invalid|missing|unable|cannot|can't|unknown"
    r"|empty|declined|refused"
)
"""What a short result says that brought nothing."""
_NEGATIVE = re.compile(r"not found|\b40[0-9]\b|no such|error|invalid|incorrect|wrong|denied|failed|failure|forbidden")


SHORT = 200
"""Characters of a result up to which it may say that there was nothing."""
_WORD = re.compile(r"[\w./:@-]+")
_NOTHING = re.compile(
    r"no (?!issues|errors|problems|vulnerabilities|warnings)(?:\w+ ){0,3}"
    r"(?:found|results?|match(?:es)?|hits|records?|rows?|data|items|entries|documents?)\b"
    r"|not(?:hing)? found|nothing|could not find"
    r"|\b0 (?:results?|match(?:es)?|hits|rows?|records?|items|files|documents?)"
    r"|^[\[\]{}()\"'\s]*(?:null|none|empty)?[\[\]{}()\"'\s]*$"
    r"|\b(?:results|items|hits|matches|data|rows|documents|total|count)[\"']?\s*:\s*(?:\[\s*\]|null|0\b)"
)


_FINE = re.compile(
    r"\b0 (?:failed|failures?|errors?)|no (?:\w+ )?(?:errors?|issues|problems)|\bpassed\b"
    r"|working tree clean|up to date"
)
_FAILED = re.compile(r"\b[1-9]\d* (?:failed|failures?|errors?)")
_GONE = re.compile(r"no longer|unavailable|expired|has been moved|\bgone\b|closed")
_BROKEN = re.compile(
    r"error|exception|traceback|[1-9]\d* fail|fail(?:ed|ure)|denied|not found|no such|overtemp|mismatch"
)


def is_telling(content: str) -> bool:
    """Whether a result says so much that getting it once more is no news, whatever was asked. Where it says that
    nothing was there, other things may have been looked for."""
    if len(content) <= LONG and _WELL_DONE.search(content.lower()) is not None:
        return False
    return len(content) >= TELLING and not _is_negative(content[:2000])


@lru_cache(maxsize=16)
def _is_negative(content: str) -> bool:
    return _NEGATIVE.search(content.lower()) is not None


def is_fruitless(content: str) -> bool:
    """Whether a text says that something brought nothing."""
    return _FRUITLESS.search(content.lower()) is not None


def is_in_vain(content: str) -> bool:
    """Whether a short result says that nothing was done: what was to be changed was not there, or could not be."""
    if len(content) > LONG:
        return False
    return _IN_VAIN.search(content.lower()) is not None and not is_fine(content)


_IN_VAIN = re.compile(
    r"not found|no match|no (?:changes?|replacements?) |no such|could not"
    r"|(?:not|n't) (?:appear|exist|replaced|applied|changed|match)|cannot|can't|unable|failed"
    r"|denied|already exists|^\W*error"
)


def is_fine(content: str) -> bool:
    """Whether a result says that all is well."""
    return _is_fine(content[-END:].lower())


def _is_fine(end: str) -> bool:
    return _FINE.search(end) is not None and _FAILED.search(end) is None


def is_complaint(content: str) -> bool:
    """Whether a result says that something is not as it should be."""
    end = content[-END:].lower()
    if _is_fine(end) or _is_mostly_fine(end):
        return False
    if len(content) <= LONG:
        return _FRUITLESS.search(end) is not None or _GONE.search(end) is not None
    return _BROKEN.search(end) is not None


def _is_mostly_fine(end: str) -> bool:
    """Whether far more tests passed than failed: those that fail may have done so before."""
    found = _COUNTS.search(end)
    return found is not None and int(found[2]) >= MOSTLY * int(found[1])


MOSTLY = 20
"""Times as many tests that passed as failed, from which on those that fail may be none of this task's."""
_COUNTS = re.compile(r"\b([1-9]\d{0,5}) failed\b[^\n]{0,40}?\b(\d{1,6}) passed\b")


def is_acknowledgement(content: str) -> bool:
    """Whether a result says no more than that something was done: nothing at all, "ok", "file saved", a new id."""
    return len(content) <= LONG and _acknowledges(content)


@lru_cache(maxsize=16)
def _acknowledges(content: str) -> bool:
    if is_fruitless(content):
        return False
    content = plain(content)
    if _WELL_DONE.search(content.lower()) is not None:
        return True
    if len(content) < TELLING and _OK.search(content.lower()) is not None:
        return True
    if len(content) > LONGEST:
        return False
    words = [word for found in _WORD.findall(content.lower()) if (word := found.rstrip(".:"))]
    bare = [word for word in words if not any(map(str.isdecimal, word))]
    if len(" ".join(bare)) < BARE and len(bare) < max(len(words), 1):
        return True
    if len(bare) <= 2 and any(word in _PICTURES for word in bare):
        return True
    return len(bare) <= FEW_WORDS and any(word.endswith("ed") or f" {word} " in _DONE for word in bare)


def is_nothing(content: str) -> bool:
    """Whether a result says that there is nothing. An empty text does not: it is what many orders are answered with."""
    if len(content) > 2 * SHORT:
        return False
    content = content.strip()
    return 0 < len(content) <= SHORT and _NOTHING.search(content.lower()) is not None
