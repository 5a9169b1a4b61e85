"""What a call asks, in the forms in which it is compared with other calls of its tool."""

from __future__ import annotations

from functools import cached_property, lru_cache

from .alike import alike, asked, bare, things_of, undisplayed, words_of
from .arguments import parts_of
from .volatile import is_random


class Question:
    """What arguments ask. Each form of it is made once, when it is first compared."""

    def __init__(self, arguments: str) -> None:
        self._parts = parts_of(arguments)

    @cached_property
    def asked(self) -> list[str]:
        """Without what says how much is wanted, or when it is asked."""
        return asked(self._parts)

    @cached_property
    def bare(self) -> list[str]:
        """Without remarks beside it and ids that mean nothing, too."""
        return bare(self._parts)

    @cached_property
    def _words(self) -> frozenset[str]:
        return words_of(map(undisplayed, self._parts))

    @cached_property
    def _things(self) -> frozenset[str]:
        return things_of(map(undisplayed, self._parts))

    def is_like(self, other: Question, telling: bool) -> bool:
        """Whether both ask the same in other words; ``telling`` as of :func:`alike`."""
        # Each is about a thing of its own: only ids may make no difference.
        apart = not telling and not self._things <= other._words and not other._things <= self._words
        if apart and not all(map(is_random, self._words ^ other._words)):
            return False
        return alike(self._parts, other._parts, telling)


question = lru_cache(maxsize=64)(Question)
"""The question of some arguments: the last calls are compared with each new one."""
