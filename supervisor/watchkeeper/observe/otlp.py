"""The spans of recorded facts as OTLP/JSON: what any OpenTelemetry collector takes as a file or by POST. Pure.

Ids are digests of those of runs and spans: the same facts give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .. import __version__
from ..messages import Event, mended
from .spans import Note, Span, Value, spans_of

INTERNAL, CLIENT = 1, 3
"""Kinds of spans."""
FAILED = 2
"""The status of a span that had an error."""


def otlp(facts: Iterable[Event], *, content: bool = False, service: str = "watchkeeper") -> bytes:
    """One ``ExportTraceServiceRequest`` as JSON. ``content``: with what was said to and by models and tools."""
    scope = {"name": "watchkeeper", "version": __version__}
    spans = [encoded(span) for span in spans_of(facts, content=content)]
    resource = {"attributes": _attributes({"service.name": service})}
    request = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}
    return msgspec.json.encode(mended(request))


def trace_id(root: str) -> str:
    """32 hexadecimal characters, the same for all runs of a tree."""
    return hashlib.blake2b(root.encode("utf-8", "replace"), digest_size=16).hexdigest()


def span_id(span: str) -> str:
    """16 hexadecimal characters."""
    return hashlib.blake2b(span.encode("utf-8", "replace"), digest_size=8).hexdigest()


def encoded(span: Span) -> dict[str, Any]:
    assert span.end is not None
    found: dict[str, Any] = {
        "traceId": trace_id(span.root),
        "spanId": span_id(span.id),
        "name": span.name,
        "kind": CLIENT if span.kind == "model" else INTERNAL,
        "startTimeUnixNano": _nanoseconds(span.start),
        "endTimeUnixNano": _nanoseconds(span.end),
        "attributes": _attributes(span.attributes),
        "events": [_event(note) for note in span.notes],
        "status": {"code": FAILED, "message": span.message} if span.error else {},
    }
    if span.parent:
        found["parentSpanId"] = span_id(span.parent)
    return found


def _event(note: Note) -> dict[str, Any]:
    return {"timeUnixNano": _nanoseconds(note.at), "name": note.name, "attributes": _attributes(note.attributes)}


def _attributes(attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}  # 64 bits, which JSON numbers do not hold
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": value}


def _nanoseconds(at: float) -> str:
    return str(round(at * 1_000_000) * 1_000)
