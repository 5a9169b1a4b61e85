"""The end of a run, in order and in bounded time: calls, facts of agent and executor, watchdog, end record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from . import failures, reports
from .log import JOURNAL
from .messages import CancelConfirmed, ChildEnded, Outcome, RunEnded, RunEnding, Usage
from .run import Ending, Run

if TYPE_CHECKING:
    from .actors.executor import Executor

DURABLE = 30.0
"""Seconds for which an outcome waits for its journal. One that is not durable by then is made again after a restart."""
KILL_ROUNDS = 3
"""Rounds of the loop that a kill leaves to what stops at once, so that it may still say so."""

CHILDREN = 1.0
"""Seconds that sub-agents have to end that are killed at the grace period of their parent."""


async def wind_up(run: Run) -> None:
    """The end of a run, in order: calls, facts of agent and executor, watchdog, end record. Bounded throughout."""
    log, executor = run.log, run.executor
    ending = run.ending or Ending("failed", "crash", cause="the run ended without a reason")
    if ending.status == "cancelled" and run.cancelled_at is None:
        run.cancelled_at = run.seams.clock()
    names: list[str] = []
    if executor is not None:
        for child in run.children:
            child.cancel("parent_ended", run.mode if run.mode == "kill" else "now")
        await _join(run, executor)
        await _kill_children(run)
        names = executor.abandon()
    if run.actor is not None:
        run.actor.close(ending.reason)
    run.settle_rest(f"the run was ended first ({ending.reason})")
    cancel_seconds = None
    if run.cancelled_at is not None:
        cancel_seconds = run.seams.clock() - run.cancelled_at
        if not run.attempt.told_cancel:
            log.append(CancelConfirmed, seconds=cancel_seconds, abandoned=tuple(names))
    if not run.attempt.told_end:
        log.append(RunEnding, status=ending.status, reason=ending.reason)
    run.move("ending")
    _drain(run)
    outcome = _outcome(run, ending, cancel_seconds)
    log.append_clean(RunEnded, outcome=outcome)
    log.close()
    if ending.cause is not None:
        reports.report("run_failed", run=run.id, cause=outcome.cause)
    if names:
        reports.report("calls_abandoned", run=run.id, calls=names)
    gives_up = anyio.current_time() + DURABLE
    if log.is_journaled:
        await _made_durable(run, gives_up, unless_killed=True)
    run.finished(outcome)
    parent = run.parent
    if parent is not None and not parent.log.closed:
        tree = _tree(run)
        parent.log.append(
            ChildEnded,
            child=run.id,
            status=outcome.status,
            reason=outcome.reason,
            calls=sum(one.ledger.ended for one in tree),
            tokens=int(outcome.spent.get("tokens", 0)),
            spent=outcome.spent,
            depth=1 + max(one.depth for one in tree) - run.depth,
            work=run.work.digest,
        )
    if log.is_journaled:
        await _made_durable(run, gives_up)
        _give_up_journal(run)


async def _made_durable(run: Run, gives_up: float, *, unless_killed: bool = False) -> None:
    """Nobody hears of an outcome before it is durable; of one that cannot be made so, in bounded time, all the same.
    A kill waits for a journal that works, and not for one that has failed."""
    attempt, log = run.attempt, run.log
    with anyio.CancelScope(deadline=gives_up):
        # What another attempt has taken over becomes durable no more.
        while not (attempt.is_fenced or log.has_passed(JOURNAL, attempt.last(log.n))):
            if unless_killed and run.mode == "kill" and attempt.unwritten:
                return
            await run.changed()


def _give_up_journal(run: Run) -> None:
    """A disk that does not answer holds neither the run nor its supervisor."""
    if run.log.has_passed(JOURNAL, run.attempt.last(run.log.n)):
        return
    if not run.attempt.is_fenced:
        reports.report("end_not_durable", run=run.id)
    if run.journal_scope is not None:
        run.journal_scope.cancel()


def _tree(run: Run) -> list[Run]:
    """The run and all sub-agents below it."""
    return [run, *(one for child in run.children for one in _tree(child))]


def _drain(run: Run) -> None:
    """The watchdog reads every fact to the very last, whether its own task still can or not."""
    if run.watchdog is not None and run.reader is not None and not run.reader.closed:
        try:
            run.watchdog.catch_up(run.reader)
        except Exception as error:
            reports.report("watchdog_failed", run=run.id, cause=failures.full_text(error, run.log.redaction))
        run.reader.close()


async def _join(run: Run, executor: Executor) -> None:
    """Wait for agent, calls and sub-agents, until the grace period or a kill."""
    if _is_at_rest(run, executor):
        return
    with anyio.move_on_after(run.agent.limits.grace):
        while run.mode != "kill" and not _is_at_rest(run, executor):
            await run.changed()
        for _ in range(KILL_ROUNDS):
            if _is_at_rest(run, executor):
                return
            await anyio.lowlevel.checkpoint()  # what stops at once may still say so


def _is_at_rest(run: Run, executor: Executor) -> bool:
    return run.agent_at_rest and executor.at_rest and all(child.outcome is not None for child in run.children)


async def _kill_children(run: Run) -> None:
    """Sub-agents that are left have their end before the run has its own: nothing is kept of a tree after that."""
    left = [child for child in run.children if child.outcome is None]
    if not left:
        return
    for child in left:
        child.cancel("parent_ended", "kill")
    with anyio.move_on_after(CHILDREN):
        for child in left:
            await child.wait()


def last_resort(run: Run, cause: str) -> None:
    """Give a run that could not be wound up an outcome all the same."""
    reports.report("run_failed", run=run.id, cause=cause)
    if run.outcome is None:
        outcome = Outcome(
            run=run.id,
            status="failed",
            reason="crash",
            message="The run failed.",
            cause=cause,
            history=run.history.messages(),
        )
        try:
            if not run.log.closed:
                run.log.append(RunEnded, outcome=outcome)
        except Exception as error:
            reports.report("end_record_failed", run=run.id, cause=failures.full_text(error, run.log.redaction))
        finally:
            run.log.close()
            run.finished(outcome)


def _detail(run: Run, ending: Ending) -> str:
    if ending.verdict is None:
        return run.detail
    return f"{run.supervisor.wording.episode(ending.verdict.finding)} {run.detail}".strip()


def _outcome(run: Run, ending: Ending, cancel_seconds: float | None) -> Outcome:
    """The outcome, without secrets: calls and history are made of facts, which have none."""
    actor, records = run.actor, run.ledger.records()
    redacted = run.log.redaction.anything
    turns = actor.turns if actor is not None else 0
    cancelled_fact = run.cancel_fact
    return Outcome(
        run=run.id,
        status=ending.status,
        reason=redacted(ending.reason),
        message=redacted(
            run.supervisor.wording.outcome(
                ending.status, ending.reason, turns, run.ledger.by_tool, _detail(run, ending)
            )
        ),
        answer=redacted(ending.answer),
        value=redacted(ending.value),
        unverified=redacted(ending.unverified),
        forced=ending.forced,
        partial=redacted(actor.last_text) or None if actor is not None and ending.answer is None else None,
        plan=redacted(actor.plan()) if actor is not None else (),
        rejected=redacted(tuple(actor.rejected)) if actor is not None else (),
        calls=records,
        evidence=tuple(run.evidence.calls),
        not_executed=tuple(record.id for record in records if record.kind in ("not_run", "refused", "denied")),
        after_cancel=tuple(
            entry.call_id
            for entry in run.ledger.entries.values()
            if cancelled_fact and entry.writes and entry.kind == "finished" and entry.ended > cancelled_fact
        ),
        verdict=redacted(ending.verdict),
        turns=turns,
        usage=actor.usage if actor is not None else Usage(),
        spent=dict(run.budget.spent),
        unknown=dict(run.budget.unknown),
        history=run.history.messages(),
        cause=redacted(ending.cause),
        seconds=run.seams.clock() - run.began,
        working_seconds=run.working_seconds(),
        cancel_seconds=cancel_seconds,
    )
