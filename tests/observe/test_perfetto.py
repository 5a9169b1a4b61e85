"""The Chrome trace of a run: it can be drawn, and shows side by side what was side by side."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sighted import recorded

from watchkeeper import Event
from watchkeeper.messages import RunEnded
from watchkeeper.observe.perfetto import MODEL, RUN, TOOLS, WATCHDOG, perfetto

NAMES = sorted(recorded())


def trace(facts: Iterable[Event]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(perfetto(facts))["traceEvents"]
    return found


def check(events: list[dict[str, Any]]) -> None:
    """What makes a trace one that can be drawn."""
    named = {(event["pid"], event["tid"]) for event in events if event["ph"] == "M"}
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        assert event["ph"] in ("M", "X", "i", "C", "s", "f")
        if event["ph"] == "M":
            continue
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        assert (event["pid"], event["tid"]) in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in tracks.values():
        open_: list[int] = []
        for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_ and open_[-1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1], "two slices of a track overlap"
            open_.append(end)


@pytest.mark.parametrize("name", NAMES)
def test_slices_of_a_track_nest(name: str) -> None:
    check(trace(recorded()[name]))


def test_calls_side_by_side_are_on_tracks_side_by_side() -> None:
    slices = [event for event in trace(recorded()["top"]) if event["ph"] == "X" and event["pid"] == 1]
    first, second = (event for event in slices if event["name"] == "look")
    assert {first["tid"], second["tid"]} == {TOOLS, TOOLS + 1}
    assert first["ts"] == second["ts"]
    (put,) = (event for event in slices if event["name"] == "put")
    assert put["ts"] == first["ts"] + first["dur"]
    assert put["dur"] == 2_000_000
    assert {event["tid"] for event in slices if event["cat"] == "model"} == {MODEL}
    assert {event["tid"] for event in slices if event["cat"] in ("run", "turn")} == {RUN}


def test_an_arrow_leads_from_a_call_to_the_sub_agent_that_it_started() -> None:
    events = trace(recorded()["top"])
    (start,) = (event for event in events if event["ph"] == "s")
    (finish,) = (event for event in events if event["ph"] == "f")
    assert start["id"] == finish["id"]
    (call,) = (event for event in events if event["ph"] == "X" and event["name"] == "ask_sub")
    assert (start["pid"], start["tid"]) == (call["pid"], call["tid"])
    assert call["ts"] <= start["ts"] <= call["ts"] + call["dur"]
    assert finish["pid"] == 2


def test_what_the_watchdog_says_has_its_track() -> None:
    marks = [event for event in trace(recorded()["loop"]) if event["ph"] == "i"]
    assert {"finding", "nudged", "blocked", "stopped"} <= {mark["name"] for mark in marks if mark["tid"] == WATCHDOG}


def test_the_curve_of_spend_ends_at_what_was_spent() -> None:
    facts = recorded()["loop"]
    points = [event["args"]["money"] for event in trace(facts) if event["ph"] == "C" and event["name"] == "money"]
    assert points == sorted(points)
    ended = facts[-1]
    assert isinstance(ended, RunEnded)
    spent = ended.outcome.spent["money"]
    assert points[-1] == pytest.approx(spent)


def test_nothing_gives_an_empty_trace() -> None:
    assert trace([]) == []


@given(st.lists(st.sampled_from([event for facts in recorded().values() for event in facts]), max_size=40))
def test_any_part_of_the_facts_can_be_drawn(facts: list[Event]) -> None:
    facts = sorted({(one.run, one.n): one for one in facts}.values(), key=lambda one: (one.run, one.n))
    check(trace(facts))
