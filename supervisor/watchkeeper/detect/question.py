"""What a call asks, in the forms in which it is compared with other calls of its tool."""

from __future__ import annotations

from functools import lru_cache

from .alike import alike, asked, bare, things_of, undisplayed, words_of
from .arguments import parts_of
from .volatile import is_random


class Question:
    """What arguments ask. Each form of it is made once, when it is first compared."""

    __slots__ = ("_asked", "_bare", "_parts", "_things", "_words")

    def __init__(self, arguments: str) -> None:
        self._parts = parts_of(arguments)
        self._asked: list[str] | None = None
        self._bare: list[str] | None = None
        self._words: frozenset[str] | None = None
        self._things: frozenset[str] | None = None

    @property
    def asked(self) -> list[str]:
        """Without what says how much is wanted, or when it is asked."""
        if self._asked is None:
            self._asked = asked(self._parts)
        return self._asked

    @property
    def bare(self) -> list[str]:
        """Without remarks beside it and ids that mean nothing, too."""
        if self._bare is None:
            self._bare = bare(self._parts)
        return self._bare

    @property
    def words(self) -> frozenset[str]:
        if self._words is None:
            self._words = words_of(map(undisplayed, self._parts))
        return self._words

    @property
    def things(self) -> frozenset[str]:
        if self._things is None:
            self._things = things_of(map(undisplayed, self._parts))
        return self._things

    def is_like(self, other: Question, telling: bool) -> bool:
        """Whether both ask the same in other words; ``telling`` as of :func:`alike`."""
        # Each is about a thing of its own: only ids may make no difference.
        apart = not telling and not self.things <= other.words and not other.things <= self.words
        if apart and not all(map(is_random, self.words ^ other.words)):
            return False
        return alike(self._parts, other._parts, telling)


question = lru_cache(maxsize=64)(Question)
"""The question of some arguments: the last calls are compared with each new one."""
