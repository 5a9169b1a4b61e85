"""What an episode has cost: calls and tokens since its onset, of the run and its sub-agents, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.detect.spent import KEPT, Spent, Total
from watchkeeper.messages import ChildEnded, Finding, Settled


class Facts:
    def __init__(self) -> None:
        self.spent = Spent()
        self.n = 0

    def tell(self, kind: Any, **fields: Any) -> int:
        self.n += 1
        take: dict[Any, Callable[[Any], None]] = {Settled: self.spent.settled, ChildEnded: self.spent.child_ended}
        take[kind](kind(n=self.n, run="r", at=0.0, t=0.0, **fields))
        return self.n

    def call(self) -> int:
        self.n += 1
        self.spent.calls.add(self.n, 1)
        return self.n

    def turn(self, tokens: float) -> int:
        self.tell(Settled, amounts={"tokens": tokens}, held="h1")
        return self.call()

    def since(self, onset: int) -> tuple[int, int, int]:
        found = self.spent.of(Finding(detector="equal", pattern="p", count=3, onset=onset))
        return found.onset_call, found.calls_since, found.tokens_since


def test_from_the_onset_on() -> None:
    facts = Facts()
    first = facts.turn(1000)
    facts.turn(1100)
    onset = facts.turn(1200)
    for tokens in (1300, 1400):
        facts.turn(tokens)
    assert facts.since(onset) == (3, 3, 2700)
    assert facts.since(first) == (1, 5, 5000)


def test_a_finding_without_an_onset_is_left_as_it_is() -> None:
    facts = Facts()
    facts.turn(100)
    found = Finding(detector="x", pattern="p", count=1)
    assert facts.spent.of(found) is found


def test_what_sub_agents_used_is_counted_in() -> None:
    facts = Facts()
    onset = facts.turn(1000)
    facts.tell(ChildEnded, child="r2", status="completed", reason="answer", calls=7, tokens=5000)
    facts.turn(500)
    assert facts.since(onset) == (1, 1 + 7 + 1, 5500)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=3 * KEPT), st.data())
def test_it_is_exact_for_what_began_not_long_ago(tokens: list[int], data: st.DataObject) -> None:
    """And for what began longer ago it says too little by some calls, never too much."""
    facts = Facts()
    onsets = [facts.turn(amount) for amount in tokens]
    place = data.draw(st.integers(0, len(tokens) - 1))
    truth = (place + 1, len(tokens) - place, sum(tokens[place + 1 :]))
    told = facts.since(onsets[place])
    if len(tokens) - place <= KEPT // 2:
        assert told == truth
    else:
        assert told[0] >= truth[0]
        assert 0 < told[1] <= truth[1]
        assert told[0] + told[1] == truth[0] + truth[1]
        assert 0 <= told[2] <= truth[2]


def test_the_memory_is_bounded() -> None:
    facts = Facts()
    for number in range(20 * KEPT):
        facts.turn(number)
    totals = (facts.spent.calls, facts.spent.tokens)
    assert all(len(total._at) == len(total._before) <= KEPT for total in totals)
    assert sum(sys.getsizeof(total._at) + sys.getsizeof(total._before) for total in totals) < 5000
    onset_call, calls, tokens = facts.since(1)
    assert (onset_call, calls) == (1, 20 * KEPT)
    assert tokens == sum(range(20 * KEPT))


def test_nonsense_in_a_record_breaks_nothing() -> None:
    total = Total()
    for n, amount in enumerate((-5, 2**70, 2**70), 1):
        total.add(n, amount)
    assert total.before(1) == total.before(2) == 0
    assert total.now >= total.before(3) > 0
