"""Spans and metrics by OpenTelemetry, with the names of the conventions for generative AI.

Needs only the API (``pip install 'watchkeeper[otel]'`` brings the SDK too). Where no provider is set up, nothing is
recorded and nothing fails.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import ConfigurationError
from ..messages import Blocked, Event, Nudged, Paused, Stopped
from . import names
from .spans import Span, Spans, Step

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.metrics import MeterProvider

SCOPE = "watchkeeper"
SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""Bounds of buckets, as the conventions advise."""


class Otel:
    """An observer: ``Supervisor(observers=[Otel().observe])``.

    A run's span is a child of whatever span its starter was in. ``content``: with what was said to and by models and
    tools, without secrets and bounded; off by default. The providers are the process's own unless they are given.

    Raises :class:`ConfigurationError` where OpenTelemetry is not installed.
    """

    def __init__(
        self,
        *,
        content: bool = False,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise ConfigurationError("OpenTelemetry is not installed: pip install 'watchkeeper[otel]'") from error
        self._trace = trace
        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(SCOPE, __version__, meter_provider)
        self._duration = meter.create_histogram(
            names.DURATION, "s", "GenAI operation duration.", explicit_bucket_boundaries_advisory=SECONDS
        )
        self._usage = meter.create_histogram(
            names.USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKENS,
        )
        self._first_chunk = meter.create_histogram(
            names.TIME_TO_FIRST_CHUNK, "s", "Time to the first chunk.", explicit_bucket_boundaries_advisory=SECONDS
        )
        self._interventions = meter.create_counter(
            names.INTERVENTIONS, "{intervention}", "What the watchdog has said and done."
        )
        self._fold = Spans(content=content)
        self._open: dict[str, trace.Span] = {}

    def observe(self, event: Event) -> None:
        self._apply(self._fold.observe(event))
        if isinstance(event, Nudged | Blocked | Stopped | Paused):
            self._intervened(event)

    def close(self) -> None:
        """End the spans of runs that have told of no end; they have the error ``lost``."""
        self._apply(self._fold.close(time.time()))

    def _apply(self, steps: list[Step]) -> None:
        for what, span in steps:
            if what == "opened":
                self._start(span)
            else:
                self._end(span)

    def _start(self, span: Span) -> None:
        above = self._open.get(span.parent)
        kind = self._trace.SpanKind.CLIENT if span.kind == "model" else self._trace.SpanKind.INTERNAL
        self._open[span.id] = self._tracer.start_span(
            span.name,
            None if above is None else self._trace.set_span_in_context(above),
            kind,
            dict(span.attributes),
            start_time=_nanoseconds(span.start),
        )

    def _end(self, span: Span) -> None:
        theirs = self._open.pop(span.id)
        assert span.end is not None
        if theirs.is_recording():
            theirs.set_attributes(dict(span.attributes))
            for note in span.notes:
                theirs.add_event(note.name, dict(note.attributes), _nanoseconds(note.at))
            if span.error:
                theirs.set_status(self._trace.Status(self._trace.StatusCode.ERROR, span.message or None))
        theirs.end(_nanoseconds(span.end))
        if span.kind == "model":
            self._measure(span, span.end - span.start)

    def _measure(self, span: Span, seconds: float) -> None:
        of = {name: span.attributes[name] for name in (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL)}
        self._duration.record(seconds, of | ({names.ERROR: span.error} if span.error else {}))
        first = span.attributes.get(names.FIRST_CHUNK)
        if isinstance(first, float):
            self._first_chunk.record(first, of)
        for name, kind in ((names.INPUT_TOKENS, "input"), (names.OUTPUT_TOKENS, "output")):
            tokens = span.attributes.get(name)
            if isinstance(tokens, int):
                self._usage.record(tokens, of | {names.TOKEN_TYPE: kind})

    def _intervened(self, event: Nudged | Blocked | Stopped | Paused) -> None:
        if isinstance(event, Nudged | Blocked):
            detector = event.by
        elif event.verdict is None:
            return  # a person's pause
        else:
            detector = event.verdict.finding.detector
        action = {Nudged: "nudge", Blocked: "block", Stopped: "stop", Paused: "pause"}[type(event)]
        self._interventions.add(1, {names.DETECTOR: detector, names.ACTION: action})


def _nanoseconds(at: float) -> int:
    return round(at * 1_000_000) * 1_000
