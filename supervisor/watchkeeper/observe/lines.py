"""Log lines of runs, by structlog: one for each fact worth one, with run, turn and call bound."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from ..cli.printable import one_line
from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    Blocked,
    CallEnded,
    CallReplaced,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    ContextCompacted,
    DetectorFailed,
    Event,
    FindingMade,
    GuardOverran,
    LimitsRaised,
    LoopBlocked,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    NotesFailed,
    Nudged,
    OpinionGiven,
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
    WouldRefuse,
)
from .writer import Writer

if TYPE_CHECKING:
    import structlog

TEXT = 300
"""Characters of a text in a line."""
LISTED = 20
"""Members of a list in a line."""

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "text"]
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Lines:
    """An observer: ``Supervisor(observers=[Lines(logger_to(Writer(sys.stderr), "json")).observe])``.

    Lines hold no arguments, results, replies or messages, but for the beginning of the task; no fact holds a secret.
    """

    def __init__(self, logger: structlog.typing.FilteringBoundLogger) -> None:
        self._logger = logger.bind()
        self._suspended: set[str] = set()
        """Runs whose attempt ends, and that go on with another."""

    def observe(self, event: Event) -> None:
        told = TABLE.get(type(event))
        if told is None:
            return
        name = str(type(event).__struct_config__.tag)
        level, said = told(event)
        if isinstance(event, Suspended):
            self._suspended.add(event.run)
        elif isinstance(event, RunEnded) and event.run in self._suspended:
            self._suspended.discard(event.run)
            name = "run_suspended"
        if not self._logger.is_enabled_for(LEVELS[level]):
            return
        bound: dict[str, Any] = {"at": event.at, "run": event.run}
        if event.turn:
            bound["turn"] = event.turn
        call = getattr(event, "call_id", "") or (event.result.call_id if isinstance(event, CallEnded) else "")
        if call:
            bound["call"] = call
        fields = {name: value for name, value in said.items() if value not in (None, "", (), {})}
        self._logger.log(LEVELS[level], name, **_bounded(bound | fields))


def logger_to(
    writer: Writer, format: Format, level: Level = "info", *, colors: bool = False
) -> structlog.typing.FilteringBoundLogger:
    """A logger that is nobody else's: what the host configures of structlog stays as it is."""
    import structlog

    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        writer,
        processors=processors(format, colors=colors),
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )
    return logger


def processors(format: Format, *, colors: bool = False) -> list[structlog.typing.Processor]:
    """What becomes of a line: a time in UTC, texts that steer no terminal, and JSON or ``key=value``."""
    import structlog

    last: structlog.typing.Processor
    if format == "json":
        last = structlog.processors.JSONRenderer(serializer=_json)
    else:
        last = structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False, repr_native_str=True, pad_event_to=20)
    return [structlog.processors.add_log_level, _timed, _safe, last]


def _timed(logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The time of the fact; of other lines, now."""
    at = line.pop("at", None)
    moment = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"timestamp": stamp, "level": line.pop("level"), "event": line.pop("event"), **line}


def _safe(logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: _shown(value) for name, value in line.items()}


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isprintable() else one_line(value, 20 * TEXT)  # reports hold tracebacks
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return value


def _json(line: Any, **options: Any) -> str:
    import msgspec

    return msgspec.json.encode(line, enc_hook=repr).decode()


def _bounded(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: _cut(value) for name, value in fields.items()}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT and value.isprintable() else one_line(value, TEXT)
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, tuple):
        return [_cut(one) for one in value[:LISTED]]
    if isinstance(value, dict):
        return {one_line(str(name), TEXT): _cut(one) for name, one in list(value.items())[:LISTED]}
    return value


# -- which facts are worth a line, and what of them --------------------------------------------------------------------

Told = tuple[Level, dict[str, Any]]


def _run_ended(event: RunEnded) -> Told:
    outcome = event.outcome
    level: Level = {"completed": "info", "cancelled": "info", "failed": "error"}.get(outcome.status, "warning")  # type: ignore[assignment]
    return level, {
        "status": outcome.status,
        "reason": outcome.reason,
        "turns": outcome.turns,
        "calls": len(outcome.calls),
        "seconds": outcome.seconds,
        "spent": outcome.spent,
        "unknown": outcome.unknown,
        "message": outcome.message,
    }


def _model_replied(event: ModelReplied) -> Told:
    said: dict[str, Any] = {"finish": event.finish, "calls": len(event.calls), "seconds": event.seconds}
    if event.usage is not None:
        said |= {"input_tokens": event.usage.input_tokens, "output_tokens": event.usage.output_tokens}
    return "debug", said


def _call_ended(event: CallEnded) -> Told:
    result = event.result
    ended_well = result.kind in ("finished", "cancelled", "not_run")
    said = {"tool": result.tool, "kind": result.kind, "error": result.error, "by": result.by}
    return "info" if ended_well else "warning", said | {"seconds": event.ran, "waited": event.wait or None}


def _finding(event: FindingMade) -> Told:
    found = event.finding
    said = {"detector": found.detector, "pattern": found.pattern, "count": found.count, "calls": found.calls}
    return "info", said


def _paused(event: Paused) -> Told:
    detector = event.verdict.finding.detector if event.verdict is not None else None
    return "warning", {"reason": event.reason, "detector": detector, "deadline": event.deadline}


def _notes_failed(event: NotesFailed) -> Told:
    return "warning", {"error": event.error, "off": event.off}


TABLE: dict[type[Event], Callable[[Any], Told]] = {
    RunStarted: lambda one: (
        "info",
        {
            "agent": one.agent,
            "task": one.task,
            "model": one.model,
            "profile": one.profile,
            "mode": one.mode,
            "parent": one.parent,
            "continues": one.continues,
        },
    ),
    Recovered: lambda one: (
        "warning",
        {"agent": one.agent, "attempt": one.attempt, "unknown": one.unknown, "again": one.again},
    ),
    Suspended: lambda one: ("info", {"attempt": one.attempt}),
    LimitsRaised: lambda one: ("info", {"amounts": one.amounts, "by": one.by}),
    RunEnded: _run_ended,
    UserMessage: lambda one: ("info" if one.source == "steer" else "debug", {"source": one.source}),
    TurnStarted: lambda one: ("debug", {"left": one.left, "tools_on": one.tools_on}),
    ModelRequested: lambda one: ("debug", {"model": one.model, "attempt": one.attempt, "messages": one.messages}),
    ModelReplied: _model_replied,
    ModelRetried: lambda one: ("warning", {"error": one.error, "attempt": one.attempt, "wait": one.wait}),
    ModelFailed: lambda one: ("error", {"error": one.error, "detail": one.detail}),
    CallStarted: lambda one: ("debug", {"tool": one.tool, "attempt": one.attempt}),
    CallEnded: _call_ended,
    CallReplaced: lambda one: ("info", {"tool": one.tool, "instead": one.instead, "by": one.by}),
    ApprovalRequested: lambda one: (
        "warning",
        {"approval": one.approval, "tool": one.tool, "by": one.by, "seconds": one.seconds},
    ),
    ApprovalResolved: lambda one: ("info", {"approval": one.approval, "tool": one.tool, "how": one.how, "by": one.by}),
    WouldRefuse: lambda one: ("info", {"by": one.by, "would": one.would, "tool": one.tool, "error": one.error}),
    OpinionGiven: lambda one: ("info", {"by": one.by, "decision": one.decision, "failed": one.failed}),
    GuardOverran: lambda one: ("warning", {"by": one.by, "seconds": one.seconds, "then": one.then}),
    FindingMade: _finding,
    Nudged: lambda one: ("warning", {"detector": one.by}),
    Blocked: lambda one: ("warning", {"detector": one.by}),
    Stopped: lambda one: ("warning", {"detector": one.verdict.finding.detector, "reason": one.verdict.reason}),
    Paused: _paused,
    Resumed: lambda one: ("info", {"reason": one.reason}),
    Reminded: lambda one: ("debug", {"about": one.about}),
    PushedBack: lambda one: ("info", {"by": one.by}),
    CancelRequested: lambda one: ("warning", {"mode": one.mode, "reason": one.reason, "status": one.status}),
    CancelConfirmed: lambda one: ("info", {"seconds": one.seconds, "abandoned": one.abandoned}),
    Overrun: lambda one: ("warning", {"dimension": one.dimension, "over": one.over}),
    DetectorFailed: lambda one: ("error", {"detector": one.detector, "error": one.error}),
    ContextCompacted: lambda one: ("info", {"reason": one.reason, "before": one.before, "after": one.after}),
    NotesFailed: _notes_failed,
    ChildStarted: lambda one: ("info", {"child": one.child, "agent": one.agent}),
    ChildEnded: lambda one: ("debug", {"child": one.child, "status": one.status, "reason": one.reason}),
    LoopBlocked: lambda one: ("warning", {"seconds": one.seconds, "frame": one.frame}),
}
