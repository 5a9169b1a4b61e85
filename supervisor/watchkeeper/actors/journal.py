"""The journal's reader: makes the facts of a run durable, in order, and says how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from .. import reports
from ..engine import Ended, EngineError, Fenced, Lease
from ..log import Gap, Reader
from ..messages import Event
from ..shared import named

if TYPE_CHECKING:
    from ..run import Run
    from ..shared import Charges

AGAIN = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds until what could not be written is tried again; the last one over and over."""
ENDS_WITHIN = 4
"""Turns of the event loop in which a run has its end, as a rule, once it is told to end."""
LAST_TRY = 20.0
"""Seconds for which the last facts of an ended run are tried: a full disk must not keep a worker from ending."""


class Journal:
    """The actor. It needs no cancel to end: it returns when the log closes and all is written, or when there is nothing
    more to write because this attempt is over.

    Whoever may not go on before a fact is durable waits for its reader (``Log.durable``). Error handling: where the
    journal cannot be written the run is paused, nothing is lost, and it goes on by itself once that works again. An
    attempt that was fenced, or whose tree has its end, is broken off: its reader never gets any further, so nothing
    starts that waits for it.
    """

    def __init__(self, run: Run, lease: Lease, charges: Charges | None = None) -> None:
        """``charges``: what its facts take of the shared budget that the lease's spec names."""
        self._run = run
        self._lease = lease
        self._charges = charges

    async def run(self, reader: Reader) -> None:
        """Follow the log to its end."""
        while facts := await self._next(reader):
            kept = self._kept(facts)
            if kept and not await self._write(kept):
                return
            reader.done(kept[-1].n if kept else reader.passed)
            if self._run.log.closed:
                self._run.notify()  # its end waits for this
            if len(kept) < len(facts):
                return

    async def _next(self, reader: Reader) -> list[Event | Gap]:
        """The next facts. What a run does that is about to end is written together with its end: one transaction where
        there would be two."""
        await reader.wait()
        for _ in range(ENDS_WITHIN):
            if self._run.ending is None or self._run.log.closed:
                break
            await anyio.lowlevel.checkpoint()
        return await reader.take()

    def _kept(self, facts: list[Event | Gap]) -> list[Event]:
        """Those before the run was broken off, if it was."""
        keeps = self._run.attempt.keeps
        return [fact for fact in facts if isinstance(fact, Event) and keeps(fact.n)]

    async def _write(self, facts: list[Event]) -> bool:
        """Write them, however long it takes; False: they are not to be written any more."""
        run, tries = self._run, 0
        gives_up = float("inf")
        charges = named(self._lease.spec.budget, self._charges.take(facts)) if self._charges is not None else None
        while True:
            try:
                await self._lease.append(facts, charges)
            except (Fenced, Ended):
                run.break_off("fenced")
                return False
            except EngineError as error:
                if not tries:
                    reports.report("journal_failed", run=run.id, cause=str(error))
                self._stand_still(error)
                now = run.seams.clock()
                if run.log.closed:
                    gives_up = min(gives_up, now + LAST_TRY)
                if now >= gives_up:
                    return False
                await anyio.sleep(AGAIN[min(tries, len(AGAIN) - 1)])
                tries += 1
            else:
                if tries:
                    self._go_on()
                return True

    def _stand_still(self, error: EngineError) -> None:
        run = self._run
        if not run.attempt.unwritten:
            run.attempt.unwritten = True
            run.notify()  # a kill waits no longer
        if run.ending is None:
            run.pause_for_journal(run.log.redaction.within(str(error), 300))

    def _go_on(self) -> None:
        self._run.attempt.unwritten = False
        if self._run.ending is None:
            self._run.journal_is_back()
