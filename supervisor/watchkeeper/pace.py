"""The pace of the runs of one supervisor: that many of them at work never keep the event loop from going round."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio

SLICE = 0.005
"""Seconds for which turns begin one upon the other. The loop's lag is this and what a turn itself takes, however many
runs have something to do; a lone run goes round the loop once in each, which costs it less than a hundredth."""


class Pace:
    """Whoever begins a turn passes here. When a slice is used up the rest wait in line, and as long as there is a line
    one begins with each round of the event loop: timers, cancels and the answers of models come in between."""

    def __init__(self, clock: Callable[[], float], slice_: float = SLICE) -> None:
        self._clock = clock
        self._slice = slice_
        self._until = clock() + slice_
        self._line: deque[anyio.Event] = deque()

    async def keep(self) -> None:
        """Go on at once, or when it is one's turn. A cancel while waiting gives the place to the next in line."""
        if not self._line and self._clock() < self._until:
            return
        here = anyio.Event()
        self._line.append(here)
        if len(self._line) == 1:
            here.set()
        try:
            await here.wait()
        finally:
            if self._line[0] is here:
                self._line.popleft()
                self._until = self._clock() + self._slice
                if self._line:
                    self._line[0].set()
            else:
                self._line.remove(here)
