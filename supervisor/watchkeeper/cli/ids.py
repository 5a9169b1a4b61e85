"""Ids as people write them: any unique beginning of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable

SHORT = 8
"""Characters of an id that are shown, or as many more as tell it from the others that are shown."""


def shortened(ids: Iterable[str]) -> dict[str, str]:
    """Each id with its shortest beginning, of at least :data:`SHORT` characters, that no other of them has."""
    ordered = sorted(set(ids))
    found = {}
    for before, one, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        needed = max(_shared(one, before), _shared(one, after)) + 1
        found[one] = one[: max(SHORT, needed)]
    return found


def _shared(one: str, other: str) -> int:
    """How many characters at their beginnings are equal."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def meant(given: str, ids: Iterable[str]) -> list[str]:
    """The ids that may be meant: the one that is equal, else those that begin so."""
    known = list(dict.fromkeys(ids))
    return [given] if given in known else [one for one in known if one.startswith(given)]
