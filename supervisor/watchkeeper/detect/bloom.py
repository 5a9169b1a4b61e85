"""A set that remembers about the last few hundred things in a few kilobytes."""

from __future__ import annotations

PER_THING = 20
"""Bits for each thing that one of the two bit fields holds when it is full: one in some 250 new ones is then taken for
known."""


class Bloom:
    """Two bit fields: the younger becomes the older when it is full. What was not added is seldom taken for known."""

    __slots__ = ("_bits", "_count", "_half", "_old", "_young")

    def __init__(self, half: int) -> None:
        """``half``: things that one of them holds."""
        self._half = half
        size = 1 << (half * PER_THING // 8 - 1).bit_length()
        self._bits = 8 * size - 1
        self._young = bytearray(size)
        self._old = bytearray(0)
        self._count = 0

    def add(self, thing: int) -> bool:
        """Add a hash of 32 bits; whether it was there already."""
        bits, step = self._bits, thing >> 15
        one, two, three = thing & bits, (thing + step) & bits, (thing + 2 * step) & bits
        a, b, c = one >> 3, two >> 3, three >> 3
        first, second, third = 1 << (one & 7), 1 << (two & 7), 1 << (three & 7)
        young, old = self._young, self._old
        if young[a] & first and young[b] & second and young[c] & third:
            return True
        young[a] |= first
        young[b] |= second
        young[c] |= third
        known = bool(old) and bool(old[a] & first and old[b] & second and old[c] & third)
        self._count += 1
        if self._count >= self._half:
            self._old, self._young, self._count = young, bytearray(len(young)), 0
        return known
