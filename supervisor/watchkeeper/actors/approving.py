"""Waits for what becomes of an approval: for an approver, for a person, and for its deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from .. import failures, reports
from ..approvals import Answer, Approver, Denial, Pending, Permit, Resolution
from ..errors import ApprovalError
from ..host import called
from ..threads import NoThread

if TYPE_CHECKING:
    from ..run import Run

NOBODY = "nobody"
"""Who has said no where there was nobody to ask."""


async def resolution_of(pending: Pending, run: Run) -> Resolution:
    """Wait until the call may run or may not, or the answer may count. An approver is asked first; where it has nothing
    to say and the run is attended, a person may still answer. Whatever ends the wait, also a cancel or an approver that
    fails, leaves the approval resolved."""
    approvals, approver = run.asking, run.approver
    try:
        with anyio.move_on_after(pending.approval.seconds) as wait:
            pending.on_resolved = wait.cancel
            if approver is not None and pending.resolution is None:
                await _consult(approver, pending, run)
            if pending.resolution is None and not run.is_attended():
                approvals.expire(pending, "denied", NOBODY)
            if pending.resolution is None:
                await anyio.sleep_forever()
    finally:
        pending.on_resolved = None
        approvals.expire(pending, "timed_out")
    assert pending.resolution is not None
    return pending.resolution


async def accepts(run: Run, text: str, why: str) -> bool | None:
    """Ask whether an answer may count on which the verifier gave no opinion. None: there is nobody to ask."""
    asking = run.asking
    if not asking.somebody():
        return None
    pending = asking.request_answer(text, "verifier", why)
    if run.stopping_after_turn is not None:
        asking.cancel(run.stopping_after_turn)
    run.waits_for_person(True)
    try:
        return (await resolution_of(pending, run)).permits
    finally:
        run.waits_for_person(False)


async def _consult(approver: Approver, pending: Pending, run: Run) -> None:
    """Ask the approver, and take what it says as whoever else's answer: only a yes to this very call is one."""
    approval, approvals = pending.approval, run.asking
    try:
        answer: Answer = await called(approver, approval, run.supervisor.approver_threads)
        if pending.resolution is None:
            _take(answer, pending, run)
    except KeyboardInterrupt:
        raise
    except ApprovalError as error:
        approvals.expire(pending, "denied", "approver", str(error))
    except NoThread as none:
        approvals.expire(pending, "denied", "approver", f"the approver could not be asked: {none}")
    except BaseException as error:  # what decides on calls and fails has said no
        if failures.holds(error, anyio.get_cancelled_exc_class()):
            raise
        cause = failures.full_text(error, run.log.redaction)
        reports.report("approver_failed", run=run.id, approval=approval.id, cause=cause)
        approvals.expire(pending, "denied", "approver", f"the approver failed ({type(error).__name__})")


def _take(answer: Answer, pending: Pending, run: Run) -> None:
    approval, approvals = pending.approval, run.asking
    if answer is None:
        return
    if isinstance(answer, Permit):
        if answer.approval != approval.id:
            raise ApprovalError("the approver said yes to another call", "unknown")
        approvals.approve(approval.id, answer.arguments_hash, answer.scope, answer.pattern, by="approver")
    elif answer is True:
        approvals.approve(approval.id, approval.arguments_hash, by="approver")
    elif answer is False or isinstance(answer, Denial):
        approvals.deny(approval.id, answer.reason if isinstance(answer, Denial) else "", by="approver")
    else:
        raise TypeError(f"an approver answered with a {type(answer).__name__}")
