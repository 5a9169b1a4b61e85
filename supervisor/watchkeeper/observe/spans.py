"""Facts as spans: a run, its turns, their model requests and tool calls. A pure fold over the facts of any runs.

OpenTelemetry, OTLP and Perfetto are written from these. Times are UTC in seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    Blocked,
    CallEnded,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildStarted,
    ContextCompacted,
    Event,
    FindingMade,
    LoopBlocked,
    ModelFailed,
    ModelFirstChunk,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Nudged,
    Overrun,
    Paused,
    PushedBack,
    Recovered,
    Reminded,
    Resumed,
    RunEnded,
    RunStarted,
    Stopped,
    Suspended,
    TurnStarted,
    UserMessage,
)
from . import names

NOTES = 128
"""Notes of one span; further ones are counted in its last."""
PENDING = 1_000
"""Sub-agents that have been told of and have not begun."""
TEXT = 2_000
"""Characters of a text in a note."""
CONTENT = 8_000
"""Characters of what was said, where content is asked for."""

Value = str | bool | int | float | tuple[str, ...]
Kind = Literal["run", "turn", "model", "tool"]


class Note(msgspec.Struct, frozen=True, gc=False):
    """Something that happened within a span. ``lane``: who has said or done it."""

    at: float
    name: str
    lane: Literal["watchdog", "run", "model", "person"]
    attributes: dict[str, Value] = {}


class Span(msgspec.Struct, kw_only=True):
    """``id`` says what it is of: ``RUN``, ``RUN/turn:3``, ``RUN/model:3:1`` (turn, and number of the request in the
    run), ``RUN/tool:3:2`` (turn and slot). It is the same however often the facts are read."""

    id: str
    parent: str
    """Empty: none that is known."""
    run: str
    root: str
    """The run at the top of its tree, as far as that is known."""
    kind: Kind
    name: str
    start: float
    end: float | None = None
    attributes: dict[str, Value] = {}
    error: str = ""
    """Its kind, empty where there was none."""
    message: str = ""
    notes: list[Note] = []


Step = tuple[Literal["opened", "closed"], Span]


class _Run:
    """The open spans of a run."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.turn: Span | None = None
        self.model: Span | None = None
        self.calls: dict[str, Span] = {}
        self.requests = 0
        self.suspended = False
        """Another attempt goes on with it: what follows is not its end."""

    @property
    def inner(self) -> Span:
        return self.turn or self.span


class Spans:
    """``content``: with what was said to and by models and tools, bounded; else without.

    Facts of several runs may come in any mixture, as long as those of each run are in order and a parent has told of a
    sub-agent before that one's first fact; else the sub-agent's spans stand by themselves.
    """

    def __init__(self, *, content: bool = False) -> None:
        self._content = content
        self._runs: dict[str, _Run] = {}
        self._children: dict[str, tuple[str, str]] = {}
        """Of sub-agents that have not begun: the root of their tree, and the span that they belong to."""

    def observe(self, event: Event) -> list[Step]:
        """Which spans the fact has opened and closed, in order."""
        steps: list[Step] = []
        run = self._runs.get(event.run)
        if run is None:
            if type(event) is RunEnded and not event.outcome.turns:  # it never began, so there was nothing to see
                return steps
            run = self._begin(event, steps)
        take = _TAKES.get(type(event))
        if take is not None:
            take(self, run, event, steps)
        note = _NOTES.get(type(event))
        if note is not None:
            _add(run.inner, note(event))
        return steps

    def close(self, at: float) -> list[Step]:
        """End what is open although its run has not told of an end: whoever told of it is gone."""
        steps: list[Step] = []
        for run in list(self._runs.values()):
            self._end(run, at, "lost", steps)
        self._children.clear()
        return steps

    def open(self) -> list[Span]:
        return [span for run in self._runs.values() for span in _open_in(run)]

    def _begin(self, event: Event, steps: list[Step]) -> _Run:
        """The run of a fact, which is its first unless somebody looks on from the middle."""
        root, parent = self._children.pop(event.run, (event.parent or event.run, ""))
        agent = event.agent if isinstance(event, RunStarted | Recovered) else ""
        attributes: dict[str, Value] = {
            names.OPERATION: names.INVOKE_AGENT,
            names.CONVERSATION: root,
            names.RUN: event.run,
        }
        if event.parent:
            attributes[names.PARENT] = event.parent
        if agent:
            attributes[names.AGENT] = agent
        if type(event) is RunStarted and event.model:
            attributes[names.REQUEST_MODEL] = event.model
        span = Span(
            id=event.run,
            parent=parent,
            run=event.run,
            root=root,
            kind="run",
            name=f"{names.INVOKE_AGENT} {agent}".strip(),
            start=event.at,
            attributes=attributes,
        )
        run = self._runs[event.run] = _Run(span)
        steps.append(("opened", span))
        return run

    def _open(self, run: _Run, above: Span, kind: Kind, what: str, name: str, event: Event, **more: Any) -> Span:
        return Span(
            id=f"{run.span.run}/{what}",
            parent=above.id,
            run=run.span.run,
            root=run.span.root,
            kind=kind,
            name=name,
            start=event.at,
            **more,
        )

    # -- what facts do -----------------------------------------------------------------------------------------------

    def _turn_started(self, run: _Run, event: TurnStarted, steps: list[Step]) -> None:
        self._close_model(run, event.at, steps)
        if run.turn is not None:
            _close(run.turn, event.at, steps)
        run.turn = self._open(
            run,
            run.span,
            "turn",
            f"turn:{event.turn}",
            f"turn {event.turn}",
            event,
            attributes={names.TURN: event.turn},
        )
        steps.append(("opened", run.turn))

    def _model_requested(self, run: _Run, event: ModelRequested, steps: list[Step]) -> None:
        self._close_model(run, event.at, steps)
        run.requests += 1
        attributes: dict[str, Value] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.OPENAI,
            names.REQUEST_MODEL: event.model,
            names.REQUEST_STREAM: True,
            names.CONVERSATION: run.span.root,
            names.ATTEMPT: event.attempt,
        }
        if event.max_tokens is not None:
            attributes[names.REQUEST_MAX_TOKENS] = event.max_tokens
        name = f"{names.CHAT} {event.model}".strip()
        what = f"model:{event.turn}:{run.requests}"
        run.model = self._open(run, run.inner, "model", what, name, event, attributes=attributes)
        steps.append(("opened", run.model))

    def _first_chunk(self, run: _Run, event: ModelFirstChunk, steps: list[Step]) -> None:
        if run.model is not None:
            run.model.attributes[names.FIRST_CHUNK] = event.seconds

    def _model_replied(self, run: _Run, event: ModelReplied, steps: list[Step]) -> None:
        if run.model is None:
            return
        attributes = run.model.attributes
        attributes[names.FINISH_REASONS] = (event.finish,)
        if (usage := event.usage) is not None:
            attributes[names.INPUT_TOKENS] = usage.input_tokens
            attributes[names.OUTPUT_TOKENS] = usage.output_tokens
            for name, tokens in (
                (names.REASONING_TOKENS, usage.reasoning_tokens),
                (names.CACHED_TOKENS, usage.cached_tokens),
                (names.CACHE_WRITE_TOKENS, usage.cache_write_tokens),
            ):
                if tokens:
                    attributes[name] = tokens
            if usage.estimated:
                attributes[names.ESTIMATED] = True
        if self._content:
            parts: list[dict[str, Any]] = [{"type": "text", "content": event.text[:CONTENT]}] if event.text else []
            parts += [
                {"type": "tool_call", "id": one.id, "name": one.tool, "arguments": one.arguments[:CONTENT]}
                for one in event.calls
            ]
            attributes[names.OUTPUT_MESSAGES] = _messages("assistant", parts, event.finish)
        self._close_model(run, event.at, steps)

    def _model_retried(self, run: _Run, event: ModelRetried, steps: list[Step]) -> None:
        self._close_model(run, event.at, steps, event.error, event.detail)

    def _model_failed(self, run: _Run, event: ModelFailed, steps: list[Step]) -> None:
        self._close_model(run, event.at, steps, event.error, event.detail)

    def _call_started(self, run: _Run, event: CallStarted, steps: list[Step]) -> None:
        span = run.calls.get(event.call_id)
        if span is not None:  # tried again
            span.attributes[names.ATTEMPT] = event.attempt
            return
        attributes: dict[str, Value] = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: event.tool,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL: event.call_id,
            names.CONVERSATION: run.span.root,
            names.TURN: event.turn,
            names.SLOT: event.slot,
        }
        span = run.calls[event.call_id] = self._open(
            run,
            run.inner,
            "tool",
            f"tool:{event.turn}:{event.slot}",
            f"{names.EXECUTE_TOOL} {event.tool}",
            event,
            attributes=attributes,
        )
        steps.append(("opened", span))

    def _call_ended(self, run: _Run, event: CallEnded, steps: list[Step]) -> None:
        result = event.result
        span = run.calls.pop(result.call_id, None)
        if span is None:
            _add(run.inner, _not_started(event))
            return
        span.attributes |= {names.KIND: result.kind, names.PRODUCTIVE: result.productive, names.WAITED: event.wait}
        if self._content:
            span.attributes |= {
                names.TOOL_ARGUMENTS: event.arguments[:CONTENT],
                names.TOOL_RESULT: result.content[:CONTENT],
            }
        error = result.error or ("" if result.kind == "finished" else result.kind)
        _close(span, event.at, steps, error, "" if not error or not self._content else result.content)

    def _child_started(self, run: _Run, event: ChildStarted, steps: list[Step]) -> None:
        self._children[event.child] = run.span.root, run.calls.get(event.call_id, run.span).id
        if len(self._children) > PENDING:  # one that was cancelled before it began stays behind
            del self._children[next(iter(self._children))]

    def _user_message(self, run: _Run, event: UserMessage, steps: list[Step]) -> None:
        if self._content and event.source == "task":
            parts = [{"type": "text", "content": event.text[:CONTENT]}]
            run.span.attributes[names.INPUT_MESSAGES] = _messages("user", parts)

    def _suspended(self, run: _Run, event: Suspended, steps: list[Step]) -> None:
        run.suspended = True

    def _run_ended(self, run: _Run, event: RunEnded, steps: list[Step]) -> None:
        outcome = event.outcome
        if run.suspended:
            self._end(run, event.at, "suspended", steps)
            return
        usage = outcome.usage
        run.span.attributes |= {
            names.STATUS: outcome.status,
            names.REASON: outcome.reason,
            names.TURNS: outcome.turns,
            names.CALLS: len(outcome.calls),
            names.INPUT_TOKENS: usage.input_tokens,
            names.OUTPUT_TOKENS: usage.output_tokens,
        }
        if "money" in outcome.spent:
            run.span.attributes[names.MONEY] = outcome.spent["money"]
        if outcome.forced:
            run.span.attributes[names.FORCED] = True
        if self._content and outcome.answer is not None:
            parts = [{"type": "text", "content": outcome.answer[:CONTENT]}]
            run.span.attributes[names.OUTPUT_MESSAGES] = _messages("assistant", parts, "stop")
        # What somebody gave as the reason of a cancel may be anything: it is no kind of error.
        error = {"completed": "", "handed_over": "", "cancelled": "cancelled"}.get(outcome.status, outcome.reason)
        self._end(run, event.at, error, steps, outcome.message)

    # -- ends --------------------------------------------------------------------------------------------------------

    def _close_model(self, run: _Run, at: float, steps: list[Step], error: str = "", message: str = "") -> None:
        if run.model is None:
            return
        if not error and names.FINISH_REASONS not in run.model.attributes:
            error = "cut_off"  # no reply came of it
        _close(run.model, at, steps, error, message)
        run.model = None

    def _end(self, run: _Run, at: float, error: str, steps: list[Step], message: str = "") -> None:
        """Close all that is open of a run, innermost first."""
        self._close_model(run, at, steps, error)
        for span in run.calls.values():
            _close(span, at, steps, error or "lost")
        if run.turn is not None:
            _close(run.turn, at, steps)
        _close(run.span, at, steps, error, message if error else "")
        del self._runs[run.span.run]


def spans_of(facts: Iterable[Event], *, content: bool = False) -> list[Span]:
    """The spans of recorded facts, of one run or of several with their sub-agents, by the order of their starts in each
    run, parents before their children. What has no end in the facts ends with their last."""
    by_run: dict[str, list[Event]] = {}
    for event in facts:
        by_run.setdefault(event.run, []).append(event)
    fold = Spans(content=content)
    found: list[Span] = []
    for run in _parents_first(by_run):
        steps = [step for event in by_run[run] for step in fold.observe(event)]
        found += [span for what, span in steps if what == "opened"]
        if run in fold._runs:
            last = by_run[run][-1].at
            fold._end(fold._runs[run], last, "lost", steps)
    return found


def _parents_first(by_run: dict[str, list[Event]]) -> list[str]:
    order: dict[str, None] = {}

    def put(run: str, above: frozenset[str]) -> None:
        parent = by_run[run][0].parent
        if parent in by_run and parent not in order and parent not in above:
            put(parent, above | {run})
        order[run] = None

    for run in by_run:
        put(run, frozenset())
    return list(order)


def _open_in(run: _Run) -> list[Span]:
    inner = [*run.calls.values(), *([run.model] if run.model is not None else [])]
    return [*inner, *([run.turn] if run.turn is not None else []), run.span]


def _close(span: Span, at: float, steps: list[Step], error: str = "", message: str = "") -> None:
    span.end = max(at, span.start)
    span.error = error
    span.message = message[:TEXT]
    if error:
        span.attributes[names.ERROR] = error
    steps.append(("closed", span))


def _add(span: Span, note: Note) -> None:
    if len(span.notes) < NOTES:
        span.notes.append(note)
        return
    last = span.notes[-1]
    more = last.attributes.get("left_out", 0)
    assert isinstance(more, int)
    span.notes[-1] = msgspec.structs.replace(last, attributes=last.attributes | {"left_out": more + 1})


def _messages(role: str, parts: list[dict[str, Any]], finish: str = "") -> str:
    message: dict[str, Any] = {"role": role, "parts": parts}
    if finish:
        message["finish_reason"] = finish
    return msgspec.json.encode([message]).decode()


def _not_started(event: CallEnded) -> Note:
    result = event.result
    attributes: dict[str, Value] = {names.TOOL: result.tool, names.TOOL_CALL: result.call_id, names.KIND: result.kind}
    if result.error or result.by:
        attributes["why"] = result.error or result.by or ""
    return Note(event.at, "call_not_started", "run", attributes)


def _finding(event: FindingMade) -> Note:
    found = event.finding
    attributes: dict[str, Value] = {
        names.DETECTOR: found.detector,
        "pattern": found.pattern[:TEXT],
        "count": found.count,
    }
    return Note(event.at, "finding", "watchdog", attributes | ({"calls": found.calls} if found.calls else {}))


def _stopped(event: Stopped) -> Note:
    attributes: dict[str, Value] = {names.DETECTOR: event.verdict.finding.detector, "reason": event.verdict.reason}
    return Note(event.at, "stopped", "watchdog", attributes)


def _paused(event: Paused) -> Note:
    return Note(event.at, "paused", "watchdog" if event.verdict is not None else "person", {"reason": event.reason})


def _asked(event: ApprovalRequested) -> Note:
    attributes: dict[str, Value] = {"approval": event.approval, names.TOOL: event.tool, names.TOOL_CALL: event.call_id}
    return Note(event.at, "approval_requested", "person", attributes)


def _resolved(event: ApprovalResolved) -> Note:
    attributes: dict[str, Value] = {"approval": event.approval, names.TOOL: event.tool, "how": event.how}
    return Note(event.at, "approval_resolved", "person", attributes)


_NOTES: dict[type[Event], Callable[[Any], Note]] = {
    FindingMade: _finding,
    Nudged: lambda event: Note(event.at, "nudged", "watchdog", {names.DETECTOR: event.by}),
    Blocked: lambda event: Note(event.at, "blocked", "watchdog", {names.DETECTOR: event.by, "keys": event.keys}),
    Stopped: _stopped,
    Paused: _paused,
    Recovered: lambda event: Note(event.at, "recovered", "run", {"attempt": event.attempt, "unknown": event.unknown}),
    Suspended: lambda event: Note(event.at, "suspended", "run", {"attempt": event.attempt}),
    Resumed: lambda event: Note(event.at, "resumed", "person", {"reason": event.reason}),
    Reminded: lambda event: Note(event.at, "reminded", "run", {"about": event.about}),
    PushedBack: lambda event: Note(event.at, "pushed_back", "run", {"by": event.by}),
    CancelRequested: lambda event: Note(
        event.at, "cancel_requested", "person", {"mode": event.mode, "reason": event.reason[:TEXT]}
    ),
    CancelConfirmed: lambda event: Note(
        event.at, "cancel_confirmed", "run", {"seconds": event.seconds, "abandoned": event.abandoned}
    ),
    ApprovalRequested: _asked,
    ApprovalResolved: _resolved,
    ModelRetried: lambda event: Note(
        event.at, "model_retried", "model", {names.ERROR: event.error, names.ATTEMPT: event.attempt, "wait": event.wait}
    ),
    Overrun: lambda event: Note(event.at, "overrun", "run", {"dimension": event.dimension, "over": event.over}),
    ContextCompacted: lambda event: Note(event.at, "context_compacted", "model", {"reason": event.reason}),
    LoopBlocked: lambda event: Note(
        event.at, "loop_blocked", "watchdog", {"seconds": event.seconds, "frame": event.frame[:TEXT]}
    ),
}

_TAKES: dict[type[Event], Callable[[Spans, _Run, Any, list[Step]], None]] = {
    TurnStarted: Spans._turn_started,
    ModelRequested: Spans._model_requested,
    ModelFirstChunk: Spans._first_chunk,
    ModelReplied: Spans._model_replied,
    ModelRetried: Spans._model_retried,
    ModelFailed: Spans._model_failed,
    CallStarted: Spans._call_started,
    CallEnded: Spans._call_ended,
    ChildStarted: Spans._child_started,
    UserMessage: Spans._user_message,
    Suspended: Spans._suspended,
    RunEnded: Spans._run_ended,
}
