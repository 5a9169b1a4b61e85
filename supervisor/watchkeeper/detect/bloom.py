"""A set that remembers about the last few hundred things in a few kilobytes."""

from __future__ import annotations

from itertools import combinations

PER_THING = 22
"""Bits for each thing that one of the two bit fields holds when it is full: one in some 350 new ones is then taken for
known."""
_PAIRS = [1 << one | 1 << other for one, other in combinations(range(8), 2)]
_BITS = bytes((_PAIRS * 3)[:64])
"""Two bits of a byte, by six bits of a hash."""


class Bloom:
    """Two bit fields: the younger becomes the older when it is full. What was not added is seldom taken for known."""

    __slots__ = ("_count", "_half", "_old", "_size", "_young")

    def __init__(self, half: int) -> None:
        """``half``: things that one of them holds."""
        self._half = half
        self._size = half * PER_THING // 8 + 1
        self._young = bytearray(self._size)
        self._old = bytearray(0)
        self._count = 0

    def add(self, thing: int) -> bool:
        """Add a hash of 32 bits; whether it was there already."""
        size = self._size
        a, b = thing % size, (thing >> 11) % size
        one, two = _BITS[thing >> 24 & 63], _BITS[thing >> 18 & 63]
        young, old = self._young, self._old
        if young[a] & one == one and young[b] & two == two:
            return True
        young[a] |= one
        young[b] |= two
        known = bool(old) and old[a] & one == one and old[b] & two == two
        self._count += 1
        if self._count >= self._half:
            self._old, self._young, self._count = young, bytearray(size), 0
        return known
