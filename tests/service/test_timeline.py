"""The timeline of a run, and the proof of a cancel: folds over facts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.messages import (
    CallEnded,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildEnded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelRetried,
    Nudged,
    Outcome,
    Paused,
    Result,
    Resumed,
    RunEnded,
    Settled,
)
from watchkeeper.service.proof import Proof
from watchkeeper.service.timeline import BARS, POINTS, Bar, Course, Timeline


class Told:
    """Facts at given times."""

    def __init__(self) -> None:
        self.n = 0
        self.course = Course()
        self.proof = Proof()

    def __call__(self, kind: Any, t: float, **fields: Any) -> None:
        self.n += 1
        event = kind(n=self.n, run="r", at=1_000.0 + t, t=t, **fields)
        self.course.observe(event)
        self.proof.observe(event)

    def began(self, call: str, t: float, tool: str = "look") -> None:
        self(CallStarted, t, call_id=call, tool=tool)

    def ended(self, call: str, t: float, kind: Any = "finished", tool: str = "look") -> None:
        self(CallEnded, t, result=Result(call, tool, kind, ""))

    def over(self, t: float) -> None:
        self(RunEnded, t, outcome=Outcome(run="r", status="completed", reason="answer", message=""))

    def bars(self, name: str, at: float = 1_000.0) -> list[Bar]:
        return list(next(lane for lane in self.course.timeline(at).lanes if lane.lane == name).bars)


def test_calls_at_the_same_time_lie_in_rows_of_their_own() -> None:
    told = Told()
    told.began("a", 0.0)
    told.began("b", 1.0)
    told.ended("a", 2.0)
    told.began("c", 3.0)
    told.ended("d", 4.0, "refused")
    told.ended("b", 5.0, "failed")
    assert [(bar.call, bar.row, bar.began, bar.ended, bar.kind) for bar in told.bars("tools")] == [
        ("a", 0, 0.0, 2.0, "finished"),
        ("b", 1, 1.0, 5.0, "failed"),
        ("c", 0, 3.0, None, "running"),
        ("d", 2, 4.0, 4.0, "refused"),
    ]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=30))
def test_bars_of_one_row_never_overlap(spans: list[tuple[float, float]]) -> None:
    told = Told()
    begins = [(at, 1, str(n)) for n, (at, _) in enumerate(spans)]
    ends = [(at + length, 0, str(n)) for n, (at, length) in enumerate(spans) if length]
    for at, begun, call in sorted(begins + ends):
        (told.began if begun else told.ended)(call, at)
    rows: dict[int, list[Bar]] = {}
    for bar in told.bars("tools"):
        rows.setdefault(bar.row, []).append(bar)
    for bars in rows.values():
        for before, after in pairwise(bars):
            assert before.ended is not None
            assert before.ended <= after.began


def test_the_models_lane_and_the_watchdogs() -> None:
    told = Told()
    told(ModelRequested, 0.0, model="m")
    told(ModelRetried, 1.0, attempt=1, error="busy", wait=1.0)
    told(ModelRequested, 2.0, model="m")
    told(ModelReplied, 3.0, text="")
    told(ModelRequested, 4.0, model="m")
    told(ModelFailed, 5.0, error="e", detail="d")
    told(ModelRequested, 6.0, model="")
    assert [(bar.label, bar.kind, bar.began, bar.ended) for bar in told.bars("model")] == [
        ("m", "failed", 0.0, 1.0),
        ("m", "reply", 2.0, 3.0),
        ("m", "failed", 4.0, 5.0),
        ("model", "running", 6.0, None),
    ]
    told(Nudged, 6.0, text="Look\nelsewhere", by="equal")
    told(Paused, 7.0, reason="loop")
    told(Resumed, 9.0)
    assert [(bar.label, bar.kind, bar.began, bar.ended) for bar in told.bars("watchdog")] == [
        ("Look", "nudge", 6.0, 6.0),
        ("loop", "pause", 7.0, 9.0),
    ]


def test_the_clock_goes_on_until_the_end() -> None:
    told = Told()
    told.began("a", 5.0)
    assert told.course.timeline(1_008.0).now == 8.0
    assert told.course.timeline(0.0).now == 5.0, "a clock that was put back makes no time negative"
    told.over(6.0)
    assert told.course.timeline(9_999.0).now == 6.0
    assert [(bar.ended, bar.kind) for bar in told.bars("tools")] == [(6.0, "abandoned")]


def test_what_was_spent_adds_up_with_what_sub_agents_spent() -> None:
    told = Told()
    told(Settled, 1.0, amounts={"tokens": 10.0}, held="h")
    told(ChildEnded, 2.0, child="c", status="completed", reason="answer", spent={"tokens": 5.0, "money": 0.5})
    assert [(point.t, point.spent) for point in told.course.timeline(0.0).spend] == [
        (1.0, {"tokens": 10.0}),
        (2.0, {"tokens": 15.0, "money": 0.5}),
    ]


def test_it_is_bounded_and_its_ends_are_right() -> None:
    told = Told()
    for n in range(BARS + 10):
        told.began(str(n), float(n))
        told.ended(str(n), n + 0.5)
        told(Settled, n + 0.5, amounts={"calls": 1.0}, held="h")
    found: Timeline = told.course.timeline(0.0)
    tools = next(lane for lane in found.lanes if lane.lane == "tools")
    assert (len(tools.bars), tools.lost) == (BARS, 10)
    assert len(found.spend) <= 2 * POINTS
    assert found.spend[0].spent == {"calls": 1.0}
    assert found.spend[-1].spent == {"calls": BARS + 10.0}


def test_a_proof_names_what_was_in_flight_and_how_it_ended() -> None:
    told = Told()
    told.began("done", 0.0)
    told.ended("done", 1.0)
    told.began("a", 1.0)
    told.began("b", 2.0, "write")
    told(CancelRequested, 3.0, mode="now", reason="enough")
    told.ended("b", 3.25, "finished", "write")
    told(CancelRequested, 3.5, mode="kill", reason="more")
    told.ended("a", 4.0, "abandoned")
    told.ended("never", 4.0, "not_run")
    assert [(one.call, one.tool, one.since) for one in told.proof.in_flight] == [
        ("a", "look", 1_001.0),
        ("b", "write", 1_002.0),
    ]
    assert [(one.call, one.kind, one.seconds) for one in told.proof.ended] == [
        ("b", "finished", 0.25),
        ("a", "abandoned", 1.0),
    ]
    assert told.proof.seconds is None
    told(CancelConfirmed, 4.5, seconds=1.2)
    told.over(5.0)
    assert told.proof.seconds == 1.2


def test_a_run_that_nobody_cancelled_has_no_proof() -> None:
    told = Told()
    told.began("a", 0.0)
    told.ended("a", 1.0)
    told.over(2.0)
    assert (told.proof.in_flight, told.proof.ended, told.proof.seconds) == ([], [], None)
