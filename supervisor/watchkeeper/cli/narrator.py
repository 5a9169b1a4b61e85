"""Tells a run in lines, from its facts alone. Pure: who shows the lines, and how, is another matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    Blocked,
    CallEnded,
    CallProposed,
    CallReplaced,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    ContextChanged,
    ContextCompacted,
    DetectorFailed,
    Event,
    Gap,
    GuardOverran,
    LoopBlocked,
    ModelFailed,
    ModelPartialDropped,
    ModelReplied,
    ModelRetried,
    NotesFailed,
    NotesShown,
    Nudged,
    OpinionGiven,
    Overrun,
    Paused,
    PlanChanged,
    Planned,
    PlanStep,
    PushedBack,
    Reminded,
    Result,
    Resumed,
    RunStarted,
    StepEnded,
    StepStarted,
    Stopped,
    UserMessage,
    WouldRefuse,
)
from .printable import arguments, count, duration, first_line, one_line

Style = Literal["plain", "dim", "good", "warn", "bad", "head"]
INDENT = "    "
LANE = 12
"""Characters of the picture of when a call ran within its turn."""
SHOWN_CALL = 56
SHOWN_RESULT = 60
INTERRUPTED = "interrupted"
"""The reason of a cancel by Ctrl-C."""
_HINTS = {
    "after_turn": "ending after this turn's calls (Ctrl-C again: stop now)",
    "now": "stopping now (Ctrl-C again: without waiting for anything)",
    "kill": "stopping without waiting for anything",
}


class Line(NamedTuple):
    """One line in parts, each with its style."""

    parts: tuple[tuple[str, Style], ...]
    wrap: bool = False
    """Long ones are continued; otherwise they are cut where the screen ends."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts).rstrip()


def line(text: str, style: Style = "plain", *, wrap: bool = False) -> Line:
    return Line(((text, style),), wrap)


class _Shown:
    """A call of the turn that is going on."""

    __slots__ = ("ended", "event", "proposed", "slot", "started", "text", "tool")

    def __init__(self, event: CallProposed) -> None:
        self.slot = event.slot
        self.tool = event.tool
        self.text = arguments(event.arguments, SHOWN_CALL)
        self.proposed = event.t
        self.started: float | None = None
        self.ended = event.t
        self.event: CallEnded | None = None


class Narrator:
    """Feed it the facts of one run, in order; it answers with the lines to show. The calls of a turn come together,
    in slot order, when all have ended."""

    def __init__(self) -> None:
        self._calls: dict[str, _Shown] = {}
        self._running = 0
        self._most = 0
        self._blocked_for = -1
        self._tell: dict[type, Callable[[Any], Iterator[Line]]] = {
            RunStarted: self._run_started,
            UserMessage: self._user_spoke,
            ModelReplied: self._replied,
            ModelRetried: self._retried,
            ModelPartialDropped: self._dropped,
            ModelFailed: self._model_failed,
            CallProposed: self._proposed,
            CallReplaced: self._replaced,
            CallStarted: self._started,
            CallEnded: self._ended,
            ApprovalRequested: self._approval_requested,
            ApprovalResolved: self._approval_resolved,
            Nudged: self._nudged,
            Blocked: self._blocked,
            Stopped: self._stopped,
            Reminded: self._reminded,
            PushedBack: self._pushed_back,
            OpinionGiven: self._opinion_given,
            Paused: self._paused,
            Resumed: self._resumed,
            Overrun: self._overrun,
            CancelRequested: self._cancel_requested,
            CancelConfirmed: self._cancelled,
            DetectorFailed: self._detector_failed,
            WouldRefuse: self._would_refuse,
            GuardOverran: self._guard_overran,
            ContextChanged: self._context_changed,
            ContextCompacted: self._compacted,
            NotesShown: self._notes_shown,
            NotesFailed: self._notes_failed,
            LoopBlocked: self._loop_blocked,
            ChildStarted: self._child_started,
            ChildEnded: self._child_ended,
            Planned: self._planned,
            PlanChanged: self._plan_changed,
            StepStarted: self._step_started,
            StepEnded: self._step_ended,
        }

    def tell(self, event: Event | Gap) -> Sequence[Line]:
        if isinstance(event, Gap):
            return [line(f"{INDENT}(facts {event.first} to {event.last} went by too fast to be shown)", "dim")]
        tell = self._tell.get(type(event))
        return list(tell(event)) if tell is not None else ()

    # -- run and model -----------------------------------------------------------------------------------------------

    def _run_started(self, event: RunStarted) -> Iterator[Line]:
        tools = ", ".join(event.tools) or "no tools"
        yield Line(((f"run {event.run}", "head"), (f"  {one_line(event.model, 60)}", "plain")))
        yield line(f"{INDENT}profile {event.profile}; {tools}", "dim")

    def _user_spoke(self, event: UserMessage) -> Iterator[Line]:
        if event.source == "steer":
            yield line(f"{INDENT}you: {one_line(event.text, 120)}", "head")

    def _replied(self, event: ModelReplied) -> Iterator[Line]:
        usage = f", {event.usage.input_tokens:,} + {event.usage.output_tokens:,} tokens" if event.usage else ""
        said = f"{_calls_named([call.tool for call in event.calls])}" if event.calls else "an answer"
        if not event.stored:
            said = "a reply that cannot be used"
        yield Line(
            (
                (f"turn {event.turn}", "head"),
                (f"  the model took {duration(event.seconds)}{usage}: ", "dim"),
                (said, "plain"),
            )
        )
        if event.calls and event.text.strip():
            yield line(f"{INDENT}“{first_line(event.text, 100)}”", "dim")

    def _retried(self, event: ModelRetried) -> Iterator[Line]:
        yield Line(
            (
                (f"{INDENT}↻ try {event.attempt} failed: {event.error}; again in {duration(event.wait)}", "warn"),
                (f"  {one_line(event.detail, 80)}", "dim"),
            )
        )

    def _dropped(self, event: ModelPartialDropped) -> Iterator[Line]:
        yield line(f"{INDENT}✂ a reply broke off after {event.characters} characters; nothing of it counts", "warn")

    def _model_failed(self, event: ModelFailed) -> Iterator[Line]:
        yield line(f"{INDENT}✗ the model failed: {event.error}: {one_line(event.detail, 200)}", "bad")

    # -- calls -------------------------------------------------------------------------------------------------------

    def _proposed(self, event: CallProposed) -> Iterator[Line]:
        self._calls[event.call_id] = _Shown(event)
        yield from ()

    def _replaced(self, event: CallReplaced) -> Iterator[Line]:
        what = f"{event.instead} {arguments(event.arguments, SHOWN_CALL)}" if event.instead else "an answer"
        by, asked = one_line(event.by, 40), one_line(event.tool, 40)
        yield line(f"{INDENT}⇄ replaced ({by}): {one_line(what, 80)} in place of {asked}", "warn")

    def _started(self, event: CallStarted) -> Iterator[Line]:
        shown = self._calls.get(event.call_id)
        if shown is not None and shown.started is None:
            shown.started = event.t
            self._running += 1
            self._most = max(self._most, self._running)
        yield from ()

    def _ended(self, event: CallEnded) -> Iterator[Line]:
        shown = self._calls.get(event.result.call_id)
        if shown is None:
            return  # its beginning went by unseen
        shown.event, shown.ended = event, event.t
        if shown.started is not None:
            self._running -= 1
        if all(call.event is not None for call in self._calls.values()):
            yield from self._round(sorted(self._calls.values(), key=lambda call: call.slot))
            self._calls.clear()
            self._running = self._most = 0

    def _round(self, calls: list[_Shown]) -> Iterator[Line]:
        began, ended = min(call.proposed for call in calls), max(call.ended for call in calls)
        for call in calls:
            assert call.event is not None
            result = call.event.result
            lane = f"{_lane(call, began, ended)} " if len(calls) > 1 else ""
            took = f" {duration(call.event.ran)}" if call.started is not None else ""
            yield Line(
                (
                    (f"{INDENT}{lane}", "dim"),
                    (f"{one_line(call.tool, 40)} {call.text}".rstrip() + "  ", "plain"),
                    (f"{_ending(result)}{took}", _style(result)),
                    (f"  {first_line(result.content, SHOWN_RESULT)}" if _worth_showing(result) else "", "dim"),
                )
            )
        if len(calls) > 1 and any(call.started is not None for call in calls):
            whole = sum(call.event.ran for call in calls if call.event is not None and call.started is not None)
            beside = f"up to {self._most} side by side" if self._most > 1 else "one after the other"
            yield line(f"{INDENT}{beside}: {duration(ended - began)} for {duration(whole)} of work", "dim")

    def _approval_requested(self, event: ApprovalRequested) -> Iterator[Line]:
        why = f": {one_line(event.why, 90)}" if event.why else ""
        what = f"{one_line(event.tool, 40)} {arguments(event.arguments, SHOWN_CALL)}".rstrip()
        what = what if event.tool else "the answer"
        yield line(f"{INDENT}? {what} waits for a yes, at most {duration(event.seconds)}{why}", "warn")

    def _approval_resolved(self, event: ApprovalResolved) -> Iterator[Line]:
        tool, by = one_line(event.tool, 40) or "the answer", f" by {one_line(event.by, 40)}" if event.by else ""
        if event.by == "earlier":
            yield line(f"{INDENT}{tool} runs on an earlier yes", "dim")
        elif event.how in ("once", "run", "always"):
            scope = {"once": "this once", "run": "for this run", "always": "always"}[event.how]
            yield line(f"{INDENT}{tool}: permitted {scope}{by}", "plain")
        else:
            reason = f": {one_line(event.reason, 90)}" if event.reason else ""
            how = {"timed_out": "nobody answered in time", "denied": f"denied{by}"}.get(event.how, event.how)
            yield line(f"{INDENT}{tool}: {how}{reason}", "warn")

    # -- verdicts ----------------------------------------------------------------------------------------------------

    def _nudged(self, event: Nudged) -> Iterator[Line]:
        if event.cause == self._blocked_for:
            return  # the word that comes with a block
        yield line(f"{INDENT}▲ nudged ({event.by}): {_headline(event.text)}", "warn")

    def _blocked(self, event: Blocked) -> Iterator[Line]:
        self._blocked_for = event.cause
        tools = [key.removeprefix("tool:") for key in event.keys if key.startswith("tool:")]
        what = f"the tool {', '.join(tools)}" if tools else "this call" if len(event.keys) == 1 else "these calls"
        yield line(f"{INDENT}■ blocked ({event.by}): {what} will not be run any more", "warn")

    def _stopped(self, event: Stopped) -> Iterator[Line]:
        finding = event.verdict.finding
        what = f"{finding.pattern}, {finding.count} times" if finding.count > 1 else finding.pattern
        yield line(f"{INDENT}● stopped ({finding.detector}): {one_line(what, 110)}", "bad")

    def _reminded(self, event: Reminded) -> Iterator[Line]:
        if event.about.startswith("plan"):
            return  # the facts of the plan say it
        yield line(f"{INDENT}△ reminded ({event.about}): {_headline(event.text)}", "warn")

    def _pushed_back(self, event: PushedBack) -> Iterator[Line]:
        yield line(f"{INDENT}◁ sent back ({event.by}): {_headline(event.text)}", "warn")

    def _opinion_given(self, event: OpinionGiven) -> Iterator[Line]:
        what = f"call {one_line(event.call_id, 40)}" if event.call_id else "the answer"
        if event.failed:
            told = f"the {event.by} gave no opinion on {what} ({one_line(event.failed, 90)}): {event.decision}"
        else:
            told = f"the {event.by} on {what}: {event.decision}" + (
                f" ({one_line(event.why, 90)})" if event.why else ""
            )
        good = event.decision == "allow" and not event.failed
        yield line(f"{INDENT}⚖ {told}", "dim" if good else "warn")

    def _overrun(self, event: Overrun) -> Iterator[Line]:
        yield line(f"{INDENT}✗ a reply cost {event.over:g} {event.dimension} more than was set aside", "bad")

    def _detector_failed(self, event: DetectorFailed) -> Iterator[Line]:
        yield line(
            f"{INDENT}! the detector {event.detector} failed and is switched off: {one_line(event.error, 90)}", "bad"
        )

    def _would_refuse(self, event: WouldRefuse) -> Iterator[Line]:
        what = f"this call of {one_line(event.tool, 60)}" if event.call_id else "this answer"
        yield line(f"{INDENT}({one_line(event.by, 40)}, which only observes, would {event.would} {what})", "dim")

    def _guard_overran(self, event: GuardOverran) -> Iterator[Line]:
        took = f"took {duration(event.seconds)} and may take {duration(event.limit)}"
        yield line(
            f"{INDENT}! the guard {one_line(event.by, 40)} {took}: not asked again, its answer is {event.then}",
            "bad",
        )

    # -- the plan ----------------------------------------------------------------------------------------------------

    def _planned(self, event: Planned) -> Iterator[Line]:
        if event.whole:
            yield line(f"{INDENT}no plan was to be had: the task is done as one", "warn")
            return
        yield line(f"plan  {len(event.steps)} {'step' if len(event.steps) == 1 else 'steps'}", "head")
        if event.question:
            yield line(f"{INDENT}“{one_line(event.question, 100)}”", "dim")
        yield from _steps(event.steps)

    def _plan_changed(self, event: PlanChanged) -> Iterator[Line]:
        yield line(f"plan  changed: {one_line(event.reason, 90)}", "head")
        yield from _steps(event.steps)

    def _step_started(self, event: StepStarted) -> Iterator[Line]:
        turns = int(event.allowance.get("turns", 0))
        if turns:
            yield Line(
                (
                    (f"step {event.number} of {event.of}", "head"),
                    (f"  {one_line(event.goal, 80)}", "plain"),
                    (f"  (at most {turns} {'turn' if turns == 1 else 'turns'})", "dim"),
                )
            )

    def _step_ended(self, event: StepEnded) -> Iterator[Line]:
        if event.ended == "answer" and not event.lacks:
            return  # its answer has been told
        how = "ended with the run" if event.ended == "run" else "left something open"
        yield line(f"{INDENT}△ step {event.number} {how}: {one_line(event.lacks, 90)}", "warn")

    # -- from outside ------------------------------------------------------------------------------------------------

    def _paused(self, event: Paused) -> Iterator[Line]:
        yield line(f"{INDENT}paused: {one_line(event.reason, 100)}", "warn")

    def _resumed(self, event: Resumed) -> Iterator[Line]:
        yield line(f"{INDENT}resumed {one_line(event.reason, 100)}", "plain")

    def _cancel_requested(self, event: CancelRequested) -> Iterator[Line]:
        if event.status == "handed_over":
            told = f"to be handed over to a person ({event.mode}): {one_line(event.reason, 100)}"
            again = " (Ctrl-C again: stop now)" if event.reason == INTERRUPTED and event.mode == "after_turn" else ""
            yield line(f"{INDENT}{told}{again}", "warn")
        elif event.reason == INTERRUPTED:
            yield line(f"{INDENT}{_HINTS[event.mode]}", "warn")
        else:
            yield line(f"{INDENT}cancel requested ({event.mode}): {one_line(event.reason, 100)}", "warn")

    def _cancelled(self, event: CancelConfirmed) -> Iterator[Line]:
        yield line(f"{INDENT}cancelled in {duration(event.seconds)}", "plain")
        for name in event.abandoned:
            yield line(f"{INDENT}! did not stop and was left behind: {one_line(name, 160)}", "bad")

    def _context_changed(self, event: ContextChanged) -> Iterator[Line]:
        yield line(f"{INDENT}the conversation was shortened: {one_line(event.reason, 100)}", "dim")

    def _compacted(self, event: ContextCompacted) -> Iterator[Line]:
        sizes = f"about {count(event.before, 'token')} became {event.after:,}"
        summed = ", with a summary" if event.summary else ""
        cuts = (
            f"{count(len(event.dropped), 'message')} left out{summed}, {count(len(event.shortened), 'result')} in part"
        )
        yield line(f"{INDENT}the model reads less of the conversation from here on: {sizes} ({cuts})", "dim")

    def _notes_shown(self, event: NotesShown) -> Iterator[Line]:
        yield line(f"{INDENT}{count(event.notes, 'note')} from earlier work shown", "dim")

    def _notes_failed(self, event: NotesFailed) -> Iterator[Line]:
        off = "; it is asked no more" if event.off else ""
        yield line(f"{INDENT}! the store of notes failed: {one_line(event.error, 120)}{off}", "warn")

    def _loop_blocked(self, event: LoopBlocked) -> Iterator[Line]:
        yield line(
            f"{INDENT}! the event loop stood still for {duration(event.seconds)} in {one_line(event.frame, 120)}", "bad"
        )

    def _child_started(self, event: ChildStarted) -> Iterator[Line]:
        yield line(f"{INDENT}sub-agent {one_line(event.agent, 40)} began ({event.child})", "dim")

    def _child_ended(self, event: ChildEnded) -> Iterator[Line]:
        yield line(f"{INDENT}sub-agent {event.child}: {event.status} ({event.reason}), {event.calls} calls", "dim")


def _headline(text: str) -> str:
    """What happened, out of a message to the model; the rest of it is for the model."""
    return one_line(text.partition("\n")[0], 110)


def _steps(steps: Sequence[PlanStep]) -> Iterator[Line]:
    for step in steps:
        yield line(f"{INDENT}· {one_line(step.goal, 100)}", "plain")


def _calls_named(tools: Sequence[str]) -> str:
    """``read_file ×3, edit_file``."""
    counted = Counter(tools)
    named = ", ".join(f"{one_line(tool, 40)} ×{n}" if n > 1 else one_line(tool, 40) for tool, n in counted.items())
    return one_line(named, 120)


def _lane(call: _Shown, began: float, ended: float) -> str:
    """When the call ran within its turn, as a bar."""
    if call.started is None:
        return "·".center(LANE)
    span = max(ended - began, 1e-9)
    first = min(int((call.started - began) / span * LANE), LANE - 1)
    last = min(max(int((call.ended - began) / span * LANE + 0.5), first + 1), LANE)
    return " " * first + "━" * (last - first) + " " * (LANE - last)


def _ending(result: Result) -> str:
    if result.reused_from is not None:
        return f"{result.kind}, reused from {one_line(result.reused_from, 30)}"
    why = result.error or (result.by if result.kind in ("refused", "denied") else None)
    return f"{result.kind} ({one_line(why, 40)})" if why else result.kind


def _style(result: Result) -> Style:
    if result.kind == "finished":
        return "good" if result.productive else "plain"
    return "warn" if result.kind in ("refused", "denied", "cancelled", "not_run") else "bad"


def _worth_showing(result: Result) -> bool:
    return result.kind in ("finished", "failed", "timed_out") and result.reused_from is None and bool(result.content)
