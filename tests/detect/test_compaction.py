"""Compactions of the context with nothing new between them."""

from __future__ import annotations

from typing import Any

import pytest

from watchkeeper.detect.judge import Judge
from watchkeeper.ladder import GuardMode
from watchkeeper.messages import (
    CallEnded,
    CallProposed,
    ContextChanged,
    ContextCompacted,
    Finding,
    Result,
    UserMessage,
)


class Told:
    """A judge that is told of compactions and calls; what the detector did, and at which compaction."""

    def __init__(self, mode: GuardMode = "enforce") -> None:
        self.judge = Judge(mode=mode)
        self.n = 0
        self.compactions = 0
        self.asked = 0
        self.done: list[tuple[str, int]] = []
        self.found: list[Finding] = []

    def event(self, kind: Any, **fields: Any) -> None:
        self.n += 1
        judged = self.judge.observe(kind(n=self.n, run="r", at=0.0, t=float(self.n), **fields))
        assert judged is None or not judged.failed
        for finding, verdict in judged.found if judged is not None else ():
            if finding.detector == "compaction":
                self.found.append(finding)
            if verdict is not None and finding.detector == "compaction":
                self.done.append((verdict.action, self.compactions))

    def compacts(self, times: int = 1) -> Told:
        for _ in range(times):
            self.compactions += 1
            self.event(ContextChanged, reason="compaction", dropped=5)
        return self

    def calls(self, key: str, result: str = "") -> Told:
        self.asked += 1
        call_id = f"c{self.asked}"
        found = result or f"what is in {key}"
        self.event(CallProposed, call_id=call_id, tool="read", arguments=f'{{"path":"{key}"}}')
        self.event(
            CallEnded, result=Result(call_id, "read", "finished", found), key=key, arguments=f'{{"path":"{key}"}}'
        )
        return self


def test_nothing_but_compactions() -> None:
    assert Told().calls("plan").compacts(10).done == [("nudge", 3), ("stop", 6)]


def test_our_own_compactions_count_as_well() -> None:
    told = Told().calls("plan")
    for _ in range(10):
        told.compactions += 1
        told.event(ContextCompacted, reason="window", before=800, after=400)
    assert told.done == [("nudge", 3), ("stop", 6)]


def test_two_in_a_row_happen() -> None:
    told = Told()
    for lap in range(10):
        told.compacts(2).calls(f"file {lap}")
    assert told.done == []


def test_the_same_look_ups_after_each_of_them() -> None:
    told = Told().calls("plan").calls("a").calls("b")
    for _ in range(8):
        told.compacts().calls("plan").calls("a").calls("b")
    assert told.done == [("nudge", 3), ("stop", 6)]


def test_looking_things_up_again_and_then_going_on_passes() -> None:
    told = Told()
    for lap in range(20):
        told.compacts().calls("plan").calls(f"file {lap}").calls(f"part {lap}")
    assert told.done == []


def test_laps_that_begin_alike_with_hardly_anything_new() -> None:
    told = Told()
    for lap in range(8):
        told.compacts().calls("plan")
        for name in "abcdefg":
            told.calls(name)
        told.calls(f"note {lap}")
    assert told.done == [("nudge", 4), ("stop", 7)]  # the first lap was new


def test_so_also_where_the_first_lap_began_before_the_first_of_them() -> None:
    told = Told()
    for lap in range(5):
        told.calls("plan")
        for name in "abcdefg":
            told.calls(name)
        told.calls(f"note {lap}").compacts()
    assert told.done == [("nudge", 3)]


@pytest.mark.parametrize(("known", "done"), [(2, []), (3, [("nudge", 4)])])
def test_hardly_anything_is_a_quarter(known: int, done: list[tuple[str, int]]) -> None:
    told = Told()
    for lap in range(5):
        told.compacts()
        for name in "abcdefg"[:known]:
            told.calls(name)
        told.calls(f"note {lap}")
    assert told.done == done


def test_laps_that_begin_otherwise_may_lead_elsewhere() -> None:
    """Where there was something new, if hardly anything."""
    told = Told()
    for name in "abcdefg":
        told.calls(name)
    for lap in range(7):
        told.compacts()
        for place in range(7):
            told.calls("abcdefg"[lap - place])
        told.calls(f"note {lap}")
    assert told.done == []


def test_the_finding_names_the_calls_with_which_the_laps_began() -> None:
    told = Told("observe").calls("plan").calls("a")
    for _ in range(12):
        told.compacts().calls("plan").calls("a")
    assert [finding.count for finding in told.found] == list(range(2, 13))
    assert told.found[0].calls == ("c1", "c3")
    assert told.found[-1].calls == tuple(f"c{call}" for call in range(9, 25, 2))
    assert {finding.onset for finding in told.found} == {5}  # the first compaction, after two calls of two facts


def test_what_begins_anew_names_what_is_its_own() -> None:
    told = Told("observe").calls("plan")
    told.compacts(2).calls("new").calls("part").compacts(2)
    assert [(finding.count, finding.calls, finding.onset) for finding in told.found] == [
        (2, ("c1",), 3),
        (2, ("c2",), 9),
    ]


def test_a_user_who_speaks_begins_anew() -> None:
    told = Told()
    for _ in range(10):
        told.compacts(2).event(UserMessage, text="Go on.")
    assert told.done == []
