"""The order in which what came from outside comes again: one after the other, each when the run is where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import anyio
import anyio.lowlevel

from .entries import Input

ROUNDS = 50
"""Rounds of the loop in which what follows from one input has come to its end: the result of a call, the verdict on
it, and the next request."""


class Order:
    """Who waits for :meth:`turn` gets it when those before it have been let through, its run has as many facts as it
    had then, and, in virtual time, the clock has come to where it was. :meth:`open` lets everybody through from then
    on: once the run is another one, the order of the recorded one means nothing any more."""

    def __init__(self, inputs: Sequence[Input], facts: Mapping[str, int], due: Callable[[Input], float] | None) -> None:
        self._inputs = inputs
        self._facts = facts
        self._due = due
        self._cursor = 0
        self._passed: set[int] = set()
        self._waiting: dict[int, anyio.Event] = {}
        self.free = False
        self.settles = len({line.run for line in inputs}) > 1
        """Several runs are at work at once: what follows from one input comes to its end before the next."""

    @property
    def next(self) -> Input | None:
        """The input whose turn it is, as far as the order goes."""
        return self._inputs[self._cursor] if self._cursor < len(self._inputs) else None

    def open(self) -> None:
        """Let everybody through from now on."""
        self.free = True
        for event in self._waiting.values():
            event.set()

    def look(self) -> None:
        """Something has happened: wake who may go on now."""
        event = self._waiting.get(self._cursor)
        if event is not None and self._ready(self._cursor):
            event.set()

    async def turn(self, place: int, *, at_once: bool = False, held: bool = False) -> None:
        """Wait until it is the turn of the input at this place; what came ``at_once`` does not wait for its time. On
        cancellation its turn is over; with ``held`` it is not over until :meth:`over` says so."""
        try:
            while not self.free and not self._ready(place):
                event = self._waiting[place] = anyio.Event()
                await event.wait()
            if self.settles and not at_once and not self.free:
                for _ in range(ROUNDS):
                    await anyio.lowlevel.checkpoint()
            if self._due is not None and not self.free and not at_once:
                await _until(self._due(self._inputs[place]))
        finally:
            self._waiting.pop(place, None)
            if not held:
                self.over(place)

    def over(self, place: int) -> None:
        """The input has been let through, or nobody wants it any more."""
        if place < self._cursor:
            return
        self._passed.add(place)
        while self._cursor in self._passed:
            self._passed.discard(self._cursor)
            self._cursor += 1
        self.look()

    def _ready(self, place: int) -> bool:
        found = self._inputs[place]
        return (
            place == self._cursor
            and self._facts.get(found.run, 0) >= found.after
            and sum(self._facts.values()) >= found.all
        )


async def _until(time: float) -> None:
    if anyio.current_time() < time:
        await anyio.sleep_until(time)
