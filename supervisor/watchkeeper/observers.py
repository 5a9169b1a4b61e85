"""Who looks on at runs from within the process: a function that is called with every fact, in order.

It decides nothing and holds nothing up: it must not wait, and what it raises ends its looking on, not the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio

from .failures import full_text
from .log import Gap, Log, Reader
from .messages import Event
from .redaction import Redaction
from .reports import report
from .rush import Rush

Observer = Callable[[Event], None]

NAME = "observers"
"""Name of their reader in the log of each run."""


class Observers:
    """Several of them. One that raises is reported and asked no more; the others are asked on."""

    def __init__(self, observers: Iterable[Observer], rush: Rush) -> None:
        self._observers = list(observers)
        self._rush = rush

    def __bool__(self) -> bool:
        return bool(self._observers)

    def tell(self, event: Event) -> None:
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception as error:
                self._observers.remove(observer)
                report("observer_failed", observer=repr(observer), cause=full_text(error, Redaction()))

    def reader(self, log: Log) -> Reader:
        """Their cursor on a log, of which they see everything."""
        return log.reader(NAME, must=True)

    async def follow(self, reader: Reader, parent: Log | None, linger: float) -> None:
        """Tell them the facts of a run to its end. When cancelled, for at most ``linger`` seconds more: the run, which
        is cancelled too, ends meanwhile. They hear of a sub-agent after they have heard from its ``parent`` of it."""
        try:
            if parent is not None:
                await parent.passed(NAME, parent.n)
            await self._follow(reader)
        finally:
            with anyio.move_on_after(linger, shield=True):
                await self._follow(reader)
            reader.close()

    async def _follow(self, reader: Reader) -> None:
        while True:
            await reader.wait()
            await self._rush.over()
            batch = await reader.take()
            if not batch:
                return
            for event in batch:
                if not isinstance(event, Gap):
                    self.tell(event)
            reader.done()
