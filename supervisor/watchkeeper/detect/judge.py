"""The judge: puts facts together to rounds, asks the detectors, and lets the ladder decide. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from ..fingerprint import error_signature, result_key
from ..ladder import REASONS, GuardMode, Ladder, steps_of
from ..messages import (
    Action,
    CallEnded,
    CallProposed,
    ChildEnded,
    Event,
    Finding,
    ModelReplied,
    RunStarted,
    Settled,
    UserMessage,
    Verdict,
)
from ..thresholds import Thresholds
from ..wording import Wording
from .badarguments import BadArguments
from .breaker import Breaker
from .chant import Chants
from .churn import Churn
from .compaction import Compaction
from .complaint import Complaint
from .cycle import Cycle
from .detector import Detector, Factory, RunDetector, RunFactory, When
from .equal import Equal
from .equal_any import EqualAny
from .failing import Erring, Failing
from .fruitless import Fruitless
from .handover import HandOver
from .interleaved import Interleaved
from .monologue import Monologue, Thoughts
from .poll import Poll
from .recurring import Recurring
from .round import FAILURES, FEW, OURS, Pair, Ring, Round
from .saying import is_acknowledgement
from .similar import Similar
from .spent import Spent
from .stale import Stale
from .turnedaway import TurnedAway
from .volume import Volume
from .waiting import goes_on, is_poll

BUILT_IN: tuple[Factory, ...] = (
    *(Equal, EqualAny, Cycle, Interleaved, Recurring, Poll, Failing, Erring, Complaint, BadArguments, TurnedAway),
    *(Similar, Fruitless, Churn, Stale, Chants, Monologue, Thoughts, Compaction, Breaker),
)
"""The detectors of this package that follow one agent context, in the order in which they are asked."""
OF_RUNS: tuple[RunFactory, ...] = (HandOver, Volume)
"""Those that follow a run with all its contexts."""

PLAIN = (tuple, list)
RECOGNISER = "recent"
"""The name under which the recogniser of volatile parts is switched off if it fails, as a detector is."""
TURNED_AWAY = ("refused", "denied")
APART = 3
"""Findings of one detector in one round up to which each has a message of its own."""
CALLS = 64
"""Calls that a finding names at most."""
CONTEXTS = 64
"""Agent contexts that are followed at once."""


class Judged:
    """What came of one fact: findings with the ladder's verdict (or none), and detectors that failed."""

    __slots__ = ("failed", "found")

    def __init__(self) -> None:
        self.found: list[tuple[Finding, Verdict | None]] = []
        self.failed: list[tuple[str, str]] = []


class _Desk:
    """The detectors of one agent context, their ring, and the round that is not whole yet."""

    __slots__ = ("asked", "blocked", "detectors", "ended", "expected", "folds", "fresh", "open", "over", "ring")

    def __init__(self, detectors: list[Detector], window: int) -> None:
        self.ring = Ring(window)
        self.detectors: list[Any] = detectors
        self.folds = _folds_of(detectors)
        self.asked = _asked(tuple([getattr(one, "when", "always") for one in detectors]))
        self.fresh = True
        """Whether they have heard nothing yet."""
        self.over = False
        """Whether a user has spoken since: they are made anew, once there is something for them."""
        self.blocked: frozenset[str] = frozenset()
        """Keys of calls that a verdict has blocked."""
        self.expected = 0
        self.open = 0
        self.ended: list[CallEnded] = []


@lru_cache(maxsize=16)
def _asked(whens: tuple[When, ...]) -> tuple[array[int], ...]:
    """By what a round is, the sum of ``KNOWN`` and so on: the places of the detectors that are asked about it;
    ``~place`` of one that is asked only if it is busy."""
    rows = []
    for number in range(8):
        known, troubled, polls = (bool(number & bit) for bit in (KNOWN, TROUBLED, POLLS))
        at_once = {"always": True, "known": known, "trouble": troubled, "polls": polls}
        asked = [
            place if at_once[when] else ~place
            for place, when in enumerate(whens)
            if at_once.get(when) or when in ("trouble", "polls")
        ]
        rows.append(array("h", asked))
    return tuple(rows)


KNOWN, TROUBLED, POLLS = 1, 2, 4
ASKED = _asked(tuple([getattr(one, "when", "always") for one in BUILT_IN]))
"""The table that all judges without a third party's detectors share."""


class Judge:
    """Feed it every fact of a run, in order; it answers with what to do. Equal facts give equal answers.

    It decides on tool, arguments, result, error, agent context and user turn alone; times only sharpen. Facts without
    turns (recorded runs) count each call as a round of its own.
    """

    __slots__ = (
        "_desks", "_factories", "_failed", "_folds_of_run", "_fresh", "_kinds", "_ladder", "_mode", "_of_run", "_off",
        "_polls", "_spent", "_thresholds", "_wording",
    )  # fmt: skip

    def __init__(
        self,
        thresholds: Thresholds | None = None,
        *,
        mode: GuardMode = "enforce",
        attended: bool = False,
        extra: Iterable[Factory] = (),
        wording: Wording | None = None,
    ) -> None:
        self._thresholds = thresholds or Thresholds()
        self._factories = (*BUILT_IN, *extra)
        self._ladder = Ladder(steps_of(self._thresholds), mode, attended=attended)
        self._mode = mode
        self._wording = wording or Wording()
        self._polls: frozenset[str] = frozenset()
        self._off: frozenset[str] = frozenset()
        self._failed: list[tuple[str, str]] = []
        """Detectors that could not be made, until it is reported."""
        self._desks: dict[str, _Desk] = {}
        self._spent = Spent()
        self._of_run: list[RunDetector] = []
        self._folds_of_run: _Folds = {}
        self._fresh = True
        """Whether the detectors have heard nothing yet."""
        self._kinds: frozenset[type] = frozenset()
        """Facts that detectors of an agent context fold."""
        self._begin()

    def observe(self, event: Event) -> Judged | None:
        kind = type(event)
        fold = _OWN.get(kind)
        judged = fold(self, event) if fold is not None else None
        if kind in self._kinds or kind in self._folds_of_run:
            judged = self._tell(event, judged)
        return judged

    def scoreboard(self) -> Mapping[str, Any]:
        """How the detectors stand, for a snapshot."""
        return {
            "window": self._thresholds.window,
            "switched_off": sorted(self._off),
            "climbed": self._ladder.standing(),
        }

    def rule(self, finding: Finding) -> Verdict | None:
        """Ask the ladder about a finding of somebody else's (silence)."""
        action = self._ladder.judge(finding)
        return self._verdict(action, finding) if action else None

    def _desk(self, context: str) -> _Desk:
        self._fresh = False
        desk = self._desks.get(context)
        if desk is not None and desk.over:
            del self._desks[context]
            desk = None
        if desk is None:
            desk = self._desks[context] = _Desk(self._make(), self._thresholds.window)
            self._kinds |= desk.folds.keys()
            if len(self._desks) > CONTEXTS:
                self._desks.pop(next((name for name, other in self._desks.items() if not other.open), context))
        elif len(self._desks) > 1:
            self._desks[context] = self._desks.pop(context)  # the one that was used last comes last
        desk.fresh = False
        return desk

    def _make(self) -> list[Detector]:
        detectors = []
        for make in self._factories:
            try:
                detector = make(self._thresholds, self._polls)
                self._ladder.declare(detector)
                if detector.name not in self._off:
                    detectors.append(detector)
            except (Exception, SystemExit) as error:
                self._factories = tuple(other for other in self._factories if other is not make)
                name = str(getattr(make, "name", None) or getattr(make, "__name__", repr(make)))
                self._off |= {name}
                self._failed.append((name, f"{type(error).__name__}: {error}"))
        return detectors

    def _begin(self) -> None:
        self._desks.clear()
        self._desk("main").fresh = True
        self._of_run = [make(self._thresholds, self._polls) for make in OF_RUNS]
        self._folds_of_run = _folds_of(self._of_run)
        self._fresh = True

    def _started(self, event: RunStarted) -> None:
        before, self._polls = self._polls, frozenset(event.polls)
        # What goes on after a crash or a pause is the same run; at the beginning all is made already.
        if not (event.continued and self._desks) and not (self._fresh and self._polls == before):
            self._begin()

    def _tell(self, event: Event, judged: Judged | None) -> Judged | None:
        """Ask the detectors that follow this kind of fact."""
        self._fresh = False
        kind = type(event)
        made = judged or Judged()
        found: list[tuple[str, list[Finding]]] = []
        if kind in self._kinds:
            # Of a user's word only those hear that keep a round in the making.
            desk = self._desks.get(event.context) if kind is UserMessage else self._desk(event.context)
            hear = desk is not None and not desk.fresh and not desk.over
            for detector, fold in desk.folds.get(kind, ()) if desk is not None and hear else ():
                self._ask(detector.name, found, made, fold, event)
        for detector, fold in self._folds_of_run.get(kind, ()):
            self._ask(detector.name, found, made, fold, event)
        if found:
            self._weigh(found, self._desk(event.context), event.context, made)
        return made if made.found or made.failed else judged

    def _ask(
        self,
        name: str,
        found: list[tuple[str, list[Finding]]],
        judged: Judged,
        ask: Callable[..., Iterable[Finding]],
        *about: Any,
    ) -> None:
        """Ask one detector. One that fails is switched off."""
        if self._off and name in self._off:
            return
        try:
            findings = ask(*about)
            if findings or type(findings) not in PLAIN:
                _note(name, findings, found)
        except (Exception, SystemExit) as error:
            self._switch_off(name, error, judged)

    def _switch_off(self, name: str, error: BaseException, judged: Judged) -> None:
        self._off |= {name}
        judged.failed.append((name, f"{type(error).__name__}: {error}"))

    def _user_spoke(self, event: UserMessage) -> None:
        # A repeat across user messages is often honest: windows begin anew. A round in the making is kept.
        old = self._desks.get(event.context)
        if old is None or old.fresh:
            return
        old.over = True
        if old.ended or old.open:
            desk = self._desk(event.context)
            desk.ended, desk.open, desk.expected = old.ended, old.open, old.expected

    def _replied(self, event: ModelReplied) -> None:
        desk = self._desk(event.context)
        desk.expected = len(event.calls) if event.stored else 0
        if desk.ended or desk.open:  # what is left of a turn that was broken off belongs to no round
            desk.ended, desk.open = [], 0

    def _settled(self, event: Settled) -> None:
        self._spent.settled(event)

    def _child_ended(self, event: ChildEnded) -> None:
        self._spent.child_ended(event)

    def _proposed(self, event: CallProposed) -> None:
        self._desk(event.context).open += 1

    def _ended(self, event: CallEnded) -> Judged | None:
        context = event.context
        desk = self._desk(context)
        desk.open -= 1
        desk.ended.append(event)
        if desk.open > 0 or len(desk.ended) < desk.expected:
            return None
        ended, desk.ended, desk.expected, desk.open = desk.ended, [], 0, 0
        self._spent.calls.add(ended[0].n, len(ended))
        if len(ended) > 1:
            ended.sort(key=_slot)
        few = len(ended) <= FEW
        made = [self._pair(one, desk.ring, few) for one in ended]
        pairs = [pair for pair in made if pair is not None]
        if not pairs:
            return None
        whole = Round(pairs, len(ended))
        # The ring holds one pair a kind and round: a parallel fan-out of equal calls is one piece of evidence.
        desk.ring.add(whole)
        judged = Judged()
        if self._failed:
            judged.failed, self._failed = self._failed, []
        found: list[tuple[str, list[Finding]]] = []
        known = whole.moved or whole.wide or any([not pair.novel for pair in whole.pairs])
        kind = KNOWN * known + TROUBLED * whole.troubled + POLLS * whole.polls
        off, detectors, ring = self._off, desk.detectors, desk.ring
        for place in desk.asked[kind]:
            detector = detectors[place if place >= 0 else ~place]
            if off and detector.name in off:
                continue
            try:
                findings = () if place < 0 and not detector.busy else detector.round(whole, ring)
                if findings or type(findings) not in PLAIN:
                    _note(detector.name, findings, found)
            except (Exception, SystemExit) as error:
                self._switch_off(detector.name, error, judged)
        for wide in self._of_run:
            self._ask(wide.name, found, judged, wide.round, whole, ring, context)
        if found:
            self._weigh(found, desk, context, judged)
        return judged if judged.found or judged.failed else None

    def _weigh(self, found: Iterable[tuple[str, list[Finding]]], desk: _Desk, context: str, judged: Judged) -> None:
        """Let the ladder decide on what was found, and put alike findings of a round together."""
        taken: dict[tuple[str, Action | None], list[Finding]] = {}
        for name, findings in found:
            for finding in findings:
                action = self._ladder.judge(finding, context)
                if action is not None and _is_known(action, finding, desk, taken):
                    continue
                if action is not None or self._mode == "observe":
                    taken.setdefault((name, action), []).append(self._spent.of(finding))
        for (_, action), alike in taken.items():
            # A fan-out must not become a flood of messages.
            parts = [alike] if len(alike) > APART else [[finding] for finding in alike]
            for part in parts:
                finding = part[0] if len(part) == 1 else _together(part)
                if action == "block":
                    finding = _with_likes(finding, desk)
                verdict = self._verdict(action, finding, len(part) - 1) if action is not None else None
                judged.found.append((finding, verdict))
        judged.found.sort(key=_is_no_stop)  # a run that is stopped needs no further word

    def _pair(self, event: CallEnded, ring: Ring, few: bool) -> Pair | None:
        result = event.result
        if result.kind in ("cancelled", "abandoned", "not_run"):
            return None
        key = event.key or f"{result.tool}\0{event.arguments}"
        kind, by = result.kind, result.by
        refused = kind == "refused" and by in OURS
        # Equal calls of one batch share what the first one found; from memory answers a guard, in words of its own.
        reused = result.reused_from is not None and by is not None
        turned_away = kind in TURNED_AWAY
        if refused and few:
            key = ring.recent.known(result.tool, key, event.arguments)
        earlier = ring.result(key) if refused or reused else None
        if earlier is not None:
            compared = earlier
        elif turned_away:
            compared = f"{kind} {result.error} {by}"  # whatever the message says: seconds left, how often
        else:
            compared = event.result_key or result_key(result.content)
        pair = Pair(event.n, event.t, result.call_id, result.tool, key, compared, kind)
        pair.content, pair.arguments = result.content, event.arguments
        if result.error is not None:
            pair.error = result.error
        if turned_away or reused:
            pair.ran, pair.refused = False, refused
        if pair.ran and few and RECOGNISER not in self._off:
            try:
                failed = kind in FAILURES
                seen = ring.recent.recognise(result.tool, key, event.arguments, compared, result.content, failed)
                pair.key, pair.result, pair.like = seen.key, seen.result, seen.key != key
                pair.family, pair.near = seen.family, seen.near
                pair.drifted, pair.moved, pair.masked = seen.drifted, seen.moved, seen.masked
            except (Exception, SystemExit) as error:  # pairs are compared as they are from here on
                self._off |= {RECOGNISER}
                self._failed.append((RECOGNISER, f"{type(error).__name__}: {error}"))
        if kind in FAILURES and (text := event.detail or result.content).strip() and not (few and goes_on(pair)):
            pair.signature = error_signature(result.error or result.kind, text, event.arguments)
        if not few:
            if pair.tool in self._polls:
                pair.poll = True
        else:
            pair.poll = is_poll(pair, self._polls)
            pair.telling = pair.signature is not None or not pair.ran or not is_acknowledgement(pair.content)
        return pair

    def _verdict(self, action: Action, finding: Finding, more: int = 0) -> Verdict:
        reason = REASONS.get(finding.detector, "loop")
        return Verdict(action, finding, self._wording.verdict(action, finding, more).text, reason)


_OWN: dict[type, Callable[[Judge, Any], Judged | None]] = {
    RunStarted: Judge._started,
    UserMessage: Judge._user_spoke,
    ModelReplied: Judge._replied,
    CallProposed: Judge._proposed,
    CallEnded: Judge._ended,
    Settled: Judge._settled,
    ChildEnded: Judge._child_ended,
}
"""What the judge itself does with facts."""
_Folds = dict[type[Event], list[tuple[Any, Callable[[Any], Iterable[Finding]]]]]
"""By kind of fact: detectors that follow it, each with what takes it."""


def _folds_of(detectors: Iterable[Any]) -> _Folds:
    found: _Folds = {}
    for detector in detectors:
        for kind, fold in getattr(detector, "folds", {}).items():
            found.setdefault(kind, []).append((detector, fold))
    return found


def _note(name: str, findings: Iterable[Finding], found: list[tuple[str, list[Finding]]]) -> None:
    """Note what a detector returned."""
    findings = list(findings)
    if any(type(finding) is not Finding for finding in findings):
        raise TypeError("what it returned is no finding")
    if findings:
        found.append((name, findings))


def _with_likes(finding: Finding, desk: _Desk) -> Finding:
    """To block a call that comes with other arguments each time, what they have in common is named too."""
    likes = tuple(f"like:{one}" for key in finding.keys if (one := desk.ring.recent.spelled(key)) is not None)
    return msgspec.structs.replace(finding, keys=finding.keys + likes) if likes else finding


def _slot(event: CallEnded) -> int:
    return event.slot


def _together(alike: list[Finding]) -> Finding:
    """One finding for what a detector says of many calls of a round."""
    return msgspec.structs.replace(
        alike[0],
        calls=tuple(finding.calls[-1] for finding in alike[:CALLS] if finding.calls),
        keys=tuple(dict.fromkeys(key for finding in alike for key in finding.keys)),
    )


def _is_known(
    action: Action, finding: Finding, desk: _Desk, taken: Mapping[tuple[str, Action | None], list[Finding]]
) -> bool:
    """Whether a word or a block would only repeat: the calls are blocked already, or another detector has spoken of
    the same tool in this round."""
    keys = set(finding.keys)
    if action in ("nudge", "block") and ((keys and keys <= desk.blocked) or f"tool:{finding.tool}" in desk.blocked):
        return True
    if action == "block":
        desk.blocked |= keys
    return action == "nudge" and any(
        detector != finding.detector and finding.tool is not None and other.tool == finding.tool
        for (detector, did), alike in taken.items()
        if did is not None
        for other in alike
    )


def _is_no_stop(found: tuple[Finding, Verdict | None]) -> bool:
    return found[1] is None or found[1].action != "stop"
