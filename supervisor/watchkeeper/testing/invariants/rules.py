"""The rules by name, and how a broken one is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from ...messages import Event

RULES = {
    "end": "one end record a run, the last of its facts, which are numbered from 1 without gaps in the run's time",
    "result": "each call has exactly one result, before the next model request, and the model reads them in slot order",
    "permission": "nothing runs that is not proposed, admitted, next in its plan and, if it asks, permitted",
    "once": "a call runs once, unless its tool only reads or is declared idempotent; each key is one execution's",
    "attempt": "another attempt goes on behind the last fact, names the calls that were under way, and runs none again "
    "that may have had its effect, save under its key and permitted",
    "budget": "spent + held is within the limit at every fact, or an overrun ends the run; each hold is settled once",
    "alive": "nothing of a run is at work after its end, save what it names as abandoned",
    "apart": "no two calls of which one writes what the other touches run at one time",
    "bound": "each wait has a deadline that holds, and texts of facts are bounded",
    "cancel": "after a cancel there is no request, after `now` no new call; it is confirmed and reported as that",
    "authority": "limits are said once; evidence, verdicts and permissions rest on facts before them",
}
"""The rules by name, in the words of the design."""

PERMITS = ("once", "run", "always")
"""What became of an approval that is a yes."""
LATE = 5.0
"""Seconds by which a deadline may be met late in real time: the loop of a busy machine. In virtual time it is exact."""


class Violation(msgspec.Struct, frozen=True):
    """One broken invariant: the rule (a key of :data:`RULES`), the number of the fact that shows it, and what it is."""

    rule: str
    n: int
    what: str

    def __str__(self) -> str:
        return f"{self.rule} at fact {self.n}: {self.what}"


class Part(Protocol):
    """A fold over the facts for some of the rules. It tells what is broken to the ``say`` that it was made with."""

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]: ...

    def finish(self, broken_off: bool) -> None:
        """The log has ended: tell what is missing. ``broken_off``: the attempt is over and the run is not."""


Say = Callable[[str, Event | int, str], None]
"""Tell a broken rule: its name, the fact that shows it or the number of that, and what it is."""
