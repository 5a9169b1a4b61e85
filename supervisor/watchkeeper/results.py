"""Results of calls that were run, or were to be: what the model reads, what the log keeps. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from . import failures, outputs
from .admission import Slot
from .approvals import Approval, Resolution
from .errors import Transient
from .fingerprint import result_key
from .guards.result import Left, Output
from .history import OPEN
from .messages import Call, Kind, Result
from .recovery.past import OUTCOME_UNKNOWN
from .redaction import NOTHING_SECRET, Redaction
from .wording import Told, Wording


class Settlement(msgspec.Struct, frozen=True):
    """A result on its way into the log. No secret is in it."""

    result: Result
    detail: str = ""
    """The full text of an error, for people."""
    same: str = ""
    """What makes two failures the same, where their text has a number of its own."""
    at_work: bool = False
    """The call may still be at work: what it touches stays taken."""


class Results:
    """Makes the results of one run's calls."""

    def __init__(
        self,
        wording: Wording,
        tag: str,
        redaction: Redaction = NOTHING_SECRET,
        looked: Callable[[Output], Left] | None = None,
    ) -> None:
        """``looked``: what guards leave of what a call gave."""
        self._looked = looked
        self._wording = wording
        self._redaction = redaction
        self._tag = tag
        self._numbers = 0

    def finished(self, slot: Slot, value: object) -> Settlement:
        rendered = outputs.render(value, slot.tool.max_output, self._redaction)
        result = Result(
            slot.call_id,
            slot.tool.name,
            "finished",
            rendered.content,
            rendered.productive,
            rendered.error,
            cut=rendered.cut,
            note=slot.note,
        )
        if self._looked is not None:
            result = self._guarded(slot, result, self._looked)
        return Settlement(result, rendered.detail)

    def _guarded(self, slot: Slot, result: Result, looked: Callable[[Output], Left]) -> Result:
        tool, clean = slot.tool, self._redaction.text
        left = looked(Output(slot.call_id, tool.name, slot.values, result.content, result.productive, result.error))
        if left.by is None:
            return result
        if left.withheld is not None:
            said, error = clean(left.withheld.message), clean(left.withheld.error)
            return Result(slot.call_id, tool.name, "failed", said, error=error, by=left.by)
        rendered = outputs.render(left.output.content, tool.max_output, self._redaction)
        cut, productive = result.cut + rendered.cut, left.output.productive
        return msgspec.structs.replace(result, content=rendered.content, productive=productive, cut=cut, by=left.by)

    def failed(self, slot: Slot, failure: BaseException, retried: int = 0) -> Settlement:
        leaf = failures.leaf(failure)
        code, text, hint = failures.describe(leaf, slot.tool.hint, self._redaction)
        self._numbers += 1
        number = f"{self._tag}-{self._numbers}"
        if isinstance(leaf, Transient):
            told = self._wording.transient(slot.tool.name, text, leaf.retry_after, retried)
        else:
            told = self._wording.failed(slot.tool.name, code, text, hint, number)
        detail = f"error {number}\n{failures.full_text(failure, self._redaction)}"
        return Settlement(self._result(slot, "failed", told, code, None), detail, result_key(f"{code}\n{text}"))

    def timed_out(self, slot: Slot, failure: BaseException, seconds: float) -> Settlement:
        told = self._wording.timed_out(slot.tool.name, round(seconds, 3))
        result = self._result(slot, "timed_out", told, "timeout", "timeout")
        return Settlement(
            result, failures.full_text(failure, self._redaction), result_key("timeout"), at_work=slot.job is not None
        )

    def cancelled(self, slot: Slot) -> Settlement:
        """Stopped by a cancel; a thread that is still at work is abandoned."""
        job = slot.job
        if job is not None and not job.finished.is_set():
            return self.abandoned(slot, job.frame())
        return Settlement(self._result(slot, "cancelled", self._wording.cancelled(slot.tool.name), None, "cancel"))

    def abandoned(self, slot: Slot, frame: str | None) -> Settlement:
        told = self._wording.abandoned(slot.tool.name)
        where = self._redaction.text(frame or "")
        return Settlement(self._result(slot, "abandoned", told, None, "cancel"), where, at_work=True)

    def not_run(self, slot: Slot, why: str, *, error: str | None = None, by: str = "cancel") -> Settlement:
        return Settlement(self._result(slot, "not_run", self._wording.not_run(slot.tool.name, why), error, by))

    def withheld(self, call: Call) -> Result:
        """It was to be run after a recovery, and its arguments are not there as the model wrote them."""
        told = self._wording.not_run(call.tool, "the run broke off, and its arguments held a secret, which is not kept")
        return Result(call.id, call.tool, "not_run", told.text, error="arguments_withheld", by="journal")

    def unknown(self, call: Call) -> Result:
        """It was begun by an attempt that died, and a sub-agent that it has started had begun to write."""
        text = self._redaction.text(self._wording.outcome_unknown(call.tool).text)
        return Result(call.id, call.tool, "abandoned", text, error=OUTCOME_UNKNOWN, by="journal")

    def not_approved(self, slot: Slot, approval: Approval, resolution: Resolution) -> Settlement:
        """What needed a yes and has none."""
        name, by = slot.tool.name, resolution.by or "approval"
        if resolution.how == "cancelled":
            return self.not_run(slot, f"the run was ended first ({resolution.reason})")
        if resolution.how == "timed_out":
            told, error = self._wording.approval_timed_out(name, approval.seconds), "approval_timed_out"
        elif by == "nobody":
            told, error, by = self._wording.no_approval(name, approval.why), "no_approval", approval.by[0]
        else:
            told, error = self._wording.not_approved(name, resolution.reason), "not_approved"
        return Settlement(self._result(slot, "denied", told, error, by))

    def changed(self, slot: Slot) -> Settlement:
        """Its arguments are not those that were approved."""
        told = self._wording.arguments_changed(slot.tool.name)
        return Settlement(self._result(slot, "refused", told, "arguments_changed", "approval"))

    def in_the_way(self, slot: Slot, other: str) -> Settlement:
        told = self._wording.in_the_way(slot.tool.name, other)
        return Settlement(self._result(slot, "refused", told, "in_the_way", "abandoned"))

    def crashed(self, slot: Slot, failure: BaseException) -> Settlement:
        """Not the tool has failed but something around it: nothing may be asked of a host's wording here."""
        result = Result(slot.call_id, slot.tool.name, "abandoned", OPEN, error="crash", by="crash")
        return Settlement(result, failures.full_text(failure, self._redaction))

    def _result(self, slot: Slot, kind: Kind, told: Told, error: str | None, by: str | None) -> Result:
        text = self._redaction.text(told.text)
        return Result(slot.call_id, slot.tool.name, kind, text, error=error and self._redaction.text(error), by=by)
