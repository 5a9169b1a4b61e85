"""Judges one recorded run anew: what the watchdog and the guards would have done, and when. Pure.

The guards are those that need neither a model nor a clock: the policy's deny, the watchdog's blocks, the count of equal
calls (where the profile asks for it), and the memory of stable tools (where it is said which are). A call that they
would have turned away counts as turned away, whatever the record says came of it; after a stop nothing is judged.
Limits (turns, calls, tokens, time) and silence are not judged anew: a record holds too little for that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import msgspec

from ..approvals import SCOPES
from ..detect.detector import Factory
from ..detect.judge import Judge
from ..fingerprint import call_key
from ..guards.blocked import Blocked as BlockedGuard
from ..guards.duplicate import Duplicate
from ..guards.equal import RefuseEqual
from ..guards.guard import Ask, CallGuard, Proposal, Refuse, Reuse
from ..guards.policy import Policy
from ..guards.scope import Scope, Scoped
from ..ladder import MODES
from ..messages import (
    ApprovalResolved,
    Blocked,
    CallAdmitted,
    CallEnded,
    CallProposed,
    CallStarted,
    Event,
    Finding,
    FindingMade,
    Nudged,
    Paused,
    Result,
    RunEnded,
    RunStarted,
    Stopped,
    Unknown,
    Verdict,
)
from ..profiles import Profile
from ..tools import WRITES, Effect
from ..wording import Wording
from .declared import Declared, RecordedTool, tools_of

NOT_ASKED = frozenset({"unknown_tool", "bad_arguments", "tools_off", "guard_failed", "too_many_calls", "in_the_way"})
"""Results of calls that never came before the guards."""
ACTIONS = ("nudge", "block", "pause", "stop")


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
    count: int = 0
    """How often the detector had seen it; 0 for a guard, which does not count."""
    began: int | None = None
    """Index of the call with which it began, as the detector has it."""
    calls_since: int | None = None
    """Calls from there to here, both counted, and those of sub-agents."""
    tokens_since: int | None = None


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
    declared: dict[str, Declared] = {}
    """What is said of tools by name; of recorded runs it cannot be known otherwise."""
    extra: tuple[Factory, ...] = ()

    @property
    def polls(self) -> tuple[str, ...]:
        return tuple(name for name, said in self.declared.items() if said.poll)

    @property
    def stable(self) -> tuple[str, ...]:
        return tuple(name for name, said in self.declared.items() if said.stable)

    @property
    def tools(self) -> dict[str, RecordedTool]:
        return tools_of(self.declared)

    def profile_of(self, event: RunStarted | None) -> Profile:
        if self.profile is not None:
            return self.profile
        return self.profiles.get(event.profile if event is not None else "default") or Profile()

    def guards_of(self, profile: Profile, wording: Wording) -> list[CallGuard]:
        """The call guards that need neither a model nor a clock, in the order in which they are asked; those that only
        observe turn nothing away."""
        guards = self._all_guards_of(profile, wording)
        return [guard for guard in guards if guard.name not in profile.observe]

    def _all_guards_of(self, profile: Profile, wording: Wording) -> list[CallGuard]:
        guards: list[CallGuard] = [
            Policy(wording, deny=profile.deny, rules=profile.rules, otherwise=profile.otherwise),
            BlockedGuard(wording),
        ]
        if profile.scope != Scope():
            guards.append(Scoped([profile.scope], wording))
        if profile.refuse_equal is not None:
            guards.append(RefuseEqual(profile.refuse_equal, profile.show_earlier, wording))
        if self.stable:
            guards.append(Duplicate(self.tools, wording))
        return guards


class Review:
    """Feed it the events of one run, in order, then read what came of it.

    ``logged``: the events are a log of ours, with the verdicts of its own watchdog.
    """

    def __init__(self, run: str, settings: Settings, *, logged: bool = True) -> None:
        self.run = run
        self.outcome = "unknown"
        self.source = ""
        self.model = ""
        self.judgements: list[Judgement] = []
        self.calls = 0
        """Calls that were proposed."""
        self.saved = 0
        """Calls of the record that would not have been run."""
        self.failed: dict[str, str] = {}
        """Detectors that failed and were switched off, with their first error."""
        self._settings = settings
        self._judge: Judge | None = None
        self._guards: list[CallGuard] = []
        self._folds: dict[type[Event], list[Callable[[Any], None]]] = {}
        self._asked: set[str] = set()
        self._turned_away: dict[str, tuple[str, Refuse | Reuse]] = {}
        self._waiting: dict[str, CallAdmitted] = {}
        """Calls that a guard would ask about, until the log says what came of that."""
        self._positions: dict[str, int] = {}
        self._tools = settings.tools
        self._arguments: dict[str, str] = {}
        """By call id, where a tool declares that only some of them count, a call is blocked by what it has in common
        with others, or a rule looks at them."""
        self._likes = self._looks = False
        self._wording = Wording()
        self._ended_n = array("q")
        self._ended_at = array("q")
        """Event numbers of results, and the indices of their calls."""
        self._over = False
        self._ended = False
        self._log_said = (0, "")
        self._log_paused: set[int] = set()
        self._logged: dict[tuple[int, str], str] = {}
        self._found_in_log: set[tuple[str, str, int]] = set()
        self._anew: dict[tuple[int, str], tuple[str, Finding]] = {}
        self._is_log = logged

    def observe(self, event: Event) -> None:
        """One event. The log's own verdicts are kept to be compared; they decide nothing."""
        if type(event) is Unknown:
            return
        if (isinstance(event, RunStarted) and not event.continued) or self._judge is None:
            self._begin(event if isinstance(event, RunStarted) else None)
        if isinstance(event, RunEnded):
            self.outcome = event.outcome.status
            self._ended = True
        elif isinstance(event, CallProposed):
            self._positions[event.call_id] = self.calls
            self.calls += 1
            self.saved += self._over
            if self._likes or self._looks or (self._tools and self._known(event.tool).loop_key is not None):
                self._arguments[event.call_id] = event.arguments
        elif isinstance(event, FindingMade | Nudged | Blocked | Paused | Stopped):
            self._note_log(event)
            return
        if not self._over:
            self._consider(event)

    def first(self, action: str) -> int | None:
        """The position of the first judgement of this kind."""
        return next((one.position for one in self.judgements if one.action == action), None)

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
        if event is not None and self._is_log:
            self.source, self.model = event.agent, event.model
        self._looks = any(rule.when or rule.unless for rule in profile.rules)
        wording = self._wording
        mode, attended = profile.mode, False  # nobody is there to let a run go on that was recorded elsewhere
        if event is not None and self._is_log:
            attended = event.attended
            if event.mode in MODES and settings.profile is None:
                mode = event.mode
        self._judge = Judge(profile.thresholds, mode=mode, attended=attended, extra=settings.extra, wording=wording)
        self._guards = settings.guards_of(profile, wording)
        self._folds = {}
        for guard in self._guards:
            for kind, apply in guard.folds.items():
                self._folds.setdefault(kind, []).append(apply)

    def _consider(self, event: Event) -> None:
        if isinstance(event, CallAdmitted):
            self._ask(event, event.call_id, event.tool, event.key, Effect(event.reads, event.writes))
            if event.call_id in self._turned_away:
                return
        elif isinstance(event, ApprovalResolved):
            if event.how in SCOPES and (admitted := self._waiting.pop(event.call_id, None)) is not None:
                del self._turned_away[event.call_id]  # somebody was there, and permitted it
                self._pass(admitted)
        elif isinstance(event, CallStarted) and event.call_id in self._turned_away:
            return
        elif isinstance(event, CallEnded):
            event = self._settled(event)
        self._pass(event)

    def _pass(self, event: Event) -> None:
        for apply in self._folds.get(type(event), ()):
            apply(event)
        assert self._judge is not None
        judged = self._judge.observe(event)
        if judged is None:
            return
        for detector, error in judged.failed:
            self.failed.setdefault(detector, error)
        for finding, verdict in judged.found:
            if verdict is not None and not self._over:
                self._rule(event, finding, verdict)

    def _settled(self, event: CallEnded) -> CallEnded:
        """The end of a call as it would have been: as recorded, unless a guard turned the call away."""
        result = event.result
        if result.call_id not in self._asked and result.error not in NOT_ASKED and result.kind != "not_run":
            self._ask(event, result.call_id, result.tool, event.key, WRITES)
        self._asked.discard(result.call_id)
        self._waiting.pop(result.call_id, None)
        self._arguments.pop(result.call_id, None)
        guard, decision = self._turned_away.pop(result.call_id, ("", None))
        position = self._positions.pop(result.call_id, self.calls - 1)
        self._ended_n.append(event.n)
        self._ended_at.append(position)
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
        known, written = self._known(tool), self._arguments.get(call_id)
        values = _values(written) if (self._likes or self._looks) and written is not None else {}
        identity = ""
        if written is not None and known.loop_key is not None:
            identity = call_key(tool, written.encode("utf-8", "replace"))
        proposal = Proposal(call_id, known, values, key, effect, event.turn, event.slot, event.t, identity)
        asked: tuple[str, Refuse | Reuse] | None = None
        for guard in self._guards:
            if guard.name == Scoped.name and not (self._is_log and isinstance(event, CallAdmitted)):
                continue  # what the call touches is not told
            decision = guard.call(proposal)
            if isinstance(decision, Refuse | Reuse):
                self._turned_away[call_id] = (guard.name, decision)
                return
            if isinstance(decision, Ask):  # nobody was there
                told = self._wording.no_approval(tool, decision.why)
                asked = asked or (guard.name, decision.nobody or Refuse(told.text, "no_approval", "denied"))
        if asked is not None:
            self._turned_away[call_id] = asked
            if isinstance(event, CallAdmitted):
                self._waiting[call_id] = event

    def _known(self, tool: str) -> RecordedTool:
        return self._tools.get(tool) or RecordedTool(tool)

    def _rule(self, event: Event, finding: Finding, verdict: Verdict) -> None:
        self._anew[event.n, finding.detector] = (verdict.action, finding)
        self.judgements.append(self._judgement(verdict.action, finding, event.n))
        if verdict.action == "stop":
            self._over = True
        elif verdict.action == "block":
            self._likes = self._likes or any(key.startswith("like:") for key in finding.keys)
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

    def _judgement(self, action: str, finding: Finding, n: int) -> Judgement:
        position, began = max(self.calls - 1, 0), self._began(finding)
        since = finding.calls_since or (position - began + 1 if began is not None else None)
        return Judgement(
            position,
            action,
            finding.detector,
            finding.pattern,
            finding.tool,
            n,
            finding.count,
            began,
            since,
            finding.tokens_since or None,
        )

    def _began(self, finding: Finding) -> int | None:
        """The index of the call whose result was the onset: the first one to end at it or later."""
        index = bisect_right(self._ended_n, finding.onset - 1)
        return self._ended_at[index] if finding.onset and index < len(self._ended_at) else None

    # -- the log's own verdicts --------------------------------------------------------------------------------------

    def _note_log(self, event: FindingMade | Nudged | Blocked | Paused | Stopped) -> None:
        if isinstance(event, FindingMade):
            self._found_in_log.add(_named(event.finding))
        elif isinstance(event, Blocked):
            self._log_said = (event.cause, event.by)
            self._logged[event.cause, event.by] = "block"
        elif isinstance(event, Nudged):
            if (event.cause, event.by) != self._log_said:  # a block or a pause comes with a word to the model
                self._logged[event.cause, event.by] = "nudge"
        elif isinstance(event, Paused):
            if event.verdict is not None:  # else somebody else paused it
                self._log_said = (event.cause, event.verdict.finding.detector)
                self._log_paused.add(event.n)
                self._logged[self._log_said] = "pause"
        elif event.cause not in self._log_paused:  # else nobody came in time, which is no verdict of its own
            finding = event.verdict.finding
            self._logged[event.cause, finding.detector] = "stop"
            if finding.detector == "silence":  # its clock is not in the record: as the log has it
                self.judgements.append(self._judgement("stop", finding, event.n))
                self._over = True


def _values(arguments: str) -> dict[str, Any]:
    """The arguments as values; nothing where the record has them cut."""
    try:
        values = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _named(finding: Finding) -> tuple[str, str, int]:
    return finding.detector, finding.pattern, finding.count
