"""Gets slices of a shared budget from the engine, for a run and its sub-agents."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from . import reports
from .engine import Ended, EngineError, Fenced, Lease
from .shared import SharedBudget

AGAIN = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds until an engine that could not be asked is asked again; the last one over and over."""


class Supply:
    """One for each run tree. A slice is what the next request, turn or batch of calls needs and is not there yet; what
    is not spent of it stays for the one after that, and comes back to all at the end of the attempt."""

    def __init__(self, budget: SharedBudget) -> None:
        self.budget = budget
        self._lease: Lease | None = None
        self._asking = anyio.Lock()

    @property
    def is_open(self) -> bool:
        return self._lease is not None

    async def open(self, lease: Lease) -> None:
        """Learn how the budget stands. Raises :class:`EngineError`."""
        self.budget.see(await lease.grant(self.budget.name, {}))
        self._lease = lease

    def asks(self, amounts: Mapping[str, float]) -> bool:
        """Whether ``ready(amounts, look=True)`` would ask the engine."""
        return self.budget.low or bool(self.budget.missing(amounts))

    async def ready(self, amounts: Mapping[str, float], *, look: bool = False) -> dict[str, float]:
        """Have so much granted, as far as it is there: whoever holds it at once, without a wait between, gets it, or is
        told which limit is short. Returns by how much was spent beyond all that could be granted: an overrun.

        ``look``: ask in any case, if so much is used of the budget that it matters how it stands by now. Where the
        engine cannot be asked it waits until it can; a cancel ends that.
        """
        lease, budget, tries = self._lease, self.budget, 0
        assert lease is not None
        look = look and budget.low
        while look or budget.missing(amounts):
            async with self._asking:
                missing = budget.missing(amounts)
                if not (missing or look):
                    continue
                try:
                    more = budget.see(await lease.grant(budget.name, missing))
                    if missing and not more:
                        break
                    look = False
                except (Fenced, Ended):  # the journal breaks this attempt off
                    break
                except EngineError as error:
                    if not tries:
                        reports.report("grant_failed", run=lease.run, budget=budget.name, cause=str(error))
                    await anyio.sleep(AGAIN[min(tries, len(AGAIN) - 1)])
                    tries += 1
        return {} if lease.lost else budget.missing({})
