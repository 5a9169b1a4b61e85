"""Recorded facts as a Chrome trace, which ui.perfetto.dev and chrome://tracing show. Pure.

A run is a process. Its tracks: the run with its turns, the model, the tools (calls that run side by side on tracks
side by side), the watchdog, and what was spent, as a curve. Arrows lead from a call to the sub-agent that it started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..messages import Event, Settled, mended
from .spans import Note, Span, spans_of

RUN, MODEL, WATCHDOG, TOOLS = 1, 2, 3, 10
"""Numbers of tracks; those of tools go on from there."""
TRACKS = {RUN: "run", MODEL: "model", WATCHDOG: "watchdog"}
CURVES = ("tokens", "money", "calls")
"""Dimensions of the budget that are drawn."""


def perfetto(facts: Iterable[Event], *, content: bool = False) -> bytes:
    """One trace as JSON (``{"traceEvents": […]}``), of one run or of several with their sub-agents.

    ``ts`` and ``dur`` are microseconds from the first fact. ``content``: with what was said to and by models and tools.
    """
    events = list(facts)
    spans = spans_of(events, content=content)
    origin = min((event.at for event in events), default=0.0)
    numbers = {run: number for number, run in enumerate(dict.fromkeys(span.run for span in spans), 1)}
    rows = _rows(spans)
    made = [
        *_names(spans, numbers, rows),
        *(_slice(span, numbers[span.run], _track(span, rows), origin) for span in spans),
        *(_mark(note, numbers[span.run], origin) for span in spans for note in span.notes),
        *_arrows(spans, numbers, rows, origin),
        *_curves(events, numbers, origin),
    ]
    return msgspec.json.encode(mended({"displayTimeUnit": "ms", "traceEvents": made}))


def _rows(spans: Iterable[Span]) -> dict[str, int]:
    """The track of each call: the first one that is free when it starts."""
    found: dict[str, int] = {}
    free_at: dict[str, list[float]] = {}
    for span in sorted((span for span in spans if span.kind == "tool"), key=lambda span: span.start):
        assert span.end is not None
        ends = free_at.setdefault(span.run, [])
        row = next((row for row, end in enumerate(ends) if end <= span.start), len(ends))
        ends[row : row + 1] = [span.end]
        found[span.id] = TOOLS + row
    return found


def _track(span: Span, rows: dict[str, int]) -> int:
    return {"run": RUN, "turn": RUN, "model": MODEL}.get(span.kind) or rows[span.id]


def _names(spans: list[Span], numbers: dict[str, int], rows: dict[str, int]) -> Iterator[dict[str, Any]]:
    tools = {(span.run, rows[span.id]) for span in spans if span.kind == "tool"}
    for span in spans:
        if span.kind == "run":
            pid = numbers[span.run]
            yield _named("process_name", pid, 0, {"name": f"{_short(span)} {span.run}"})
            yield _named("process_sort_index", pid, 0, {"sort_index": pid})
            for tid, name in TRACKS.items():
                yield _named("thread_name", pid, tid, {"name": name})
                yield _named("thread_sort_index", pid, tid, {"sort_index": tid})
    for run, tid in sorted(tools):
        yield _named("thread_name", numbers[run], tid, {"name": f"tools {tid - TOOLS + 1}"})
        yield _named("thread_sort_index", numbers[run], tid, {"sort_index": tid})


def _named(name: str, pid: int, tid: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": arguments}


def _slice(span: Span, pid: int, tid: int, origin: float) -> dict[str, Any]:
    assert span.end is not None
    start = _microseconds(span.start, origin)
    return {
        "ph": "X",
        "name": _short(span),
        "cat": span.kind if not span.error else f"{span.kind},error",
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": _microseconds(span.end, origin) - start,
        "args": span.attributes | ({"message": span.message} if span.message else {}),
    }


def _short(span: Span) -> str:
    """What it is of: the agent, the model or the tool; its track says the rest."""
    return span.name.partition(" ")[2] if span.kind != "turn" else span.name


def _mark(note: Note, pid: int, origin: float) -> dict[str, Any]:
    return {
        "ph": "i",
        "s": "t",
        "name": note.name,
        "cat": note.lane,
        "pid": pid,
        "tid": {"watchdog": WATCHDOG, "model": MODEL}.get(note.lane, RUN),
        "ts": _microseconds(note.at, origin),
        "args": note.attributes,
    }


def _arrows(
    spans: list[Span], numbers: dict[str, int], rows: dict[str, int], origin: float
) -> Iterator[dict[str, Any]]:
    by_id = {span.id: span for span in spans}
    for span in spans:
        above = by_id.get(span.parent)
        if span.kind != "run" or above is None:
            continue
        same = {"cat": "child", "name": "starts", "id": numbers[span.run], "ts": _microseconds(span.start, origin)}
        yield {"ph": "s", "pid": numbers[above.run], "tid": _track(above, rows), **same}
        yield {"ph": "f", "bp": "e", "pid": numbers[span.run], "tid": RUN, **same}


def _curves(events: Iterable[Event], numbers: dict[str, int], origin: float) -> Iterator[dict[str, Any]]:
    spent: dict[tuple[str, str], float] = {}
    for event in events:
        if type(event) is not Settled or event.run not in numbers:
            continue
        for name in CURVES:
            if amount := event.amounts.get(name, 0.0):
                spent[event.run, name] = total = spent.get((event.run, name), 0.0) + amount
                at = _microseconds(event.at, origin)
                pid = numbers[event.run]
                yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": at, "args": {name: total}}


def _microseconds(at: float, origin: float) -> int:
    return round((at - origin) * 1_000_000)
