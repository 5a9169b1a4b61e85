"""Hand-over cycles: agents that pass control round and round, and one sub-task that is spawned again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..fingerprint import result_key
from ..messages import CallEnded, ChildEnded, ChildStarted, Event, Finding, UserMessage
from ..thresholds import PERIODS, Thresholds
from .round import Pair, Ring, Round

KNOWN = 400
"""Characters of an answer that a finding shows."""
TASKS = 16
"""Sub-tasks that are remembered: more than the supervisor lets a run start."""


class HandOver:
    """Sees the rounds of all agent contexts of a run, in order; it belongs to the run, not to one of them.

    A *stint* is what one agent does until another one is at work. Stints whose agents go round in a cycle count as laps
    as long as each shows nothing but pairs of call and result that this agent has just seen: agents that take turns
    with new work are no cycle, and neither are agents that poll or wait. An agent that is new (one worker a part of
    the work) has seen nothing before, whatever the others did.

    A *sub-task* is an agent of ours with its task. It counts while each run of it does the very same calls with the
    same results, or none at all, and nothing new happens in between, in this run or in another sub-task of it. A
    restart after a failure does not count: that it fails again and again is for the other detectors to say. Sub-agents
    that a host starts outside of any call are not judged.

    A message of the user begins all of it anew.
    """

    name = "handover"
    __slots__ = ("_ended", "_matched", "_news", "_onsets", "_running", "_stints", "_tasks")

    def __init__(self, thresholds: Thresholds, polls: frozenset[str] = frozenset()) -> None:
        self._stints: list[_Stint] = []
        """The last ones, as many as the longest cycle and one more."""
        self._matched = [0] * PERIODS.stop
        """By period: stints in a row, up to the last one that is over, that repeat the one a period before."""
        self._onsets = [0] * PERIODS.stop
        self._running: dict[str, tuple[str, str]] = {}
        """Call and key of each sub-agent at work."""
        self._ended: dict[str, _Child] = {}
        """What the sub-agents of each call have done, until its round is judged."""
        self._tasks: dict[str, _Task] = {}
        self._news = 0
        """How often something new has happened so far."""

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], Iterable[Finding]]]:
        return {
            ChildStarted: self._child_started,
            ChildEnded: self._child_ended,
            UserMessage: self._user_spoke,
        }

    def round(self, round: Round, ring: Ring, context: str) -> Iterable[Finding]:
        """``ring`` is that of the context, and holds the round already."""
        found = self._spawned(round, ring)
        stint = self._stints[-1] if self._stints else None
        if stint is not None and stint.fresh and stint.context == context:
            return found  # what it does from here on changes nothing
        news = any(self._is_news(pair, ring) for pair in round.pairs)
        if stint is None or stint.context != context:
            if stint is not None:
                found += self._over(stint, news)
            stint = _Stint(context, round.first.n)
            self._stints = [*self._stints[-PERIODS[-1] :], stint]
        stint.fresh = news
        stint.rounds += 1
        stint.call_id, stint.key = round.pairs[-1].call_id, round.pairs[-1].key
        return found if news else found + self._lap(stint)

    def _is_news(self, pair: Pair, ring: Ring) -> bool:
        return ring.count(pair) < 2 or pair.poll

    # -- cycles of agents --------------------------------------------------------------------------------------------

    def _over(self, stint: _Stint, news: bool) -> list[Finding]:
        """The stint has come to its end: count it, and say what it completes if that has not been said, unless what
        follows is news."""
        found = [] if stint.fresh or news else self._lap(stint, ended=True)
        stints, matched = self._stints, self._matched
        for period in PERIODS:
            if stint.fresh or len(stints) <= period or stints[-1 - period].context != stint.context:
                matched[period] = 0
                continue
            matched[period] += 1
            if matched[period] == 1:
                self._onsets[period] = stints[-1 - period].onset
        return found

    def _lap(self, stint: _Stint, ended: bool = False) -> list[Finding]:
        """The lap that the last stint completes: when it is as long as the one a period before, or has ended."""
        stints, found = self._stints, 0
        most, longest = 1, 0
        for period in PERIODS:
            if stint.told or len(stints) <= period:
                break
            if stints[-1 - period].context != stint.context or longest >= period:
                continue  # no repeat, or one that is made up of repeats of a shorter one
            streak = self._matched[period] + 1
            longest = max(longest, streak)
            laps, rest = divmod(streak + period, period)
            if not rest and laps > most:
                found, most = period, laps
        if not found or not (ended or stint.rounds >= stints[-1 - found].rounds):
            return []
        stint.told = True
        lap = stints[-found:]
        agents = [one.context for one in lap]
        return [
            Finding(
                detector=self.name,
                pattern=f"hand-over cycle of {found}: {' → '.join(agents)}"[:300],
                count=most,
                calls=tuple(one.call_id for one in lap),
                keys=tuple(sorted({one.key for one in lap})),
                subject=f"{found} {','.join(sorted(agents))}",
                onset=self._onsets[found] if self._matched[found] else stints[-1 - found].onset,
            )
        ]

    # -- sub-tasks ---------------------------------------------------------------------------------------------------

    def _spawned(self, round: Round, ring: Ring) -> list[Finding]:
        if not self._ended and not self._tasks:
            return []
        ended, self._ended = self._ended, {}
        children: dict[str, tuple[_Child, Pair]] = {}
        for pair in round.pairs:
            child = ended.get(pair.call_id) or self._refused(pair)
            if child is not None:
                children.setdefault(child.key, (child, pair))  # a parallel fan-out of one sub-task is one spawn
            else:
                self._news += self._is_news(pair, ring)
        return [found for child, pair in children.values() if (found := self._spawn(child, pair)) is not None]

    def _refused(self, pair: Pair) -> _Child | None:
        """A call that we refuse is one more try of what it was before."""
        if not pair.refused:
            return None
        return next((_Child(key, task.work) for key, task in self._tasks.items() if task.call == pair.key), None)

    def _spawn(self, child: _Child, pair: Pair) -> Finding | None:
        if child.failed:
            return None
        task = self._tasks.pop(child.key, None)
        if task is None or task.work != child.work:
            self._news += 1
        if task is None or task.work != child.work or task.news != self._news:
            task = _Task(child.work, pair, self._news)
        self._tasks[child.key] = task
        if len(self._tasks) > TASKS:
            self._tasks.pop(next(iter(self._tasks)))
        task.calls = (*task.calls[:1], *task.calls[1:][-6:], pair.call_id)
        task.count += 1
        if task.count < 2:
            return None
        return Finding(
            detector=self.name,
            pattern=f"sub-task of {pair.tool} spawned again with the very same work",
            count=task.count,
            calls=task.calls,
            keys=(pair.key,),
            subject=f"spawn {child.key}",
            tool=pair.tool,
            onset=task.onset,
            known=pair.content[:KNOWN],
        )

    def _child_started(self, event: ChildStarted) -> tuple[Finding, ...]:
        if event.call_id and event.key:
            self._running[event.child] = event.call_id, event.key
        return ()

    def _child_ended(self, event: ChildEnded) -> tuple[Finding, ...]:
        call_id, key = self._running.pop(event.child, ("", ""))
        if call_id:
            before = self._ended.get(call_id) or _Child("", "")
            failed = before.failed or event.status in ("failed", "cancelled")
            self._ended[call_id] = _Child(before.key + key, before.work + event.work, failed)
        return ()

    def _user_spoke(self, event: UserMessage) -> tuple[Finding, ...]:
        self._stints.clear()
        self._matched = [0] * PERIODS.stop
        self._tasks.clear()
        return ()


class Work:
    """What a sub-agent does, as one digest: a fold over its log that keeps eight bytes.

    Equal calls with equal results, in any order, give equal digests. What a sub-agent of its own answered is left out,
    for a model says the same thing in other words each time; what that one did is counted.
    """

    def __init__(self) -> None:
        self._sum = 0
        self._spawning: set[str] = set()

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        return {
            ChildStarted: self._child_started,
            ChildEnded: self._child_ended,
            CallEnded: self._ended,
        }

    @property
    def digest(self) -> str:
        return f"{self._sum:016x}" if self._sum else ""

    def _child_started(self, event: ChildStarted) -> None:
        self._spawning.add(event.call_id)

    def _child_ended(self, event: ChildEnded) -> None:
        self._add(event.work)

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        if result.call_id in self._spawning:
            self._spawning.discard(result.call_id)
            self._add(event.key)
        else:
            self._add(
                f"{event.key or event.arguments}\0{result.kind}\0{event.result_key or result_key(result.content)}"
            )

    def _add(self, what: str) -> None:
        # A sum: the calls of a turn may end in any order.
        data = hashlib.blake2b(what.encode("utf-8", "replace"), digest_size=8).digest()
        self._sum = (self._sum + int.from_bytes(data)) % 2**64


def task_key(agent: str, task: str, history: Iterable[str] = ()) -> str:
    """The key of a sub-task: equal agent, task (but for white space and case) and earlier conversation."""
    data = "\0".join((agent, " ".join(task.casefold().split()), *history))
    return hashlib.blake2b(data.encode("utf-8", "replace"), digest_size=16).hexdigest()


class _Stint:
    """What one agent did at a stretch."""

    __slots__ = ("call_id", "context", "fresh", "key", "onset", "rounds", "told")

    def __init__(self, context: str, onset: int) -> None:
        self.context = context
        self.onset = onset
        self.call_id = ""
        """Of its last call, with which it hands over as a rule; so is the key."""
        self.key = ""
        self.fresh = False
        self.rounds = 0
        self.told = False


class _Child:
    """What the sub-agents of one call have done."""

    __slots__ = ("failed", "key", "work")

    def __init__(self, key: str, work: str, failed: bool = False) -> None:
        self.key = key
        self.work = work
        self.failed = failed


class _Task:
    """One sub-task while nothing new happens."""

    __slots__ = ("call", "calls", "count", "news", "onset", "work")

    def __init__(self, work: str, pair: Pair, news: int) -> None:
        self.work = work
        self.call = pair.key
        """The key of the call that spawns it."""
        self.onset = pair.n
        self.news = news
        """How often something new had happened when it began."""
        self.count = 0
        self.calls: tuple[str, ...] = ()
