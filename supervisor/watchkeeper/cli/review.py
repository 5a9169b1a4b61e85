"""Judges one recorded run anew: what the watchdog and the guards would have done, and when. Pure.

The guards are those that need neither a model nor a clock: the policy's deny, the watchdog's blocks, the count of equal
calls (where the profile asks for it), and the memory of stable tools (where it is said which are). A call that they
would have turned away counts as turned away, whatever the record says came of it; after a stop nothing is judged.
Limits (turns, calls, tokens, time) and silence are not judged anew: a record holds too little for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..detect.detector import Factory
from ..detect.judge import Judge
from ..guards.blocked import Blocked as BlockedGuard
from ..guards.denied import Denied
from ..guards.duplicate import Duplicate
from ..guards.equal import RefuseEqual
from ..guards.guard import CallGuard, Proposal, Refuse, Reuse
from ..messages import (
    Blocked,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    Finding,
    FindingMade,
    Nudged,
    Result,
    RunEnded,
    RunStarted,
    Stopped,
    Unknown,
    Verdict,
)
from ..profiles import Profile
from ..tools import WRITES, Effect, Tool
from ..wording import Wording

NOT_ASKED = frozenset({"unknown_tool", "bad_arguments", "tools_off", "guard_failed", "too_many_calls", "in_the_way"})
"""Results of calls that never came before the guards."""
ACTIONS = ("nudge", "block", "stop")


class Judgement(msgspec.Struct, frozen=True):
    """What would have been done at one point."""

    position: int
    """Index of the latest call then, from 0."""
    action: str
    detector: str
    pattern: str
    tool: str | None = None
    n: int = 0
    """Number of the event that it followed."""


class Difference(msgspec.Struct, frozen=True):
    """Where the log's own verdicts and those judged anew do not agree; None: no verdict."""

    n: int
    detector: str
    logged: str | None
    anew: str | None

    def __str__(self) -> str:
        logged, anew = self.logged or "nothing", self.anew or "nothing"
        return f"at event {self.n} ({self.detector}): the log has {logged}, anew {anew}"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How to judge. Without a profile, recorded events are judged by the one that their run had."""

    profile: Profile | None = None
    profiles: dict[str, Profile] = {}
    polls: tuple[str, ...] = ()
    stable: tuple[str, ...] = ()
    extra: tuple[Factory, ...] = ()

    def profile_of(self, event: RunStarted | None) -> Profile:
        if self.profile is not None:
            return self.profile
        return self.profiles.get(event.profile if event is not None else "default") or Profile()


class Review:
    """Feed it the events of one run, in order, then read what came of it.

    ``logged``: the events are a log of ours, with the verdicts of its own watchdog.
    """

    def __init__(self, run: str, settings: Settings, *, logged: bool = True) -> None:
        self.run = run
        self.outcome = "unknown"
        self.judgements: list[Judgement] = []
        self.calls = 0
        """Calls that were proposed."""
        self.saved = 0
        """Calls of the record that would not have been run."""
        self._settings = settings
        self._judge: Judge | None = None
        self._guards: list[CallGuard] = []
        self._folds: dict[type[Event], list[Callable[[Any], None]]] = {}
        self._asked: set[str] = set()
        self._turned_away: dict[str, tuple[str, Refuse | Reuse]] = {}
        self._positions: dict[str, int] = {}
        self._over = False
        self._ended = False
        self._log_blocked = (0, "")
        self._logged: dict[tuple[int, str], str] = {}
        self._found_in_log: set[tuple[str, str, int]] = set()
        self._anew: dict[tuple[int, str], tuple[str, Finding]] = {}
        self._is_log = logged

    def observe(self, event: Event) -> None:
        """One event. The log's own verdicts are kept to be compared; they decide nothing."""
        if type(event) is Unknown:
            return
        if isinstance(event, RunStarted) or self._judge is None:
            self._begin(event if isinstance(event, RunStarted) else None)
        if isinstance(event, RunEnded):
            self.outcome = event.outcome.status
            self._ended = True
        elif isinstance(event, CallProposed):
            self._positions[event.call_id] = self.calls
            self.calls += 1
            self.saved += self._over
        elif isinstance(event, FindingMade | Nudged | Blocked | Stopped):
            self._note_log(event)
            return
        if not self._over:
            self._consider(event)

    def first(self, action: str) -> int | None:
        """The position of the first judgement of this kind."""
        return next((one.position for one in self.judgements if one.action == action), None)

    def strongest(self) -> Judgement | None:
        """The judgement that matters most: the stop, else the first block, else the first nudge."""
        for action in reversed(ACTIONS):
            found = next((one for one in self.judgements if one.action == action), None)
            if found is not None:
                return found
        return None

    def differences(self) -> list[Difference]:
        """Where the log's verdicts are not those judged anew; nothing for runs that were recorded elsewhere.

        A log without its end may lack its last verdicts: only those that it has are compared.
        """
        if not self._is_log:
            return []
        found = []
        for (n, detector), (action, finding) in self._anew.items():
            logged = self._logged.get((n, detector))
            if logged is None and (not self._ended or _named(finding) in self._found_in_log):
                continue  # seen, but the run was ending already, or the log breaks off
            if logged != action:
                found.append(Difference(n, detector, logged, action))
        for (n, detector), action in self._logged.items():
            if (n, detector) not in self._anew and detector != "silence":
                found.append(Difference(n, detector, action, None))
        return sorted(found, key=lambda difference: difference.n)

    # -- judging -----------------------------------------------------------------------------------------------------

    def _begin(self, event: RunStarted | None) -> None:
        settings = self._settings
        profile = settings.profile_of(event)
        wording = Wording()
        self._judge = Judge(profile.thresholds, mode=profile.mode, extra=settings.extra, wording=wording)
        self._guards = [Denied(profile.deny, wording)] if profile.deny else []
        self._guards.append(BlockedGuard(wording))
        if profile.refuse_equal is not None:
            self._guards.append(RefuseEqual(profile.refuse_equal, profile.show_earlier, wording))
        if settings.stable:
            self._guards.append(
                Duplicate({name: _RecordedTool(name, stable=True) for name in settings.stable}, wording)
            )
        self._folds = {}
        for guard in self._guards:
            for kind, apply in guard.folds.items():
                self._folds.setdefault(kind, []).append(apply)

    def _consider(self, event: Event) -> None:
        if isinstance(event, CallAdmitted):
            self._ask(event, event.call_id, event.tool, event.key, Effect(event.reads, event.writes))
            if event.call_id in self._turned_away:
                return
        elif isinstance(event, CallStarted) and event.call_id in self._turned_away:
            return
        elif isinstance(event, CallEnded):
            event = self._settled(event)
        for apply in self._folds.get(type(event), ()):
            apply(event)
        assert self._judge is not None
        judged = self._judge.observe(event)
        for finding, verdict in judged.found if judged is not None else ():
            if verdict is not None and not self._over:
                self._rule(event, finding, verdict)

    def _settled(self, event: CallEnded) -> CallEnded:
        """The end of a call as it would have been: as recorded, unless a guard turned the call away."""
        result = event.result
        if result.call_id not in self._asked and result.error not in NOT_ASKED and result.kind != "not_run":
            self._ask(event, result.call_id, result.tool, event.key, WRITES)
        self._asked.discard(result.call_id)
        guard, decision = self._turned_away.pop(result.call_id, ("", None))
        position = self._positions.pop(result.call_id, self.calls - 1)
        if isinstance(decision, Refuse) and guard != BlockedGuard.name:
            pattern = f"refused: {decision.error}"
            self.judgements.append(Judgement(position, "block", f"guard:{guard}", pattern, result.tool, event.n))
        if decision is None or result.kind in ("refused", "denied", "not_run") or result.reused_from is not None:
            return event
        self.saved += 1
        if isinstance(decision, Reuse):
            other = Result(
                result.call_id,
                result.tool,
                "finished",
                decision.message,
                productive=decision.productive,
                by=guard,
                reused_from=decision.earlier,
            )
        else:
            other = Result(result.call_id, result.tool, decision.kind, decision.message, error=decision.error, by=guard)
        return msgspec.structs.replace(event, result=other, result_key="")

    def _ask(self, event: Event, call_id: str, tool: str, key: str, effect: Effect) -> None:
        self._asked.add(call_id)
        proposal = Proposal(call_id, _RecordedTool(tool), {}, key, effect, event.turn, event.slot, event.t)
        for guard in self._guards:
            decision = guard.call(proposal)
            if isinstance(decision, Refuse | Reuse):
                self._turned_away[call_id] = (guard.name, decision)
                return

    def _rule(self, event: Event, finding: Finding, verdict: Verdict) -> None:
        self._anew[event.n, finding.detector] = (verdict.action, finding)
        self.judgements.append(
            Judgement(self.calls - 1, verdict.action, finding.detector, finding.pattern, finding.tool, event.n)
        )
        if verdict.action == "stop":
            self._over = True
        elif verdict.action == "block":
            blocked = Blocked(
                n=event.n,
                run=event.run,
                at=event.at,
                t=event.t,
                keys=finding.keys,
                by=finding.detector,
                known=finding.known,
            )
            for apply in self._folds.get(Blocked, ()):
                apply(blocked)

    # -- the log's own verdicts --------------------------------------------------------------------------------------

    def _note_log(self, event: FindingMade | Nudged | Blocked | Stopped) -> None:
        if isinstance(event, FindingMade):
            self._found_in_log.add(_named(event.finding))
        elif isinstance(event, Blocked):
            self._log_blocked = (event.cause, event.by)
            self._logged[event.cause, event.by] = "block"
        elif isinstance(event, Nudged):
            if (event.cause, event.by) != self._log_blocked:  # a block comes with a word to the model
                self._logged[event.cause, event.by] = "nudge"
        else:
            detector = event.verdict.finding.detector
            self._logged[event.cause, detector] = "stop"
            if detector == "silence":  # its clock is not in the record: as the log has it
                finding = event.verdict.finding
                self.judgements.append(Judgement(self.calls - 1, "stop", detector, finding.pattern, None, event.n))
                self._over = True


class _RecordedTool(Tool):
    """The little that a guard asks about a tool, for tools that are known by name alone."""

    def __init__(self, name: str, *, stable: bool = False) -> None:
        self.name = name
        self.stable = stable
        self.poll = False
        self.dangerous = False


def _named(finding: Finding) -> tuple[str, str, int]:
    return finding.detector, finding.pattern, finding.count
