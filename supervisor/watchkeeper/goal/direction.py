"""Whether an agent still heads for its goal: no word of it, nor of the current step, in so many turns is drift."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..messages import Call

LOOKED_AT = 2000
"""Characters of a goal, and of what an agent thinks and calls in a turn, that are looked at."""
FEWEST = 2
"""Words of a goal below which it says too little to be drifted from ("Go on.")."""
KEPT = 8
"""Turns at most whose thoughts and calls a judge is shown."""


class Direction:
    """Counts the turns in a row that had no word of the goal or of the current step.

    What the user has said, before and since, is all part of the goal. A turn without a word of its own says nothing
    either way. ``words`` may raise: what it raises passes through.
    """

    def __init__(self, words: Callable[[str], Iterable[str]], said: Iterable[str]) -> None:
        self._words = words
        self._goal: set[str] = set()
        self._step: tuple[str, frozenset[str]] = ("", frozenset())
        self.count = 0
        self.onset = 0
        self.turns = 0
        """Turns since the goal was said, or since a judge was asked."""
        self.said: tuple[str, ...] = ()
        for text in said:
            self._goal.update(words(text[:LOOKED_AT]))

    def user_spoke(self, text: str) -> None:
        self._goal.update(self._words(text[:LOOKED_AT]))
        self.begin()

    def begin(self) -> None:
        self.count = self.turns = 0
        self.said = ()

    def acted(self, thought: str, calls: Sequence[Call], step: str, n: int) -> None:
        """Note what was thought and called in a turn; the event number ``n``."""
        said = _said(thought, calls)
        self.turns += 1
        self.said = (*self.said, said)[-KEPT:]
        goal: set[str] | frozenset[str] = self._goal
        if step:
            if step != self._step[0]:
                self._step = (step, frozenset(self._words(step[:LOOKED_AT])))
            goal = self._goal | self._step[1]
        if len(goal) < FEWEST:
            return
        any_word = False
        for word in self._words(said):
            if word in goal:
                self.count = 0
                return
            any_word = True
        if any_word:
            self.onset = self.onset if self.count else n
            self.count += 1


def _said(thought: str, calls: Sequence[Call]) -> str:
    parts, size = [thought[: LOOKED_AT // 2]], 0
    for call in calls:
        part = f"{call.tool} {call.arguments[: LOOKED_AT // 2]}"
        parts.append(part)
        size += len(part)
        if size >= LOOKED_AT // 2:
            break
    return "\n".join(parts)
