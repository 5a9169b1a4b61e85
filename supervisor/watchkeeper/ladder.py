"""The ladder: what becomes of findings. Nudge, then block that call, then pause or stop; never straight to the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import get_args

from .messages import Action, Finding
from .messages import GuardMode as GuardMode
from .thresholds import Steps, Thresholds

MODES: tuple[GuardMode, ...] = get_args(GuardMode)
RUNGS: tuple[Action, ...] = ("nudge", "block", "stop")

PRECEDENCE = ("cancel", "ceiling", "budget", "evidence", "finish", "nudge")
"""Which guard wins when several fire at once, strongest first."""

CEILINGS = {"breaker": "breaker", "silence": "silence"}
"""Detectors that are hard ceilings: they stop at once, in every mode, attended or not, and the reason that they stop
with."""

OF_RUNS = frozenset({"handover", "volume"})
"""Detectors that follow a run with all its contexts: whichever is at work just then, their subjects climb as one."""

REMEMBERED = 128
"""Subjects that have been acted on and are remembered, of a run: 3 KB when full, of the 16 KB that all state of
detection may take (as objects 256 of them took 80). What has had no word yet needs no memory."""

MOST = 2**31
"""Counts beyond it are it: a third party's may be anything."""
SHORT = 2**32 - 1
"""What is kept of the hash of a subject: should two of 128 share it, one of them climbs anew."""

LAST = 16
"""Findings within which a subject that goes on comes again: several detectors may speak in each round."""

RESTED = 4 * REMEMBERED
"""Findings after which a subject that was in none of them makes room for another."""

REASONS = {
    "failing": "tool_failing",
    "erring": "tool_failing",
    "complaint": "tool_failing",
    "arguments": "bad_arguments",
    "volume": "volume",
    **CEILINGS,
}
"""Reasons of a stop by detector; all others stop with ``loop``."""


def strongest(fired: Iterable[str]) -> str | None:
    """The guard that wins. Raises ``ValueError`` for one that is not in the table."""
    return min(fired, key=PRECEDENCE.index, default=None)


@lru_cache(maxsize=16)
def steps_of(thresholds: Thresholds) -> Mapping[str, Steps]:
    """The steps by detector: one table for all runs with these thresholds."""
    return {
        "equal": thresholds.equal,
        "equal_any": thresholds.equal_any,
        "cycle": thresholds.cycle,
        "poll": thresholds.poll,
        "failing": thresholds.failing,
        "erring": thresholds.erring,
        "complaint": thresholds.complaint,
        "arguments": thresholds.arguments,
        "recurring": thresholds.recurring,
        "interleaved": thresholds.interleaved,
        "stale": thresholds.stale,
        "similar": thresholds.similar,
        "fruitless": thresholds.fruitless,
        "churn": thresholds.churn,
        "turned_away": thresholds.turned_away,
        "chant": thresholds.chant,
        "monologue": thresholds.monologue,
        "thoughts": thresholds.thoughts,
        "compaction": thresholds.compaction,
        "handover": thresholds.handover,
        "volume": thresholds.volume,
    }


class Ladder:
    """Decides for each finding on one action or none. One step at a time for each subject; each step once.

    Where a person attends the run the last step is a pause: if they let the run go on, the subject stays where it is,
    and half as many laps again as the step took (4 for a stop at 8) bring the next pause. What has ended and begins
    again (another onset, or a lower count) climbs anew. Contexts are apart.

    A detector without steps (a third party's that declares none) climbs by those of ``equal``.
    """

    __slots__ = ("_asking", "_attended", "_climbs", "_highest", "_mode", "_steps")

    def __init__(self, steps: Mapping[str, Steps], mode: GuardMode = "enforce", *, attended: bool = False) -> None:
        self._steps = steps
        self._mode = mode
        self._attended = attended
        self._climbs = _Climbs()
        self._highest: dict[str, tuple[int, int]] = {}
        self._asking: tuple[int, frozenset[str]] = (0, frozenset())
        """The subject of the last pause and its keys."""

    def declare(self, detector: object) -> None:
        """Take over the steps that a third party's detector declares as ``steps``; those of ours stand.

        Raises ``TypeError`` for what are no steps.
        """
        name, steps = str(getattr(detector, "name", "")), getattr(detector, "steps", None)
        if steps is None or name in self._steps or name in CEILINGS:
            return
        if not isinstance(steps, Steps):
            raise TypeError(f"the steps of {name!r} must be Steps, not {type(steps).__name__}")
        self._steps = {**self._steps, name: steps}

    def judge(self, finding: Finding, context: str = "main") -> Action | None:
        if finding.detector in CEILINGS:
            return "stop"
        steps = self._steps.get(finding.detector) or self._steps["equal"]
        if finding.detector in OF_RUNS:
            context = ""
        name = hash((context, finding.detector, finding.subject or finding.keys or finding.pattern)) & SHORT
        climb, count, onset = self._climbs.get(name), min(max(finding.count, 0), MOST), hash(finding.onset) & SHORT
        if count < climb.count or onset != climb.onset:
            climb = _Climb(onset=onset)
        again, action = climb.again, self._step(climb, count, steps)
        climb.count = count
        if action == "pause":
            if self._is_asked(name, finding.keys):
                action, climb.again = None, again
            else:
                self._asking = name, frozenset(finding.keys)
        if climb.rung:
            self._climbs.keep(name, climb)
        rung, most = self._highest.get(finding.detector, (0, 0))
        self._highest[finding.detector] = max(rung, climb.rung), max(most, count)
        return action

    def _is_asked(self, name: int, keys: Iterable[str]) -> bool:
        """Whether another subject, one that goes on, has asked the person about one of these calls: of several
        detectors that see the same thing one is enough."""
        other, asked = self._asking
        return other != name and not asked.isdisjoint(keys) and self._climbs.is_going_on(other)

    def _step(self, climb: _Climb, count: int, steps: Steps) -> Action | None:
        if self._mode == "observe":
            return None
        counts = (steps.nudge, steps.block, steps.stop)
        for rung in range(climb.rung, len(RUNGS)):
            at, action = counts[rung], RUNGS[rung]
            if at is None:
                continue
            if count < at or (rung and self._mode != "enforce"):
                return None
            if action == "stop" and self._attended:
                if count < climb.again:
                    return None
                # Should the run go on, the same step is the next one.
                climb.rung, climb.again = rung, count + (at + 1) // 2
                return "pause"
            climb.rung = rung + 1
            return action
        return None

    def standing(self) -> dict[str, tuple[int, int]]:
        """By detector: the highest rung climbed so far (0 none, 1 nudge, 2 block, 3 stop) and the highest count."""
        return dict(self._highest)


class _Climb:
    """How far one subject has climbed."""

    __slots__ = ("again", "count", "onset", "rung")

    def __init__(self, rung: int = 0, count: int = 0, onset: int = 0, again: int = 0) -> None:
        self.rung = rung
        self.count = count
        self.onset = onset
        self.again = again
        """The count before which no further pause comes."""


class _Climbs:
    """The climbs that are remembered, as one table of numbers."""

    __slots__ = ("_found", "_names", "_table")

    _WIDTH = 5
    """Columns beside the subject: number of the last finding, then those of a climb."""

    def __init__(self) -> None:
        self._names = array("I")
        self._table = array("I")
        self._found = 0

    def __len__(self) -> int:
        return len(self._names)

    def get(self, name: int) -> _Climb:
        self._found += 1
        row = self._row(name)
        return _Climb() if row < 0 else _Climb(*self._table[row + 1 : row + self._WIDTH])

    def is_going_on(self, name: int) -> bool:
        """Whether it was in one of the last findings."""
        row = self._row(name)
        return row >= 0 and self._found - self._table[row] < LAST

    def keep(self, name: int, climb: _Climb) -> None:
        """In a fan-out of too many subjects the first ones keep their place and climb on: were the oldest dropped for
        each new one, none would ever come beyond its first step."""
        table, row = self._table, self._row(name)
        if row < 0 and len(self) < REMEMBERED:
            row = len(table)
            self._names.append(name)
        elif row < 0:
            row = min(range(0, len(table), self._WIDTH), key=table.__getitem__)
            if self._found - table[row] <= RESTED:
                return
            self._names[row // self._WIDTH] = name
        table[row : row + self._WIDTH] = array("I", (self._found, climb.rung, climb.count, climb.onset, climb.again))

    def _row(self, name: int) -> int:
        """Where it stands in the table; below 0: nowhere."""
        return self._names.index(name) * self._WIDTH if name in self._names else -1
