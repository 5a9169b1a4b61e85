"""What each rule would have said of a run if none of them had done anything. Pure."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..detect.judge import Judge
from ..guards.guard import CallGuard, Proposal, Refuse, Reuse
from ..ladder import Ladder, steps_of
from ..messages import Blocked, CallAdmitted, CallEnded, CallProposed, Event, Finding, RunStarted, Unknown, Verdict
from ..profiles import Profile
from ..tools import WRITES, Effect
from ..wording import Wording
from .declared import RecordedTool
from .review import NOT_ASKED, Settings

ORDER = ("nudge", "reuse", "refuse", "block", "pause", "stop")
"""Actions, mildest first."""


class Observed:
    """A fold over the events of one run, in which each rule is asked as in mode ``observe``: facts stay as recorded,
    nothing is blocked, and nothing ends at a stop.

    ``rules`` counts by detector or ``guard:NAME`` and action; ``first`` has the index of the call with which a rule
    first did it.
    """

    def __init__(self, settings: Settings) -> None:
        self.rules: Counter[tuple[str, str]] = Counter()
        self.first: dict[tuple[str, str], int] = {}
        self.failed: dict[str, str] = {}
        """Detectors that failed and were switched off, with their first error."""
        self._settings = settings
        self._calls = 0
        self._asked: set[str] = set()
        self._judge: Judge | None = None
        self._ladder = Ladder({})
        self._guards: list[CallGuard] = []
        self._folds: dict[type[Event], list[Callable[[Any], None]]] = {}

    def observe(self, event: Event) -> None:
        if isinstance(event, Unknown):
            return
        if isinstance(event, RunStarted) or self._judge is None:
            self._begin(self._settings.profile_of(event if isinstance(event, RunStarted) else None))
        if isinstance(event, CallProposed):
            self._calls += 1
        elif isinstance(event, CallAdmitted):
            self._ask(event, event.call_id, event.tool, event.key, Effect(event.reads, event.writes))
        elif isinstance(event, CallEnded):
            result = event.result
            if result.call_id in self._asked:
                self._asked.discard(result.call_id)
            elif result.error not in NOT_ASKED and result.kind != "not_run":
                self._ask(event, result.call_id, result.tool, event.key, WRITES)
                self._asked.discard(result.call_id)
        if isinstance(event, Blocked):
            return  # what the run's own watchdog blocked decides nothing here
        for apply in self._folds.get(type(event), ()):
            apply(event)
        assert self._judge is not None
        judged = self._judge.observe(event)
        if judged is None:
            return
        for detector, error in judged.failed:
            self.failed.setdefault(detector, error)
        for finding, verdict in judged.found:
            self._rule(event, finding, verdict)

    def rows(self) -> dict[str, dict[str, Any]]:
        """By rule: how often it would have taken each action, and the index of the call of the first one."""
        found: dict[str, dict[str, Any]] = {}
        for rule, action in sorted(self.rules, key=lambda one: (one[0], ORDER.index(one[1]))):
            found.setdefault(rule, {})[action] = {
                "count": self.rules[rule, action],
                "first": self.first[rule, action],
            }
        return found

    def _begin(self, profile: Profile) -> None:
        wording = Wording()
        self._judge = Judge(profile.thresholds, mode="observe", extra=self._settings.extra, wording=wording)
        self._ladder = Ladder(steps_of(profile.thresholds))
        for make in self._settings.extra:
            with contextlib.suppress(Exception, SystemExit):  # the judge makes it too, and says that it cannot be made
                self._ladder.declare(make(profile.thresholds, frozenset()))
        self._guards = self._settings.guards_of(profile, wording)
        self._folds = {}
        for guard in self._guards:
            for kind, apply in guard.folds.items():
                self._folds.setdefault(kind, []).append(apply)

    def _rule(self, event: Event, finding: Finding, verdict: Verdict | None) -> None:
        action = verdict.action if verdict is not None else self._ladder.judge(finding, event.context)
        if action is None:
            return
        self._count(finding.detector, action)
        if action == "block":
            blocked = Blocked(n=event.n, run=event.run, at=event.at, t=event.t, keys=finding.keys, by=finding.detector)
            for apply in self._folds.get(Blocked, ()):
                apply(blocked)

    def _ask(self, event: Event, call_id: str, tool: str, key: str, effect: Effect) -> None:
        self._asked.add(call_id)
        known = self._settings.tools.get(tool) or RecordedTool(tool)
        proposal = Proposal(call_id, known, {}, key, effect, event.turn, event.slot, event.t)
        for guard in self._guards:
            decision = guard.call(proposal)
            if isinstance(decision, Refuse | Reuse):
                self._count(f"guard:{guard.name}", "refuse" if isinstance(decision, Refuse) else "reuse")

    def _count(self, rule: str, action: str) -> None:
        self.rules[rule, action] += 1
        self.first.setdefault((rule, action), max(self._calls - 1, 0))
