"""Many runs that end at once, as when all are stopped: first their ends, then what only tells of them."""

from __future__ import annotations

from collections import deque

import anyio

MANY = 16
"""Runs on their way to their end from which it is a rush; fewer hold nothing up."""
LONGEST = 5.0
"""Seconds that a rush holds anything up, the default grace of a run: tools may swallow their cancellation."""


class Rush:
    """Which runs of a worker were told to end and have no durable end yet.

    What nobody needs who waits for those ends (log lines and metrics, answers to commands, leases that are given back)
    waits until the rush is :meth:`over`: in an event loop that is busy with a thousand runs it would stand in line
    before the ends of most of them.
    """

    def __init__(self) -> None:
        self._ending: set[str] = set()
        self._waiting: deque[anyio.Event] = deque()
        self._timed = False
        """One of those who wait looks at the clock, for all of them."""

    def begin(self, run: str) -> None:
        self._ending.add(run)

    def end(self, run: str) -> None:
        """Nobody waits for this run any more."""
        self._ending.discard(run)
        self._let_on()

    async def over(self) -> None:
        """Wait until it is, bounded; at once where there is none. Whoever waited goes on one after the other, each in
        a turn of the event loop of its own."""
        if len(self._ending) < MANY:
            return
        event = anyio.Event()
        self._waiting.append(event)
        try:
            if self._timed:
                await event.wait()
            else:
                await self._time(event)
        finally:
            if not event.is_set():
                self._waiting.remove(event)
            self._let_on()

    async def _time(self, event: anyio.Event) -> None:
        """Those that have not ended by then hold nothing up any more."""
        self._timed = True
        try:
            with anyio.move_on_after(LONGEST):
                await event.wait()
        finally:
            self._timed = False
            if not event.is_set():
                self._ending.clear()

    def _let_on(self) -> None:
        if self._waiting and len(self._ending) < MANY:
            self._waiting.popleft().set()
