"""Ends the sub-agents of an attempt that died: a run tree goes on from its root alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .budget import Budget
from .detect.handover import Work
from .engine import Lease
from .history import OPEN, History
from .ledger import Ledger
from .log import Log
from .messages import (
    CallEnded,
    CancelConfirmed,
    CancelRequested,
    ChildEnded,
    Event,
    Outcome,
    Result,
    RunEnded,
    RunEnding,
    Settled,
    Status,
)
from .recovery.past import OUTCOME_UNKNOWN, Past
from .recovery.purse import Purse, used_of
from .recovery.turns import Turns
from .shared import charges_of

if TYPE_CHECKING:
    from .seams import Seams
    from .wording import Wording

ORPHANED = "orphaned"
"""Reason with which a sub-agent is cancelled whose parent goes on without it."""


async def close_unexecuted(lease: Lease, seams: Seams, wording: Wording, status: Status, reason: str) -> None:
    """Give a run that cannot be executed here its end record, and its sub-agents theirs. What was ending already
    ends as it was to."""
    ends = await end_orphans(lease, seams, wording)
    facts = [event async for event in lease.facts()]
    made, _ = _end(lease.run, "", facts, ends, seams, wording, status, reason)
    await lease.append(made, charges_of(lease.spec.budget, facts, made))


async def end_orphans(lease: Lease, seams: Seams, wording: Wording) -> dict[str, dict[str, Any]]:
    """Give each sub-agent that has none its end record, those that were started last first. By id what the parent's
    ``ChildEnded`` says of it (:func:`told`), its ``parent``, whether a writing call began in its tree (``wrote``), and
    the ``commands`` that it had taken.
    """
    ends: dict[str, dict[str, Any]] = {}
    for status in reversed(await lease.children()):
        facts = [event async for event in lease.facts(status.run)]
        made, ends[status.run] = _end(status.run, status.parent, facts, ends, seams, wording, "cancelled", ORPHANED)
        if made:
            await lease.append(made, charges_of(lease.spec.budget, facts, made))
    return ends


def told(end: Mapping[str, Any]) -> dict[str, Any]:
    """Of the end of a sub-agent what stands in ``ChildEnded``."""
    return {name: value for name, value in end.items() if name not in ("parent", "wrote", "commands")}


def _end(
    run: str,
    parent: str,
    facts: Sequence[Event],
    below: dict[str, dict[str, Any]],
    seams: Seams,
    wording: Wording,
    status: Status,
    reason: str,
) -> tuple[list[Event], dict[str, Any]]:
    """The facts that end it, and its end for the parent."""
    past, turns, budget, work = Past(facts), Turns(0), Budget(), Work()
    limits = past.started.limits if past.started is not None else {}

    def counted(tool: str) -> dict[str, float]:
        by_tool = f"calls:{tool}"
        return {"calls": 1, by_tool: 1} if by_tool in limits else {"calls": 1}

    purse = Purse(past, lambda: budget, counted)
    ledger, history = Ledger(), History()
    log = Log(run, seams, parent=parent or None, keep=len(facts) + 100_000)
    for fold in (ledger, history, work):
        log.attach(fold)

    def also(event: Event) -> None:
        purse.observe(event)
        turns.observe(event)

    log.restore(facts, also)
    if not past.ended:
        _append_end(log, past, below, purse, turns, ledger, history, wording, status, reason)
    made = [event for event in log.kept() if event.n > past.n]
    outcome = next(event.outcome for event in log.kept()[::-1] if isinstance(event, RunEnded))
    tree = [one for one in below.values() if one["parent"] == run]
    return made, {
        "status": outcome.status,
        "reason": outcome.reason,
        "calls": ledger.ended + sum(one["calls"] for one in tree),
        "tokens": int(outcome.spent.get("tokens", 0)),
        "spent": outcome.spent,
        "depth": 1 + max((one["depth"] for one in tree), default=0),
        "work": work.digest,
        "parent": parent,
        "commands": past.commands,
        "wrote": bool(past.keys) or any(one["wrote"] for one in tree),
    }


def _append_end(
    log: Log,
    past: Past,
    below: dict[str, dict[str, Any]],
    purse: Purse,
    turns: Turns,
    ledger: Ledger,
    history: History,
    wording: Wording,
    status: Status,
    reason: str,
) -> None:
    asked = past.cancels[0] if past.cancels else None
    if past.ending is not None:
        status, reason = past.ending.status, past.ending.reason
    elif asked is not None:
        status, reason = asked.status, asked.reason  # the first reason wins
    elif status in ("cancelled", "handed_over"):
        asked = log.append(CancelRequested, mode="now", reason=reason, status=status)
    for hold in past.holds.values():
        used = used_of(past, hold)
        purse.spend(used)
        log.append(Settled, slot=hold.slot, amounts=used, held=hold.held, estimated=bool(used) and not hold.slot)
    for child in past.children:
        end = below.get(child, {"status": "cancelled", "reason": ORPHANED})
        purse.spend(end.get("spent", {}))
        log.append(ChildEnded, child=child, **told(end))
    for call_id, begun in past.open.items():
        if begun.started:
            result = Result(call_id, begun.tool, "abandoned", OPEN, error=OUTCOME_UNKNOWN, by="cancel")
        else:
            text = wording.not_run(begun.tool, f"the run was ended first ({reason})").text
            result = Result(call_id, begun.tool, "not_run", text, by="cancel")
        log.append(CallEnded, slot=begun.slot, result=result)
    if asked is not None and not past.confirmed:
        left = tuple(begun.tool for begun in past.open.values() if begun.started)
        log.append(CancelConfirmed, seconds=log.last_t - asked.t, abandoned=left)
    if past.ending is None:
        log.append(RunEnding, status=status, reason=reason)
    answer = turns.last_text if status == "completed" else None
    outcome = Outcome(
        run=log.run,
        status=status,
        reason=reason,
        message=wording.outcome(status, reason, turns.turns, ledger.by_tool),
        answer=answer,
        forced=answer is not None and turns.finishing is not None,
        partial=turns.last_text or None if answer is None else None,
        calls=ledger.records(),
        turns=turns.turns,
        usage=turns.usage,
        spent=dict(purse.spent),
        history=history.messages(),
        seconds=past.t,
        working_seconds=past.times.working,
    )
    log.append(RunEnded, outcome=outcome)
