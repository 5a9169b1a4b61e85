"""What is learned to be volatile: what has no known form or name, and varies all the same from one equal result to the
next."""

from __future__ import annotations

from .volatile import NEWS, Change

LEARNED = 3
"""Changes in a row after which a part that always changes is known to be volatile."""

EVEN = 1e-6
"""Share of a step by which the next one of the same size may differ."""
STRIDE = 3
"""Moves by the same from which on a number is on its way again."""


class Drift:
    """What changed from each of otherwise equal results to the next, without a known form or name.

    A number that goes up and down leads nowhere and is volatile. One that moves one way may be on its way to something
    and is taken for progress, and so is the first move; among many that go up and down it is just not their turn yet.
    One that moves three times by the same is on its way too, though it may come back: it is a place, or a level.
    Ids say nothing, whichever they are. A part with other words each time is volatile from its third change on.
    """

    __slots__ = ("_parts", "_steps", "_times", "_ways")

    def __init__(self) -> None:
        self._ways: dict[tuple[int, int], int] = {}
        """By place: 1 up so far, -1 down so far, 0 both."""
        self._steps: dict[tuple[int, int], tuple[float, int]] = {}
        """By place: its last move, and how often in a row it moved like that."""
        self._parts: set[int] = set()
        self._times = 0
        """How often in a row these parts held news."""

    def is_volatile(self, changed: list[Change]) -> bool:
        """Note one more comparison; whether all that changed in it is known to be volatile."""
        parts = {change.place[0] for change in changed if change.place[1] == NEWS}
        self._times = self._times + 1 if parts == self._parts else 1
        self._parts = parts
        numbers = {change.place: change.after - change.before for change in changed if change.before != change.after}
        if self._ways and self._ways.keys().isdisjoint(numbers):
            self._ways, self._steps = {}, {}
        going = 0
        for place, move in numbers.items():
            way = 1 if move > 0 else -1
            self._ways[place] = way if self._ways.get(place, way) == way else 0
            step, times = self._steps.get(place, (0.0, 0))
            times = times + 1 if abs(step - move) <= EVEN * abs(move) else 1
            self._steps[place] = move, times
            going += self._ways[place] != 0 or times >= STRIDE
        if parts and self._times < LEARNED:
            return False
        return 3 * going <= len(numbers)
