"""OpenTelemetry set up from its own environment variables: what exports spans and metrics, and how it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from .otel import Otel

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""Values of ``OTEL_EXPORTER_OTLP_PROTOCOL``, and the exporters that they stand for."""
DEFAULT = "otlp"
"""The exporter, where none is named, by the specification of OpenTelemetry."""


@contextlib.contextmanager
def exported(environ: Mapping[str, str], *, content: bool = False) -> Iterator[Otel]:
    """An :class:`.Otel` whose spans and metrics go where ``OTEL_TRACES_EXPORTER`` and ``OTEL_METRICS_EXPORTER`` say
    (``otlp``, ``console``, ``none``); at the end what is left is sent. Where the host has set up providers of its own,
    those are used and left alone.

    Raises :class:`ConfigurationError` where an exporter is not installed.
    """
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider as Meters
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider as Tracers
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError("OpenTelemetry is not installed: pip install 'watchkeeper[otel]'") from error
    with contextlib.ExitStack() as stack:
        tracers: TracerProvider | None = None
        meters: MeterProvider | None = None
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            tracers = made = Tracers()
            stack.callback(made.shutdown)
            for exporter in _exporters("traces", environ):
                made.add_span_processor(BatchSpanProcessor(exporter))
        if "sdk" not in type(metrics.get_meter_provider()).__module__:
            meters = found = Meters([PeriodicExportingMetricReader(one) for one in _exporters("metrics", environ)])
            stack.callback(found.shutdown)
        otel = Otel(content=content, tracer_provider=tracers, meter_provider=meters)
        stack.callback(otel.close)
        yield otel


def _exporters(signal: str, environ: Mapping[str, str]) -> list[Any]:
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    there = {point.name: point for point in entry_points(group=f"opentelemetry_{signal}_exporter")}
    found = []
    for name in (environ.get(variable) or DEFAULT).split(","):
        if (name := name.strip()) in ("", "none"):
            continue
        if name == DEFAULT:
            protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            name = PROTOCOLS.get(protocol, protocol)
        if name not in there:
            known = ", ".join(sorted({*there, "none"}))
            raise ConfigurationError(
                f"{variable}: the exporter {name!r} is not installed (pip install "
                f"opentelemetry-exporter-{name.replace('_', '-')}, or name one of {known})"
            )
        found.append(there[name].load()())
    return found
