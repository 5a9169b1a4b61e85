"""Compactions of the context with nothing new between them."""

from __future__ import annotations

from typing import Any

from watchkeeper.detect.judge import Judge
from watchkeeper.messages import CallEnded, CallProposed, ContextChanged, ContextCompacted, Result, UserMessage


class Told:
    """A judge that is told of compactions and calls; what the detector did, and at which compaction."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.n = 0
        self.compactions = 0
        self.done: list[tuple[str, int]] = []

    def event(self, kind: Any, **fields: Any) -> None:
        self.n += 1
        judged = self.judge.observe(kind(n=self.n, run="r", at=0.0, t=float(self.n), **fields))
        for finding, verdict in judged.found if judged is not None else ():
            if verdict is not None and finding.detector == "compaction":
                self.done.append((verdict.action, self.compactions))

    def compacts(self, times: int = 1) -> Told:
        for _ in range(times):
            self.compactions += 1
            self.event(ContextChanged, reason="compaction", dropped=5)
        return self

    def calls(self, key: str, result: str = "") -> Told:
        call_id = f"c{self.n}"
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


def test_a_user_who_speaks_begins_anew() -> None:
    told = Told()
    for _ in range(10):
        told.compacts(2).event(UserMessage, text="Go on.")
    assert told.done == []
