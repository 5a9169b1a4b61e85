"""The invariants of a run, checked over its facts. Pure: a fold that says what was broken, and at which fact.

``violations(events)`` takes a whole log; ``violations_of(run)`` also looks at the handle of a run that has ended, for
what no fact tells. Each names one of :data:`RULES`. They hold for every run, however it ended and in however many
attempts, on every engine; a log that begins in the middle, because older facts are no longer kept, cannot be checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ...messages import CallStarted, Event, ModelRequested
from .attempts import Attempts
from .calls import Calls
from .course import Course
from .purse import Purse
from .rules import RULES, Part, Violation

if TYPE_CHECKING:
    from ...run import Run

__all__ = ["RULES", "Invariants", "Violation", "violations", "violations_of"]


class Invariants:
    """The fold: give it each fact in order by :meth:`see`; :meth:`finish` returns what was broken and what is missing.

    ``idempotent`` names the tools that may be executed more than once for one call, ``unasked`` those of which a call
    that may have had its effect when its process died is run again without a question (``after_crash``).
    """

    def __init__(self, idempotent: Collection[str] = (), unasked: Collection[str] = ()) -> None:
        self.found: list[Violation] = []
        self._course = Course(self._say)
        self._parts: tuple[Part, ...] = (
            self._course,
            Calls(self._say, idempotent),
            Attempts(self._say, {*idempotent, *unasked}),
            Purse(self._say),
        )

    def see(self, event: Event) -> None:
        self._course.see(event)
        for part in self._parts:
            fold = part.folds.get(type(event))
            if fold is not None:
                fold(event)

    def finish(self, *, broken_off: bool = False) -> list[Violation]:
        """``broken_off``: the attempt that wrote the last facts is over and the run is not, so nothing is missing."""
        for part in self._parts:
            part.finish(broken_off)
        return self.found

    def _say(self, rule: str, where: Event | int, what: str) -> None:
        self.found.append(Violation(rule, where if isinstance(where, int) else where.n, what))


def violations(
    events: Iterable[Event],
    *,
    idempotent: Collection[str] = (),
    unasked: Collection[str] = (),
    broken_off: bool = False,
) -> list[Violation]:
    """Every invariant that the log of a run breaks, in the order of its facts; none for a sound one.

    ``events`` is the whole log, from fact 1 to the end record, or, with ``broken_off``, to the last fact of an attempt
    behind which another one goes on. ``idempotent`` names tools that may run again, ``unasked`` those that may do so
    after a crash.
    """
    fold = Invariants(idempotent, unasked)
    for event in events:
        fold.see(event)
    return fold.finish(broken_off=broken_off)


def violations_of(run: Run) -> list[Violation]:
    """The same of a run that has ended, with what its handle shows: calls at work, open approvals and open holds.

    Of an attempt that was broken off the facts before that are looked at; of those behind, which nobody keeps, that
    nothing starts any more. Of a log that no longer has its first facts only the handle is looked at.
    """
    found: list[Violation] = []
    log, attempt = run.log, run.attempt
    if log.first == 1:
        tools = run.agent.tools.values()
        found += violations(
            (event for event in log.kept() if attempt.keeps(event.n)),
            idempotent=[tool.name for tool in tools if tool.idempotent],
            unasked=[tool.name for tool in tools if tool.after_crash == "retry" or tool.happened is not None],
            broken_off=attempt.broken is not None,
        )
        for event in log.kept():
            if isinstance(event, CallStarted | ModelRequested) and not attempt.keeps(event.n):
                what = f"{type(event).__name__} comes after the attempt was broken off"
                found.append(Violation("attempt", event.n, what))
    if run.ledger.open:
        found.append(Violation("result", log.n, f"calls without a result: {', '.join(run.ledger.open)}"))
    if run.asking.pending:
        found.append(Violation("alive", log.n, "an approval is still waited for"))
    if run.outcome is None or run.state != "ended":
        found.append(Violation("end", log.n, f"the run is {run.state} and has {'an' if run.outcome else 'no'} outcome"))
    return found
