"""The invariants of a run, checked over its facts. Pure: a fold that says what was broken, and at which fact.

``violations(events)`` takes a whole log; ``violations_of(run)`` also looks at the handle of a run that has ended, for
what no fact tells. Each names one of :data:`RULES`. They hold for every run, however it ended, on every engine; a log
that begins in the middle, because older facts are no longer kept, cannot be checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ...messages import Event
from .calls import Calls
from .course import Course
from .purse import Purse
from .rules import RULES, Part, Violation

if TYPE_CHECKING:
    from ...run import Run

__all__ = ["RULES", "Invariants", "Violation", "violations", "violations_of"]


class Invariants:
    """The fold: give it each fact in order by :meth:`see`; :meth:`finish` returns what was broken and what is missing.

    ``idempotent`` names the tools that may be executed more than once for one call.
    """

    def __init__(self, idempotent: Collection[str] = ()) -> None:
        self.found: list[Violation] = []
        self._course = Course(self._say)
        self._parts: tuple[Part, ...] = (self._course, Calls(self._say, idempotent), Purse(self._say))

    def see(self, event: Event) -> None:
        self._course.see(event)
        for part in self._parts:
            fold = part.folds.get(type(event))
            if fold is not None:
                fold(event)

    def finish(self) -> list[Violation]:
        for part in self._parts:
            part.finish()
        return self.found

    def _say(self, rule: str, where: Event | int, what: str) -> None:
        self.found.append(Violation(rule, where if isinstance(where, int) else where.n, what))


def violations(events: Iterable[Event], *, idempotent: Collection[str] = ()) -> list[Violation]:
    """Every invariant that the log of a run breaks, in the order of its facts; none for a sound one.

    ``events`` is the whole log, from fact 1 to the end record; ``idempotent`` names tools that may run again.
    """
    fold = Invariants(idempotent)
    for event in events:
        fold.see(event)
    return fold.finish()


def violations_of(run: Run) -> list[Violation]:
    """The same of a run that has ended, with what its handle shows: calls at work, open approvals and open holds.

    Of a log that no longer has its first facts only the handle is looked at.
    """
    found: list[Violation] = []
    log = run.log
    if log.first == 1:
        found += violations(log.kept(), idempotent=[tool.name for tool in run.agent.tools.values() if tool.idempotent])
    if run.ledger.open:
        found.append(Violation("result", log.n, f"calls without a result: {', '.join(run.ledger.open)}"))
    if run.asking.pending:
        found.append(Violation("alive", log.n, "an approval is still waited for"))
    if run.outcome is None or run.state != "ended":
        found.append(Violation("end", log.n, f"the run is {run.state} and has {'an' if run.outcome else 'no'} outcome"))
    return found
