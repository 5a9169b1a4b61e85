"""A budget that runs share: in any order of their steps and deaths it is never overdrawn, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Event
from watchkeeper.budget import Budget, Hold, Short
from watchkeeper.engine import Slice
from watchkeeper.journal.shares import Shares
from watchkeeper.messages import (
    ApprovalRequested,
    CallAdmitted,
    CallEnded,
    CallStarted,
    Held,
    LimitsRaised,
    Reminded,
    Result,
    RunStarted,
    Settled,
    TurnStarted,
)
from watchkeeper.shared import Charges, SharedBudget, charges_of

T = TypeVar("T")

LIMITS = {"tokens": 100.0, "money": 3.0}


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")


def fact(kind: type[Event], **fields: Any) -> Event:
    return kind(n=1, run="r", at=0.0, t=0.0, turn=1, **fields)


class One:
    """One run: attempt after attempt, with what of its facts is durable."""

    def __init__(self, shares: Shares, run: str) -> None:
        self._shares = shares
        self._run = run
        self.facts: list[Event] = []
        self.durable = 0
        self.ended = False
        self._attempt()

    def _attempt(self) -> None:
        """Take up what is durable: what was spent is spent, and what was held is charged as it was held."""
        self.shared = SharedBudget("team")
        self.budget = Budget(self.shared)
        self.open: list[Hold] = []
        self.charges = Charges(lambda tool: {"calls": 1})
        self.charges.take(self.facts)
        self._shares.reclaim(self._run)
        self.shared.see(self._shares.grant(self._run, "team", {}))
        held: dict[str, dict[str, float]] = {}
        for event in self.facts:
            if isinstance(event, Held):
                held[event.held] = event.amounts
                number = int(event.held.removeprefix("h"))
                self.budget.count_holds_from(number)
            elif isinstance(event, Settled):
                del held[event.held]
                self._spend(event.amounts)
        for name, amounts in held.items():
            self._spend(amounts)
            self.facts.append(fact(Settled, amounts=amounts, held=name))

    def _spend(self, amounts: dict[str, float]) -> None:
        for budget in self.budget.path:
            for name, amount in amounts.items():
                budget.spent[name] = budget.spent.get(name, 0) + amount

    def hold(self, tokens: int, money: int) -> None:
        amounts = {"tokens": float(tokens), "money": money / 8}
        while missing := self.shared.missing(amounts):
            if not self.shared.see(self._shares.grant(self._run, "team", missing)):
                break
        hold = self.budget.hold(amounts)
        if isinstance(hold, Short):
            assert self.shared.left(hold.dimension) == hold.left < amounts[hold.dimension]
        else:
            self.open.append(hold)
            self.facts.append(fact(Held, amounts=amounts, held=hold.id))

    def settle(self, part: int) -> None:
        """Something is spent only once the hold is durable."""
        if self.open:
            self.flush()
            hold = self.open.pop(0)
            amounts = {name: amount * part / 8 for name, amount in hold.amounts.items()}
            assert not self.budget.settle(hold, amounts)
            self.facts.append(fact(Settled, amounts=amounts, held=hold.id))

    def flush(self) -> None:
        for name, amount in self.charges.take(self.facts[self.durable :]).items():
            self._shares.charge(self._run, "team", name, amount)
        self.durable = len(self.facts)

    def die(self) -> None:
        del self.facts[self.durable :]
        self._attempt()

    def end(self) -> None:
        while self.open:
            self.settle(4)
        self.flush()
        self.ended = True
        self._shares.reclaim(self._run, ended=True)

    def used(self, name: str) -> float:
        return self.budget.spent.get(name, 0) + self.budget.held.get(name, 0)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(
            st.tuples(st.just("hold"), st.integers(0, 60), st.integers(0, 16)),
            st.tuples(st.just("settle"), st.integers(0, 8)),
            st.tuples(st.sampled_from(["flush", "die", "end"])),
        ),
    ),
    max_size=40,
)


@given(STEPS)
def test_it_is_never_overdrawn_and_nothing_of_it_is_lost(steps: list[tuple[int, tuple[Any, ...]]]) -> None:
    shares = Shares()
    now(shares.define("team", LIMITS))
    runs = [One(shares, f"r{n}") for n in range(3)]
    for number, (name, *arguments) in steps:
        run = runs[number]
        if not run.ended:
            getattr(run, name)(*arguments)
        left = now(shares.left("team"))
        for dimension, limit in LIMITS.items():
            used = sum(one.used(dimension) for one in runs)
            assert used <= limit
            assert 0 <= left[dimension] <= limit - used
    for run in runs:
        if not run.ended:
            run.end()
    left = now(shares.left("team"))
    for dimension, limit in LIMITS.items():
        assert left[dimension] == limit - sum(one.used(dimension) for one in runs)


@given(st.integers(1, 60), st.integers(0, 60))
def test_a_run_gets_what_others_have_left(wanted: int, taken: int) -> None:
    shares = Shares()
    now(shares.define("team", LIMITS))
    shares.grant("other", "team", {"tokens": float(taken)})
    run = One(shares, "r1")
    run.hold(wanted, 0)
    assert bool(run.open) is (wanted + taken <= 100)
    if run.open:
        run.settle(8)
        run.end()
        assert now(shares.left("team"))["tokens"] == 100 - taken - wanted


# -- as one run sees it ------------------------------------------------------------------------------------------------


def test_only_what_was_granted_can_be_held_and_all_that_is_left_is_told() -> None:
    shared = SharedBudget("team")
    own = shared.child(tokens=50)
    shared.see(Slice(has={"tokens": 10.0}, left={"tokens": 60.0, "calls": 2.0}, holds={"tokens": 100.0, "calls": 4.0}))
    assert own.left("tokens") == 50
    assert shared.left("tokens") == 70
    assert own.left("calls") == 2
    assert own.left("money") is None
    assert (shared.share("tokens"), shared.share("calls")) == (0.3, 0.5)
    assert shared.low
    assert isinstance(own.hold({"tokens": 11}), Short)
    assert shared.missing({"tokens": 11, "calls": 1, "money": 5}) == {"tokens": 1, "calls": 1}
    assert isinstance(own.hold({"tokens": 10, "money": 5}), Hold)
    assert shared.missing({}) == {}
    assert own.take({"calls": 1}) is not None


def test_what_was_spent_beyond_a_grant_is_missing_until_it_is_granted() -> None:
    shared = SharedBudget("team")
    shared.see(Slice(has={"tokens": 10.0}, left={"tokens": 0.0}, holds={"tokens": 10.0}))
    hold = shared.hold({"tokens": 10})
    assert isinstance(hold, Hold)
    assert shared.settle(hold, {"tokens": 14}) == {}
    assert shared.missing({}) == {"tokens": 4}
    assert shared.see(Slice(has={"tokens": 14.0}, left={"tokens": 1.0}, holds={"tokens": 15.0}))
    assert shared.missing({}) == {}
    assert not shared.see(Slice(has={"tokens": 14.0}, left={"tokens": 0.0}, holds={"tokens": 14.0}))


# -- what facts take ---------------------------------------------------------------------------------------------------


def test_turns_count_until_the_run_is_finishing_and_again_once_it_was_given_more() -> None:
    charges = Charges(lambda tool: {})
    turn = fact(TurnStarted)
    assert charges.take([turn, turn]) == {"turns": 2}
    assert charges.take([fact(Reminded, text="", about="finish_tokens"), turn]) == {}
    assert charges.take([fact(LimitsRaised, amounts={"tokens": 5.0}), turn]) == {"turns": 1}


def test_a_call_counts_when_it_is_admitted_and_one_that_was_asked_about_only_if_it_ran() -> None:
    def admitted(call: str) -> Event:
        return fact(CallAdmitted, call_id=call, tool="send", key="k")

    def asked(call: str) -> Event:
        return fact(
            ApprovalRequested, approval="a", call_id=call, tool="send", arguments="{}", arguments_hash="", seconds=1.0
        )

    def ended(call: str) -> Event:
        return fact(CallEnded, result=Result(call, "send", "finished", ""))

    charges = Charges(lambda tool: {"calls": 1, f"calls:{tool}": 1})
    once = {"calls": 1, "calls:send": 1}
    assert charges.take([admitted("a"), ended("a")]) == once
    assert charges.take([admitted("b"), asked("b")]) == once
    assert charges.take([ended("b")]) == {name: -1 for name in once}
    started = fact(CallStarted, call_id="c", tool="send")
    assert charges.take([admitted("c"), asked("c"), started, ended("c")]) == once


def test_of_a_run_that_nobody_executes_the_holds_are_settled() -> None:
    start = fact(RunStarted, agent="a", task="t", limits={"turns": 9.0, "calls:look": 2.0})
    look = fact(CallAdmitted, call_id="c", tool="look", key="k")
    held = fact(Held, amounts={"tokens": 8.0}, held="h1")
    settled = fact(Settled, amounts={"tokens": 3.0}, held="h1")
    assert charges_of("team", [start, held], [settled]) == {"team/tokens": -5}
    assert charges_of("team", [start], [look]) == {"team/calls": 1, "team/calls:look": 1}
    assert charges_of("", [start, held], [settled]) == {}


def test_a_budget_is_checked_before_a_slice_of_it_is_given() -> None:
    shares = Shares()
    with pytest.raises(Exception, match="no shared budget 'team'"):
        shares.grant("r1", "team", {"tokens": 1})
