"""OpenTelemetry: spans as its conventions have them, from live runs."""

from __future__ import annotations

from typing import Any

import pytest
from sighted import hanging, recorded, see, see_all, with_sub_agent

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from watchkeeper import ConfigurationError
from watchkeeper.messages import CallEnded
from watchkeeper.observe import exporting, names
from watchkeeper.observe.exporting import exported
from watchkeeper.observe.otel import Otel
from watchkeeper.observe.spans import spans_of


class Watched:
    """Providers that keep what they get."""

    def __init__(self, **settings: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider([self._reader])
        self.otel = Otel(tracer_provider=self.tracers, meter_provider=meters, **settings)

    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    def points(self, metric: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_spans_of_a_run_are_within_each_other() -> None:
    watched = Watched()
    facts = await see(with_sub_agent(), watched.otel.observe)
    by_id = {span.context.span_id: span for span in watched.spans() if span.context is not None}
    assert len(by_id) == len(spans_of(facts))
    above = {
        span.name: by_id[span.parent.span_id].name if span.parent is not None else None for span in watched.spans()
    }
    assert above["invoke_agent top"] is None
    assert above["turn 4"] == "invoke_agent top"
    assert above["execute_tool put"] == "turn 1"
    assert above["invoke_agent sub"] == "execute_tool ask_sub"
    assert len({span.context.trace_id for span in watched.spans() if span.context is not None}) == 1


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_every_span_ends_however_its_run_does() -> None:
    watched = Watched()
    facts = await see_all(watched.otel.observe)
    assert len(watched.spans()) == sum(len(spans_of(one)) for one in facts.values())
    assert watched.otel._open == {}
    assert all(span.end_time is not None and span.start_time is not None for span in watched.spans())
    (cancelled,) = watched.named("invoke_agent hang")
    assert cancelled.status.status_code is trace.StatusCode.ERROR
    assert of(cancelled)[names.ERROR] == "cancelled"
    (hung,) = watched.named("execute_tool hang")
    assert hung.end_time is not None
    assert hung.start_time is not None
    assert (hung.end_time - hung.start_time) / 1e9 == pytest.approx(5.0, abs=0.01)
    (stopped,) = watched.named("invoke_agent loop")
    assert of(stopped)[names.ERROR] == "loop"


def test_what_is_left_open_ends_when_it_is_closed() -> None:
    watched = Watched()
    for event in recorded()["hang"][:-8]:
        watched.otel.observe(event)
    (turn, run) = [span.name for span in watched.spans() if span.name.startswith("turn")], "invoke_agent hang"
    assert not turn
    assert not watched.named(run)
    watched.otel.close()
    assert of(watched.named(run)[0])[names.ERROR] == "lost"
    assert watched.otel._open == {}


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_a_run_belongs_to_the_span_in_which_it_was_started() -> None:
    watched = Watched()
    tracer = watched.tracers.get_tracer("host")
    with tracer.start_as_current_span("request"):
        await see(hanging(), watched.otel.observe, cancel_after=1.0)
    (request,), (run,) = watched.named("request"), watched.named("invoke_agent hang")
    assert request.context is not None
    assert run.parent is not None
    assert run.parent.span_id == request.context.span_id


def test_content_is_left_out_unless_it_is_asked_for() -> None:
    for content in (False, True):
        watched = Watched(content=content)
        for event in recorded()["top"]:
            watched.otel.observe(event)
        found = {name for span in watched.spans() for name in of(span)} & names.CONTENT
        assert found == (names.CONTENT if content else set())
        said = any("is there" in str(of(span)) for span in watched.spans())
        assert said == content


def test_notes_are_events_of_their_spans() -> None:
    watched = Watched()
    for event in recorded()["loop"]:
        watched.otel.observe(event)
    told = [event.name for span in watched.spans() for event in span.events]
    assert {"finding", "nudged", "blocked", "stopped"} <= set(told)


def test_metrics_are_those_of_the_conventions() -> None:
    watched = Watched()
    for event in (*recorded()["retry"], *recorded()["loop"]):
        watched.otel.observe(event)
    points = watched.points(names.DURATION)
    failed = [point.attributes.get(names.ERROR) for point in points]
    assert set(failed) == {None, "rate_limited"}
    assert {point.attributes[names.REQUEST_MODEL] for point in points} == {"scripted"}
    usage = {point.attributes[names.TOKEN_TYPE]: point.sum for point in watched.points(names.USAGE)}
    replies = sum(span.name == "chat scripted" and span.status.is_unset for span in watched.spans())
    assert usage == {"input": 10 * replies, "output": 10 * replies}
    assert watched.points(names.TIME_TO_FIRST_CHUNK)[0].count == replies
    actions = {point.attributes[names.ACTION]: point.value for point in watched.points(names.INTERVENTIONS)}
    assert actions == {"nudge": 2, "block": 1, "stop": 1}


def test_without_a_provider_nothing_is_recorded_and_nothing_fails() -> None:
    otel = Otel(tracer_provider=trace.NoOpTracerProvider())
    for facts in recorded().values():
        for event in facts:
            otel.observe(event)
    assert otel._open == {}


def test_names_are_those_of_the_conventions() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    known |= {value for name, value in vars(gen_ai_metrics).items() if name.startswith("GEN_AI_")}
    ours = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert ours <= known
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.CHAT, names.EXECUTE_TOOL, names.INVOKE_AGENT} <= operations
    assert names.OPENAI in {one.value for one in gen_ai_attributes.GenAiProviderNameValues}


class Point:
    """An entry point of an exporter that is installed."""

    name = "memory"

    def __init__(self) -> None:
        self.made = InMemorySpanExporter()

    def load(self) -> Any:
        return lambda: self.made


def test_spans_go_where_the_variables_of_opentelemetry_say(monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point()
    monkeypatch.setattr(exporting, "entry_points", lambda group: [point] if "traces" in group else [])
    with exported({"OTEL_TRACES_EXPORTER": "memory", "OTEL_METRICS_EXPORTER": "none"}) as otel:
        for event in recorded()["broken"]:
            otel.observe(event)
    assert [span.name for span in point.made.get_finished_spans()] == [
        "chat scripted",
        "turn 1",
        "invoke_agent broken",
    ]


def test_an_exporter_that_is_not_installed_is_named_with_the_remedy() -> None:
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_METRICS_EXPORTER": "none"}
    with (
        pytest.raises(
            ConfigurationError, match="OTEL_TRACES_EXPORTER: the exporter 'otlp_proto_grpc' is not installed"
        ),
        exported(environ),
    ):
        pass


def test_calls_that_ended_have_all_been_recorded_once() -> None:
    watched = Watched()
    for event in recorded()["top"]:
        watched.otel.observe(event)
    calls = [event.result.call_id for event in recorded()["top"] if type(event) is CallEnded]
    told = [of(span)[names.TOOL_CALL] for span in watched.spans() if span.name.startswith("execute_tool")]
    assert sorted(told) == sorted(calls)
