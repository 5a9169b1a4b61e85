"""The report on a run, as data: what was to be done, what was done, why it ended, what is open. Pure.

What a model or a tool has said is cut in it and otherwise as it was: who shows it makes it harmless.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ..messages import CallRecord, Event, Finding, Outcome
from ..profiles import DIMENSIONS
from .picture import Draft, Picture
from .story import Attempt, Step, Story, cut

GOAL, TEXT = 4_000, 20_000
"""Characters of the goal, and of an answer."""
LISTED = 30
"""Calls in a list, and tools."""
REJECTED = 5
CAUSE = 4_000
NOT_EXECUTED = ("refused", "denied", "not_run")
CUT_OFF = ("cancelled", "timed_out")
"""How a call ends that was stopped in the middle of its work."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the calls of one tool; ``seconds`` is the sum of what they ran."""

    tool: str
    calls: int
    finished: int
    found: int
    """Of the finished ones those that found something."""
    failed: int
    not_executed: int
    seconds: float


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension of the budget."""

    name: str
    spent: float
    limit: float | None = None
    unknown: int = 0
    """Requests of which nobody knows what they cost: ``spent`` is the least that it was."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What :func:`report_of` makes of a run. ``began`` is UTC in seconds since the epoch; 0 if no fact is there."""

    run: str
    agent: str
    model: str
    profile: str
    goal: str
    outcome: Outcome
    """As it is, without the conversation and the records of calls, and with long texts cut."""
    began: float
    finding: Finding | None
    """What the watchdog ended it for."""
    uses: tuple[Use, ...]
    more_uses: int
    calls: int
    steps: tuple[Step, ...]
    left_out: int
    """Turns in the middle that are not told."""
    first: int
    """Number of the first fact that was there to be read; what lies before it is known from totals alone."""
    evidence: tuple[Attempt, ...]
    more_evidence: int
    unsettled: tuple[Attempt, ...]
    """Calls that were cut off or given up while they worked: what they have done, nobody knows."""
    more_unsettled: int
    not_executed: tuple[Attempt, ...]
    more_not_executed: int
    spend: tuple[Line, ...]
    picture: Picture
    runs: tuple[str, ...] = ()
    """The runs that this one continues, oldest first."""

    def told(self) -> Iterator[tuple[int, Step]]:
        """The steps, and with the one behind the gap how many turns are left out before it."""
        left_out = self.left_out
        for before, step in zip((None, *self.steps), self.steps, strict=False):
            gap = left_out if before is not None and step.turn > before.turn + 1 else 0
            yield gap, step
            left_out -= gap


def report_of(
    outcome: Outcome,
    events: Iterable[Event],
    *,
    goal: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    limits: Mapping[str, float | None] | None = None,
    runs: Sequence[str] = (),
) -> Report:
    """The report on a run that has ended, from its outcome and what there is of its log.

    Its numbers are those of the outcome, however much of the log is there. What is not given of goal, agent, model and
    limits comes from the fact of the run's start, if that is there.
    """
    records = outcome.calls
    evidence = [call for call in records if call.productive]
    unsettled = [call for call in records if _is_unsettled(call)]
    skipped = [call for call in records if call.kind in NOT_EXECUTED]
    listed = [call.id for calls in (evidence, unsettled, skipped) for call in calls[-LISTED:]]
    story, draft = Story(frozenset(listed)), Draft()
    for event in events:
        if event.run == outcome.run:
            story.observe(event)
            draft.observe(event)
    begun = story.begun
    if limits is None:
        limits = begun.limits if begun is not None else {}
    uses, steps = list(_uses(records)), story.steps()
    return Report(
        run=outcome.run,
        agent=agent if agent is not None else begun.agent if begun is not None else "",
        model=model if model is not None else begun.model if begun is not None else "",
        profile=begun.profile if begun is not None else "",
        goal=cut(goal if goal is not None else begun.task if begun is not None else "", GOAL),
        outcome=_without_bulk(outcome),
        began=story.at,
        finding=outcome.verdict.finding if outcome.verdict is not None else None,
        uses=tuple(uses[:LISTED]),
        more_uses=max(len(uses) - LISTED, 0),
        calls=len(records),
        steps=steps,
        left_out=story.turns - len(steps),
        first=story.first,
        evidence=tuple(map(story.attempt, evidence[-LISTED:])),
        more_evidence=max(len(evidence) - LISTED, 0),
        unsettled=tuple(map(story.attempt, unsettled[-LISTED:])),
        more_unsettled=max(len(unsettled) - LISTED, 0),
        not_executed=tuple(map(story.attempt, skipped[-LISTED:])),
        more_not_executed=max(len(skipped) - LISTED, 0),
        spend=tuple(_spend(outcome, limits)),
        picture=draft.picture(),
        runs=tuple(runs),
    )


def _is_unsettled(call: CallRecord) -> bool:
    return call.kind == "abandoned" or (call.kind in CUT_OFF and call.wrote)


def _uses(records: Iterable[CallRecord]) -> Iterator[Use]:
    """By tool, those that were called most first."""
    by_tool: dict[str, list[CallRecord]] = {}
    for record in records:
        by_tool.setdefault(record.tool, []).append(record)
    for tool, calls in sorted(by_tool.items(), key=lambda item: (-len(item[1]), item[0])):
        finished = sum(call.kind == "finished" for call in calls)
        skipped = sum(call.kind in NOT_EXECUTED for call in calls)
        yield Use(
            tool=tool,
            calls=len(calls),
            finished=finished,
            found=sum(call.productive for call in calls),
            failed=len(calls) - finished - skipped,
            not_executed=skipped,
            seconds=sum(call.ran for call in calls),
        )


def _spend(outcome: Outcome, limits: Mapping[str, float | None]) -> Iterator[Line]:
    """Every dimension in which something was spent, or is limited."""
    spent: dict[str, float] = {"seconds": outcome.seconds, "working_seconds": outcome.working_seconds, **outcome.spent}
    names = (*DIMENSIONS, "seconds", "working_seconds", *limits, *spent, *outcome.unknown)
    for name in list(dict.fromkeys(names))[: 2 * LISTED]:
        amount, limit = _finite(spent.get(name)) or 0.0, _finite(limits.get(name))
        unknown = outcome.unknown.get(name, 0)
        if amount or limit is not None or unknown:
            yield Line(name=name, spent=amount, limit=limit, unknown=unknown)


def _finite(amount: float | None) -> float | None:
    return amount if amount is not None and math.isfinite(amount) else None


def _without_bulk(outcome: Outcome) -> Outcome:
    return msgspec.structs.replace(
        outcome,
        history=(),
        calls=(),
        evidence=(),
        not_executed=(),
        answer=cut(outcome.answer, TEXT) if outcome.answer is not None else None,
        partial=cut(outcome.partial, TEXT) if outcome.partial is not None else None,
        rejected=tuple(cut(text, TEXT // REJECTED) for text in outcome.rejected[-REJECTED:]),
        cause=cut(outcome.cause, CAUSE) if outcome.cause is not None else None,
    )
