"""What lies between the edges of a long result: it is not kept, but hashes of it and some words are."""

from __future__ import annotations

from typing import NamedTuple

EDGE = 240
"""Characters of a result that are kept, of its beginning and of its end."""
WIDER = 1000
"""The same for a call whose results differ between those edges. Between these they must be equal but for numbers."""
BOUND = 8000
"""Characters at each end of a result that are looked at if its edges are wider."""
GIST = 3000
"""Characters of these that are compared, once what may be numbers is left out."""
SAMPLE = 240
"""Characters within each edge from which words are taken."""
WORDS = 8
"""Words that are remembered."""
LONG = 6
"""Letters of a long word, at least."""

_LETTERS = bytes([code if bytes([code]).isalpha() else 32 for code in range(256)])
"""What stays of a text if only its words are wanted."""
_NUMBERS = b"0123456789abcdefABCDEF"


class Inside(NamedTuple):
    """Hashes of what lies between the edges of one result, and some words of it."""

    length: int
    """Characters of the whole result."""
    edge: int
    middle: int
    gist: int
    """Of the whole result without digits, also hexadecimal ones; 0 unless the edges are the wider ones."""
    words: bytes
    """Some long words; none unless the edges are the narrow ones."""


NOTHING = Inside(-1, EDGE, 0, 0, b"")
"""Of a call that had no result yet."""


def inside_of(content: str, edge: int, before: Inside = NOTHING) -> Inside:
    """What is remembered of a result; the one before, if that is the same."""
    length = len(content)
    middle = hash(content[edge : max(length - edge, edge)])
    if edge != EDGE:
        return Inside(length, edge, middle, _gist(content), b"")
    if middle == before.middle and length == before.length and edge == before.edge:
        return before
    return Inside(length, edge, middle, 0, _words(content))


def is_inside_same(before: Inside, content: str, after: Inside | None = None) -> bool:
    """Whether a result has the same between its edges; ``after``: what is remembered of it, if that has been made. If
    its length is another one, what made it so is at one of them. Numbers may differ between the wider edges."""
    edge, longer = before.edge, len(content) - before.length
    inner = max(before.length - 2 * edge, 0)
    if (hash(content[edge : edge + inner]) if after is None or longer else after.middle) == before.middle:
        return True
    if longer and hash(content[edge + longer : edge + longer + inner] if edge + longer >= 0 else "") == before.middle:
        return True
    return edge != EDGE and (_gist(content) if after is None else after.gist) == before.gist


def is_mostly_same(before: Inside, after: Inside) -> bool:
    """Whether two results have most of some long words there in common, as few texts on other things do."""
    left, right = set(before.words.split()), set(after.words.split())
    return len(left & right) * 4 >= 3 * max(len(left), len(right))


def _words(content: str) -> bytes:
    if len(content) > 2 * (EDGE + SAMPLE):
        inner = f"{content[EDGE : EDGE + SAMPLE]} {content[-EDGE - SAMPLE : -EDGE]}"
    else:
        inner = content[EDGE : max(len(content) - EDGE, EDGE)]
    words = inner.encode("utf-8", "replace").translate(_LETTERS).split()
    # Those that stay the same in a text that differs a little.
    return b" ".join(sorted(set([word for word in words if len(word) >= LONG]))[:WORDS])


def _gist(content: str) -> int:
    if len(content) <= 2 * BOUND:
        return hash(_without_numbers(content))
    head, tail = _without_numbers(content[:BOUND]), _without_numbers(content[-BOUND:])
    return hash(f"{head[:GIST]}{tail[-GIST:]}")


def _without_numbers(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").translate(None, _NUMBERS).decode("utf-8", "surrogatepass")
