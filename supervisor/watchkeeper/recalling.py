"""Puts a run where an attempt that died has left it: its facts are folded anew, and what was under way is taken up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .approvals import Kept, Resolution
from .engine import Lease
from .guards.observed import Observed
from .guards.sideeffects import SideEffects
from .messages import (
    Call,
    CallProposed,
    ChildEnded,
    Event,
    LimitsRaised,
    ModelReplied,
    Recovered,
    RunEnding,
    Settled,
)
from .orphans import ORPHANED, end_orphans, told
from .recovery.past import MOST_CRASHES, Past, Question
from .recovery.purse import Purse, spend, used_of
from .recovery.times import Times
from .recovery.turns import Turns
from .run import Ending, Run

if TYPE_CHECKING:
    from .guards.guard import CallGuard
    from .seams import Seams
    from .wording import Wording


class Before(NamedTuple):
    """What the attempts before have left of a run."""

    facts: Sequence[Event]
    past: Past
    children: Mapping[str, dict[str, Any]]
    """Of each sub-agent, what its end was."""
    crashes: bool
    """It has died too often without getting any further: it is not executed any more."""

    @property
    def commands(self) -> set[str]:
        """Commands that it or a sub-agent has taken."""
        return self.past.commands.union(*(end["commands"] for end in self.children.values()))


async def before(lease: Lease, facts: Sequence[Event], seams: Seams, wording: Wording) -> Before:
    """Look at it, and end the sub-agents. Raises what the engine raises."""
    past = Past(facts)
    crashes = past.crashes or (lease.crashes >= MOST_CRASHES and not past.waits)
    return Before(facts, past, await end_orphans(lease, seams, wording), crashes)


CRASHING = "crashing"
"""Reason with which a run goes to a person at which attempt after attempt has died."""


def recall(run: Run, facts: Sequence[Event], past: Past, guards: Sequence[CallGuard]) -> Turns:
    """Fold the facts: log, conversation, budget, guards, detectors, plan and agent stand as they stood. Nothing is
    written, and nobody is asked."""
    executor, actor, watchdog = run.executor, run.actor, run.watchdog
    assert executor is not None
    assert actor is not None
    assert watchdog is not None
    names = {guard.name for guard in guards}
    turns, times = Turns(run.agent.limits.finish_turns), Times()
    purse = Purse(past, lambda: run.drawn, executor.counted)
    base = run.seams.clock() - past.t

    def also(event: Event) -> None:
        times.observe(event)
        if isinstance(event, CallProposed) and event.call_id not in past.open:
            by = past.turned_away.get(event.call_id)
            if event.call_id in past.admitted or by in names:
                call = Call(event.call_id, event.tool, event.arguments, event.slot)
                executor.remember(call, event.turn, base + event.t, by)
        elif isinstance(event, LimitsRaised):
            run.raise_limits(event.amounts)
        purse.observe(event)
        acted = isinstance(event, ModelReplied) and event.n in past.acted and not turns.tools_off
        actor.remember(event, acted, times.wall)
        turns.observe(event)
        watchdog.remember(event)

    run.log.restore(facts, also)
    run.budget.count_holds_from(purse.holds)
    run.root.descendants += past.spawned
    return turns


def take_up(run: Run, earlier: Before, turns: Turns, guards: Sequence[CallGuard], attempt: int) -> None:
    """Write that this attempt goes on, and with what; charge what was held; say what the attempt that died had come to
    say no more."""
    past, children = earlier.past, earlier.children
    executor, actor, watchdog, log = run.executor, run.actor, run.watchdog, run.log
    assert executor is not None
    assert actor is not None
    assert watchdog is not None
    wrote = _wrote(past, children)
    unknown = {one.call_id for one in past.unknown} | wrote
    log.append(
        Recovered,
        attempt=attempt,
        unknown=tuple(call for call in past.open if call in unknown),
        again=tuple(call for call, begun in past.open.items() if begun.started and call not in unknown),
        agent=run.agent.name,
    )
    for hold in past.holds.values():
        used = used_of(past, hold)
        spend(run.drawn, used)
        estimated = bool(used) and not hold.slot
        turns.observe(log.append(Settled, slot=hold.slot, amounts=used, held=hold.held, estimated=estimated))
    for child in past.children:
        end = children.get(child, {"status": "cancelled", "reason": ORPHANED})
        ended = log.append(ChildEnded, child=child, **told(end))
        spend(run.drawn, ended.spent)
    for guard in guards:
        inner = guard.observed if isinstance(guard, Observed) else guard
        if isinstance(inner, SideEffects):
            inner.take_up(past.unknown)
    run.asking.take_up(past, _kept(run, past, unknown))
    executor.take_up(past, wrote)
    actor.take_up(turns, turns.reply is not None and turns.reply.n in past.acted)
    run.take_up(past)
    if past.ending is not None:
        run.end(_ending(run, past.ending, turns))
    elif earlier.crashes:
        run.end(Ending("handed_over", CRASHING))
    watchdog.take_up()


def _wrote(past: Past, children: Mapping[str, dict[str, Any]]) -> set[str]:
    """Calls without a result that only read themselves, and started a sub-agent in which a writing call began: run
    again they would start another one, which would write under keys of its own."""
    known = {one.call_id for one in past.unknown}
    return {
        call
        for call in past.open
        if call not in known and any(children[one]["wrote"] for one in past.spawned_by.get(call, ()) if one in children)
    }


def _ending(run: Run, fact: RunEnding, turns: Turns) -> Ending:
    """How it was to end: its outcome was about to be written."""
    if fact.status != "completed":
        return Ending(fact.status, fact.reason)
    form, value = run.agent.form, None
    if form is not None:
        from .answers.form import Fitted

        read = form.read(turns.last_text, run.log.redaction.anything)
        value = read.value if isinstance(read, Fitted) else None
    return Ending("completed", fact.reason, answer=turns.last_text, forced=turns.finishing is not None, value=value)


def _kept(run: Run, past: Past, unknown: set[str]) -> dict[str, Kept]:
    """The approvals that calls without a result have asked for. A yes that was given before a call was started counts
    no more for running it again, where its tool says that a person is to be asked about that."""
    kept: dict[str, Kept] = {}
    for call_id, asked in past.asked.items():
        question, begun = asked[-1], past.open.get(call_id)
        request = question.request
        if begun is None and (call_id or question.resolved is not None):
            continue
        if begun is not None and call_id in unknown and request.n < begun.started and _asks(run, begun.tool):
            continue
        left = max(request.seconds - (past.t - request.t), 0.0)
        kept[call_id] = Kept(request.approval, request.arguments_hash, left, _resolution(question))
    return kept


def _asks(run: Run, tool: str) -> bool:
    found = run.executor.tools.get(tool) if run.executor is not None else None
    return found is None or found.after_crash != "retry"


def _resolution(question: Question) -> Resolution | None:
    resolved = question.resolved
    return None if resolved is None else Resolution(resolved.how, resolved.by, resolved.reason)
