"""The judge: puts facts together to rounds, asks the detectors, and lets the ladder decide. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ..fingerprint import error_signature, result_key
from ..ladder import REASONS, GuardMode, Ladder, steps_of
from ..messages import (
    Action,
    CallEnded,
    CallProposed,
    Event,
    Finding,
    ModelReplied,
    RunStarted,
    UserMessage,
    Verdict,
)
from ..thresholds import Thresholds
from ..wording import Wording
from .badarguments import BadArguments
from .breaker import Breaker
from .cycle import Cycle
from .detector import Detector, Factory
from .equal import Equal
from .equal_any import EqualAny
from .failing import Failing
from .poll import Poll
from .round import OURS, Pair, Ring, Round

BUILT_IN: tuple[Factory, ...] = (Equal, EqualAny, Cycle, Poll, Failing, BadArguments, Breaker)
"""The detectors of this package, in the order in which they are asked."""

FAILURES = ("failed", "timed_out")
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

    def __init__(self, detectors: list[Detector], window: int) -> None:
        self.ring = Ring(window)
        self.detectors = detectors
        self.blocked: set[str] = set()
        """Keys of calls that a verdict has blocked."""
        self.expected = 0
        self.open = 0
        self.ended: list[CallEnded] = []


class Judge:
    """Feed it every fact of a run, in order; it answers with what to do. Equal facts give equal answers.

    It decides on tool, arguments, result, error, agent context and user turn alone; times only sharpen. Facts without
    turns (recorded runs) count each call as a round of its own.
    """

    def __init__(
        self,
        thresholds: Thresholds | None = None,
        *,
        mode: GuardMode = "enforce",
        extra: Iterable[Factory] = (),
        wording: Wording | None = None,
    ) -> None:
        self._thresholds = thresholds or Thresholds()
        self._factories = (*BUILT_IN, *extra)
        self._ladder = Ladder(steps_of(self._thresholds), mode)
        self._mode = mode
        self._wording = wording or Wording()
        self._polls: frozenset[str] = frozenset()
        self._off: set[str] = set()
        self._failed: list[tuple[str, str]] = []
        """Detectors that could not be made, until it is reported."""
        self._desks: dict[str, _Desk] = {}
        self._fold: dict[type, Callable[[Any], Judged | None]] = {
            RunStarted: self._started,
            UserMessage: self._user_spoke,
            ModelReplied: self._replied,
            CallProposed: self._proposed,
            CallEnded: self._ended,
        }

    def observe(self, event: Event) -> Judged | None:
        fold = self._fold.get(type(event))
        return fold(event) if fold is not None else None

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
        desk = self._desks.get(context)
        if desk is None:
            desk = self._desks[context] = _Desk(self._make(), self._thresholds.window)
            if len(self._desks) > CONTEXTS:
                self._desks.pop(next(iter(self._desks)))
        return desk

    def _make(self) -> list[Detector]:
        detectors = []
        for make in self._factories:
            try:
                detector = make(self._thresholds, self._polls)
                if detector.name not in self._off:
                    detectors.append(detector)
            except Exception as error:
                self._factories = tuple(other for other in self._factories if other is not make)
                name = str(getattr(make, "name", None) or getattr(make, "__name__", repr(make)))
                self._off.add(name)
                self._failed.append((name, f"{type(error).__name__}: {error}"))
        return detectors

    def _started(self, event: RunStarted) -> None:
        self._polls = frozenset(event.polls)
        self._desks.clear()

    def _user_spoke(self, event: UserMessage) -> None:
        # A repeat across user messages is often honest: windows begin anew. A round in the making is kept.
        old = self._desks.pop(event.context, None)
        if old is not None and (old.ended or old.open):
            desk = self._desk(event.context)
            desk.ended, desk.open, desk.expected = old.ended, old.open, old.expected

    def _replied(self, event: ModelReplied) -> None:
        desk = self._desk(event.context)
        desk.expected = len(event.calls) if event.stored else 0
        if desk.ended or desk.open:  # what is left of a turn that was broken off belongs to no round
            desk.ended, desk.open = [], 0

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
        if len(ended) > 1:
            ended.sort(key=_slot)
        pairs = [pair for pair in (self._pair(one, desk.ring) for one in ended) if pair is not None]
        if not pairs:
            return None
        whole = Round(pairs)
        # The ring holds one pair a kind and round: a parallel fan-out of equal calls is one piece of evidence.
        desk.ring.add(whole.pairs)
        judged = Judged()
        taken: dict[tuple[str, Action | None], list[Finding]] = {}
        if self._failed:
            judged.failed, self._failed = self._failed, []
        for detector in desk.detectors:
            if self._off and detector.name in self._off:
                continue
            try:
                findings = list(detector.round(whole, desk.ring))
                if any(type(finding) is not Finding for finding in findings):
                    raise TypeError("what it returned is no finding")
            except Exception as error:
                self._off.add(detector.name)
                judged.failed.append((detector.name, f"{type(error).__name__}: {error}"))
                continue
            for finding in findings:
                action = self._ladder.judge(finding, context)
                if action is not None and _is_known(action, finding, desk, taken):
                    continue
                if action is not None or self._mode == "observe":
                    taken.setdefault((detector.name, action), []).append(finding)
        for (_, action), alike in taken.items():
            # A fan-out must not become a flood of messages.
            parts = [alike] if len(alike) > APART else [[finding] for finding in alike]
            for part in parts:
                finding = part[0] if len(part) == 1 else _together(part)
                verdict = self._verdict(action, finding, len(part) - 1) if action is not None else None
                judged.found.append((finding, verdict))
        judged.found.sort(key=_is_no_stop)  # a run that is stopped needs no further word
        return judged if judged.found or judged.failed else None

    def _pair(self, event: CallEnded, ring: Ring) -> Pair | None:
        result = event.result
        if result.kind in ("cancelled", "abandoned", "not_run"):
            return None
        key = event.key or f"{result.tool}\0{event.arguments}"
        kind, by = result.kind, result.by
        refused = kind == "refused" and by in OURS
        # Equal calls of one batch share what the first one found; from memory answers a guard, in words of its own.
        reused = result.reused_from is not None and by is not None
        turned_away = kind in TURNED_AWAY
        if (refused or reused) and key in ring.last_result:
            compared = ring.last_result[key][0]
        elif turned_away:
            compared = f"{kind} {result.error} {by}"  # whatever the message says: seconds left, how often
        else:
            compared = event.result_key or result_key(result.content)
        pair = Pair(event.n, event.t, result.call_id, result.tool, key, compared, kind)
        pair.error, pair.refused, pair.ran = result.error, refused, not (turned_away or reused)
        pair.content = result.content[:400]
        if kind in FAILURES:
            pair.signature = error_signature(result.error or result.kind, event.detail or result.content)
        return pair

    def _verdict(self, action: Action, finding: Finding, more: int = 0) -> Verdict:
        reason = REASONS.get(finding.detector, "loop")
        return Verdict(action, finding, self._wording.verdict(action, finding, more).text, reason)


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
    keys = {key for key in finding.keys if not key.startswith("tool:")}
    if action in ("nudge", "block") and keys and keys <= desk.blocked:
        return True
    if action == "block":
        desk.blocked |= keys
    return action == "nudge" and any(
        detector != finding.detector and other.tool == finding.tool
        for (detector, did), alike in taken.items()
        if did is not None
        for other in alike
    )


def _is_no_stop(found: tuple[Finding, Verdict | None]) -> bool:
    return found[1] is None or found[1].action != "stop"
