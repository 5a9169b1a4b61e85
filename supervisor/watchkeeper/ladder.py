"""The ladder: what becomes of findings. Nudge, then block that call, then stop; never straight to the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from .messages import Action, Finding
from .thresholds import Steps, Thresholds

GuardMode = Literal["observe", "nudge", "enforce"]

PRECEDENCE = ("cancel", "ceiling", "budget", "evidence", "finish", "nudge")
"""Which guard wins when several fire at once, strongest first."""

CEILINGS = {"breaker": "breaker", "silence": "silence"}
"""Detectors that are hard ceilings: they stop at once, in every mode, and the reason that they stop with."""

REMEMBERED = 256

REASONS = {"failing": "tool_failing", "arguments": "bad_arguments", **CEILINGS}
"""Reasons of a stop by detector; all others stop with ``loop``."""


def strongest(fired: Iterable[str]) -> str | None:
    """The guard that wins. Raises ``ValueError`` for one that is not in the table."""
    return min(fired, key=PRECEDENCE.index, default=None)


def steps_of(thresholds: Thresholds) -> dict[str, Steps]:
    return {
        "equal": thresholds.equal,
        "equal_any": thresholds.equal_any,
        "cycle": thresholds.cycle,
        "poll": thresholds.poll,
        "failing": thresholds.failing,
        "arguments": thresholds.arguments,
    }


class Ladder:
    """Decides for each finding on one action or none. One step at a time for each subject; each step once.

    A detector without steps of its own (a third party's) climbs by the steps of ``equal``. What has ended and begins
    again (another onset, or a lower count) climbs anew. Contexts are apart.
    """

    def __init__(self, steps: Mapping[str, Steps], mode: GuardMode = "enforce") -> None:
        self._steps = steps
        self._mode = mode
        self._climbed: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        """By context, detector and subject: the rung, and count and onset of the last finding. The oldest first."""

    def judge(self, finding: Finding, context: str = "main") -> Action | None:
        if finding.detector in CEILINGS:
            return "stop"
        steps = self._steps.get(finding.detector) or self._steps["equal"]
        name = (context, finding.detector, finding.subject or ",".join(finding.keys) or finding.pattern)
        rung, count, onset = self._climbed.pop(name, (0, 0, 0))
        if finding.count < count or finding.onset != onset:
            rung = 0
        action: Action | None = None
        if self._mode != "observe":
            ladder: tuple[tuple[Action, int | None], ...] = (
                ("nudge", steps.nudge),
                ("block", steps.block),
                ("stop", steps.stop),
            )
            for index, (step, at) in enumerate(ladder[rung:], rung + 1):
                if at is None:
                    continue
                if finding.count >= at and (step == "nudge" or self._mode == "enforce"):
                    action, rung = step, index
                break
        self._climbed[name] = (rung, finding.count, finding.onset)
        if len(self._climbed) > REMEMBERED:
            self._climbed.pop(next(iter(self._climbed)))
        return action

    def standing(self) -> dict[str, tuple[int, int]]:
        """By detector: the highest rung climbed so far (0 none, 1 nudge, 2 block, 3 stop) and the count there."""
        best: dict[str, tuple[int, int]] = {}
        for (_, detector, _), (rung, count, _) in self._climbed.items():
            best[detector] = max(best.get(detector, (0, 0)), (rung, count))
        return best
