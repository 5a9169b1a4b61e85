"""Thoughts that go round: each is compared with the last four before it, so that two that take turns are seen too."""

from __future__ import annotations

from collections.abc import Callable

from .shingles import FEWEST, LOOKED_AT, Thought

BEFORE = 4
"""Thoughts that one is compared with."""


class Stagnation:
    """Counts near-equal thoughts in a row. What is too short for a thought says nothing either way.

    ``alike``: whether two texts are near-equal thoughts; None: by shingles of their words. What it raises passes
    through :meth:`think`, which has noted the thought by then.
    """

    def __init__(self, alike: Callable[[str, str], bool] | None = None) -> None:
        self._alike = alike
        self._last: tuple[Thought, ...] = ()
        self.count = 0
        """The first thought of a streak is 1, one that is near-equal to it or to another of the last four is 2."""
        self.onset = 0

    def begin(self) -> None:
        """Anew: a user has spoken."""
        self._last = ()
        self.count = 0

    def think(self, content: str, reasoning: str, n: int) -> bool:
        """Note the thought of a reply, the event number ``n``; whether it is near-equal to one before."""
        if len(content) + len(reasoning) < FEWEST:
            return False  # a reply that only calls
        thought = Thought(f"{reasoning[: LOOKED_AT // 2]}\n{content[: LOOKED_AT // 2]}" if reasoning else content)
        if not thought:
            return False
        before = self._last
        self._last = (*before, thought)[-BEFORE:]
        if any(self._are_alike(thought, other) for other in before):
            self.count += 1
            return True
        self.count, self.onset = 1, n
        return False

    def say_nothing(self) -> None:
        """Note a reply without a word where one was due: it counts as one more of the same."""
        self.count += 1

    def by_shingles(self) -> None:
        """Compare by shingles from now on."""
        self._alike = None

    def _are_alike(self, thought: Thought, other: Thought) -> bool:
        if self._alike is not None:
            return self._alike(thought.text, other.text) is True
        return thought.is_like(other)
