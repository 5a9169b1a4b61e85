"""A set that remembers about the last few hundred things in four kilobytes."""

from __future__ import annotations

SIZE = 2048
"""Bytes of one of the two bit fields."""
HALF = 400
"""Things after which the older half is forgotten; one in two hundred new ones is then taken for known."""
_BITS = 8 * SIZE - 1


class Bloom:
    """Two bit fields: the younger becomes the older when it is full. What was not added is seldom taken for known."""

    __slots__ = ("_count", "_old", "_young")

    def __init__(self) -> None:
        self._young = bytearray(SIZE)
        self._old = bytearray(0)
        self._count = 0

    def add(self, thing: int) -> bool:
        """Add a hash; whether it was there already."""
        one, two = thing & _BITS, (thing >> 20) & _BITS
        at, bit, where, other = one >> 3, 1 << (one & 7), two >> 3, 1 << (two & 7)
        young, old = self._young, self._old
        if young[at] & bit and young[where] & other:
            return True
        young[at] |= bit
        young[where] |= other
        known = bool(old) and bool(old[at] & bit and old[where] & other)
        self._count += 1
        if self._count >= HALF:
            self._old, self._young, self._count = young, bytearray(SIZE), 0
        return known
