"""Prometheus metrics of runs: a fold over their facts. Needs prometheus-client (extra ``server``).

Labels are bounded: of agents, models, tools, detectors and reasons the first :data:`NAMES` have a label of their own,
all others are ``other``. No label holds an id of a run or what a person has written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import ConfigurationError
from ..messages import (
    ApprovalRequested,
    ApprovalResolved,
    Blocked,
    CallEnded,
    CallProposed,
    CancelConfirmed,
    CancelRequested,
    Event,
    LoopBlocked,
    ModelFailed,
    ModelFirstChunk,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Nudged,
    OpinionAsked,
    OpinionGiven,
    Paused,
    Recovered,
    Resumed,
    RunEnded,
    RunEnding,
    RunStarted,
    Settled,
    Stopped,
    Suspended,
    Verdict,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

NAMES = 50
"""Values of a label; further ones become ``other``."""
OTHER = "other"
CALL_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
RUN_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 10800)
CANCEL_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Bounds of buckets."""


class Metrics:
    """An observer: ``Supervisor(observers=[Metrics().observe])``.

    ``registry``: where the metrics are; by default one of their own, :attr:`registry`.

    Raises :class:`ConfigurationError` where prometheus-client is not installed.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError as error:
            raise ConfigurationError("prometheus-client is not installed: pip install 'watchkeeper[server]'") from error
        self.registry: CollectorRegistry = registry if registry is not None else CollectorRegistry()
        self._runs: dict[str, _Run] = {}
        self._labels: dict[str, set[str]] = {}

        def made(kind: Any, name: str, told: str, *labels: str, **more: Any) -> Any:
            return kind(f"watchkeeper_{name}", told, labels, registry=self.registry, **more)

        live = {"multiprocess_mode": "livesum"}  # of several processes: those that live, together
        self._active = made(Gauge, "runs_active", "Runs that have begun and not ended.", "agent", "state", **live)
        self._started = made(Counter, "runs_started", "Runs that have begun.", "agent")
        self._recovered = made(Counter, "runs_recovered", "Runs that another attempt went on with.", "agent")
        self._finished = made(Counter, "runs_finished", "Runs that have ended.", "agent", "outcome", "reason")
        self._run_seconds = made(
            Histogram, "run_duration_seconds", "From start to end.", "agent", "outcome", buckets=RUN_SECONDS
        )
        self._requests = made(Counter, "model_calls", "Requests to models that have ended.", "model", "outcome")
        self._request_seconds = made(
            Histogram, "model_call_duration_seconds", "Of requests with a reply.", "model", buckets=CALL_SECONDS
        )
        self._first_chunk = made(
            Histogram, "model_first_chunk_seconds", "To the first piece of a reply.", "model", buckets=CALL_SECONDS
        )
        self._tokens = made(Counter, "tokens", "Tokens as they were charged.", "model", "type")
        self._cost = made(Counter, "cost_dollars", "Money that requests cost, in the currency of the prices.", "model")
        self._tool_cost = made(Counter, "tool_cost_dollars", "Money that calls of tools cost.", "tool")
        self._unknown = made(Counter, "cost_unknown_calls", "Requests that cost what nobody knows.", "model")
        self._calls = made(Counter, "tool_calls", "Calls that have a result, by its kind.", "tool", "outcome")
        self._call_seconds = made(
            Histogram, "tool_duration_seconds", "Of calls that were started.", "tool", buckets=CALL_SECONDS
        )
        self._interventions = made(
            Counter, "interventions", "What the watchdog has said and done.", "detector", "action"
        )
        self._cancel_seconds = made(
            Histogram, "cancel_latency_seconds", "From a cancel to the last task.", buckets=CANCEL_SECONDS
        )
        self._approvals = made(Gauge, "approvals_pending", "Calls and answers that wait for a yes or a no.", **live)
        self._blocked = made(
            Histogram, "event_loop_blocked_seconds", "For how long the loop of a run did not run.", buckets=CALL_SECONDS
        )
        one = {"multiprocess_mode": "livemax"}
        made(Gauge, "build_info", "Which version this is.", "version", **one).labels(__version__).set(1)

    def observe(self, event: Event) -> None:
        kind = type(event)
        take = _TAKES.get(kind)
        if take is None:
            return
        run = self._runs.get(event.run)
        if run is None:
            if kind is RunEnded:  # it never began
                return
            name = event.agent if isinstance(event, RunStarted | Recovered) else ""
            agent = self._label("agent", name) if name else OTHER
            run = self._runs[event.run] = _Run(agent)
            self._active.labels(agent, "running").inc()
        take(self, run, event)

    def _label(self, name: str, value: str) -> str:
        known = self._labels.setdefault(name, set())
        if value not in known:
            if len(known) >= NAMES:
                return OTHER
            known.add(value)
        return value

    # -- what facts do -----------------------------------------------------------------------------------------------

    def _run_started(self, run: _Run, event: RunStarted) -> None:
        self._started.labels(run.agent).inc()

    def _run_recovered(self, run: _Run, event: Recovered) -> None:
        self._recovered.labels(run.agent).inc()

    def _suspended(self, run: _Run, event: Suspended) -> None:
        run.suspended = True

    def _move(self, run: _Run, state: str) -> None:
        self._active.labels(run.agent, run.state).dec()
        run.state = state
        self._active.labels(run.agent, state).inc()

    def _paused(self, run: _Run, event: Paused) -> None:
        self._move(run, "paused")
        if event.verdict is not None:
            self._intervened(event.verdict, "pause")

    def _resumed(self, run: _Run, event: Resumed) -> None:
        self._move(run, "running")

    def _run_ending(self, run: _Run, event: RunEnding) -> None:
        self._move(run, "ending")

    def _run_ended(self, run: _Run, event: RunEnded) -> None:
        del self._runs[event.run]
        self._active.labels(run.agent, run.state).dec()
        self._approvals.dec(len(run.approvals))
        if run.requested is not None:
            self._requests.labels(run.model, "cut_off").inc()
        outcome = event.outcome
        if run.suspended or (outcome.status == "failed" and outcome.reason == "fenced"):
            return  # another attempt goes on with it: that is no end
        ours = outcome.status != "cancelled" or outcome.reason == "supervisor_closed"
        if not ours or (run.asked and outcome.status == "handed_over"):
            reason = "by_request"  # what was given as the reason may be anything
        else:
            reason = self._label("reason", outcome.reason)
        self._finished.labels(run.agent, outcome.status, reason).inc()
        self._run_seconds.labels(run.agent, outcome.status).observe(outcome.seconds)

    def _model_requested(self, run: _Run, event: ModelRequested) -> None:
        if run.requested is not None:
            self._requests.labels(run.model, "cut_off").inc()
        run.model = self._label("model", event.model)
        run.requested = event.at

    def _first(self, run: _Run, event: ModelFirstChunk) -> None:
        self._first_chunk.labels(run.model).observe(event.seconds)

    def _model_replied(self, run: _Run, event: ModelReplied) -> None:
        self._request_ended(run, "replied")
        self._request_seconds.labels(run.model).observe(event.seconds)

    def _model_failed(self, run: _Run, event: ModelRetried | ModelFailed) -> None:
        self._request_ended(run, self._label("error", event.error))

    def _request_ended(self, run: _Run, outcome: str) -> None:
        """A failure that is told as tried again and then as final is one."""
        if run.requested is not None:
            self._requests.labels(run.model, outcome).inc()
        run.requested = None

    def _opinion_asked(self, run: _Run, event: OpinionAsked) -> None:
        run.opinion = self._label("model", event.model) if event.model else ""

    def _opinion_given(self, run: _Run, event: OpinionGiven) -> None:
        run.opinion = ""

    def _call_proposed(self, run: _Run, event: CallProposed) -> None:
        run.tools[event.turn, event.slot] = event.tool

    def _settled(self, run: _Run, event: Settled) -> None:
        amounts = event.amounts
        if event.slot:
            if money := amounts.get("money"):
                tool = self._label("tool", run.tools.get((event.turn, event.slot), OTHER))
                self._tool_cost.labels(tool).inc(max(money, 0.0))
            return
        model = run.opinion or run.model
        for name, kind in (("input_tokens", "input"), ("output_tokens", "output")):
            if amount := amounts.get(name):
                self._tokens.labels(model, kind).inc(max(amount, 0.0))
        if money := amounts.get("money"):
            self._cost.labels(model).inc(max(money, 0.0))
        if "money" in event.unknown:
            self._unknown.labels(model).inc()

    def _call_ended(self, run: _Run, event: CallEnded) -> None:
        run.tools.pop((event.turn, event.slot), None)
        tool = self._label("tool", event.result.tool)
        self._calls.labels(tool, event.result.kind).inc()
        if event.ran:
            self._call_seconds.labels(tool).observe(event.ran)

    def _nudged(self, run: _Run, event: Nudged) -> None:
        self._intervened_by(event.by, "nudge")

    def _blocked_keys(self, run: _Run, event: Blocked) -> None:
        self._intervened_by(event.by, "block")

    def _stopped(self, run: _Run, event: Stopped) -> None:
        self._intervened(event.verdict, "stop")

    def _intervened(self, verdict: Verdict, action: str) -> None:
        self._intervened_by(verdict.finding.detector, action)

    def _intervened_by(self, detector: str, action: str) -> None:
        self._interventions.labels(self._label("detector", detector), action).inc()

    def _cancel_requested(self, run: _Run, event: CancelRequested) -> None:
        run.asked = True

    def _cancel_confirmed(self, run: _Run, event: CancelConfirmed) -> None:
        self._cancel_seconds.observe(event.seconds)

    def _asked(self, run: _Run, event: ApprovalRequested) -> None:
        if event.approval not in run.approvals:
            run.approvals.add(event.approval)
            self._approvals.inc()

    def _resolved(self, run: _Run, event: ApprovalResolved) -> None:
        if event.approval in run.approvals:
            run.approvals.discard(event.approval)
            self._approvals.dec()

    def _loop_blocked(self, run: _Run, event: LoopBlocked) -> None:
        self._blocked.observe(event.seconds)


class _Run:
    """How a run stands, as far as its metrics need it."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.state = "running"
        self.suspended = False
        self.asked = False
        """Somebody has asked for its end."""
        self.model = ""
        self.opinion = ""
        """The model that is asked for a second opinion."""
        self.requested: float | None = None
        """When the request was made that has not ended."""
        self.tools: dict[tuple[int, int], str] = {}
        """Of the calls that have no result yet, by turn and slot."""
        self.approvals: set[str] = set()


_TAKES: dict[type[Event], Callable[[Metrics, _Run, Any], None]] = {
    RunStarted: Metrics._run_started,
    Recovered: Metrics._run_recovered,
    Suspended: Metrics._suspended,
    Paused: Metrics._paused,
    Resumed: Metrics._resumed,
    RunEnding: Metrics._run_ending,
    RunEnded: Metrics._run_ended,
    ModelRequested: Metrics._model_requested,
    ModelFirstChunk: Metrics._first,
    ModelReplied: Metrics._model_replied,
    ModelRetried: Metrics._model_failed,
    ModelFailed: Metrics._model_failed,
    OpinionAsked: Metrics._opinion_asked,
    OpinionGiven: Metrics._opinion_given,
    CallProposed: Metrics._call_proposed,
    Settled: Metrics._settled,
    CallEnded: Metrics._call_ended,
    Nudged: Metrics._nudged,
    Blocked: Metrics._blocked_keys,
    Stopped: Metrics._stopped,
    CancelRequested: Metrics._cancel_requested,
    CancelConfirmed: Metrics._cancel_confirmed,
    ApprovalRequested: Metrics._asked,
    ApprovalResolved: Metrics._resolved,
    LoopBlocked: Metrics._loop_blocked,
}
