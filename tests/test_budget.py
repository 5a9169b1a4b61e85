"""Budgets: what is spent and held never exceeds a limit, at any step, over any interleaving, in a whole tree."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from watchkeeper.budget import Budget, Hold, Short
from watchkeeper.errors import ConfigurationError

DIMENSIONS = ("tokens", "calls")
LIMITS = st.none() | st.integers(0, 30)
AMOUNTS = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 12))


@dataclass
class Account:
    """What must stand in a budget, kept in the plainest way."""

    budget: Budget
    above: tuple[Account, ...]
    limits: dict[str, int | None]
    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIMENSIONS, 0))
    held: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIMENSIONS, 0))
    overrun: set[str] = field(default_factory=set)

    def line(self) -> list[Account]:
        """This account and all above it, each once."""
        line = [self]
        for account in line:
            for above in account.above:
                if all(above is not one for one in line):
                    line.append(above)
        return line

    def room(self, dimension: str) -> int | None:
        rooms = [
            limit - account.spent[dimension] - account.held[dimension]
            for account in self.line()
            if (limit := account.limits[dimension]) is not None
        ]
        return min(rooms, default=None)

    def add(self, where: str, amounts: dict[str, int], sign: int = 1) -> None:
        for account in self.line():
            for dimension, amount in amounts.items():
                getattr(account, where)[dimension] += sign * amount


class TreeOfBudgets(RuleBasedStateMachine):
    """Any interleaving of holds, settlements, releases and spending over a tree that grows, also where it joins."""

    accounts = Bundle("accounts")
    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Account] = []

    def _new(self, above: tuple[Account, ...], limits: dict[str, int | None]) -> Account:
        budget = Budget(*(one.budget for one in above), **limits)
        account = Account(budget, above, limits)
        self.all.append(account)
        return account

    @initialize(target=accounts, tokens=LIMITS, calls=LIMITS)
    def root(self, **limits: int | None) -> Account:
        return self._new((), limits)

    @rule(target=accounts, above=accounts, tokens=LIMITS, calls=LIMITS)
    def child(self, above: Account, **limits: int | None) -> Account:
        return self._new((above,), limits)

    @rule(target=accounts, one=accounts, other=accounts, tokens=LIMITS, calls=LIMITS)
    def child_of_two(self, one: Account, other: Account, **limits: int | None) -> Account:
        return self._new((one, other), limits)

    @rule(target=holds, account=accounts, amounts=AMOUNTS)
    def hold(self, account: Account, amounts: dict[str, int]) -> tuple[Account, Hold, dict[str, int]] | None:
        short = {d for d, amount in amounts.items() if (room := account.room(d)) is not None and amount > room}
        found = account.budget.hold(amounts)
        if isinstance(found, Short):
            assert found.dimension in short
            assert found.wanted == amounts[found.dimension]
            assert found.left == max(account.room(found.dimension) or 0, 0)
            return None
        assert not short
        account.add("held", amounts)
        return account, found, amounts

    @rule(held=consumes(holds), amounts=AMOUNTS)
    def settle(self, held: tuple[Account, Hold, dict[str, int]] | None, amounts: dict[str, int]) -> None:
        if held is None:
            return
        account, hold, before = held
        over = account.budget.settle(hold, amounts)
        account.add("held", before, -1)
        account.add("spent", amounts)
        expected: dict[str, int] = {}
        for dimension in amounts:
            for one in account.line():
                limit = one.limits[dimension]
                excess = one.spent[dimension] + one.held[dimension] - (math.inf if limit is None else limit)
                if excess > 0:
                    one.overrun.add(dimension)
                    expected[dimension] = max(expected.get(dimension, 0), int(excess))
        assert over == expected
        with pytest.raises(ValueError, match="settled already"):
            account.budget.settle(hold, amounts)
        with pytest.raises(ValueError, match="settled already"):
            account.budget.release(hold)

    @rule(held=consumes(holds))
    def release(self, held: tuple[Account, Hold, dict[str, int]] | None) -> None:
        if held is not None:
            account, hold, amounts = held
            account.budget.release(hold)
            account.add("held", amounts, -1)

    @rule(account=accounts, dimension=st.sampled_from(DIMENSIONS), amount=st.integers(0, 12))
    def take(self, account: Account, dimension: str, amount: int) -> None:
        room = account.room(dimension)
        short = account.budget.take({dimension: amount})
        if room is not None and amount > room:
            assert short is not None
            assert (short.dimension, short.wanted, short.left) == (dimension, amount, max(room, 0))
        else:
            assert short is None
            account.add("spent", {dimension: amount})

    @invariant()
    def books_agree_and_limits_hold(self) -> None:
        for account in self.all:
            for dimension in DIMENSIONS:
                spent = account.budget.spent.get(dimension, 0)
                held = account.budget.held.get(dimension, 0)
                assert (spent, held) == (account.spent[dimension], account.held[dimension])
                limit = account.limits[dimension]
                if limit is not None and dimension not in account.overrun:
                    assert spent + held <= limit
                assert account.budget.left(dimension) == account.room(dimension)


TestTreeOfBudgets = TreeOfBudgets.TestCase
TestTreeOfBudgets.settings = settings(stateful_step_count=30)


def test_eight_children_share_a_limit_of_three() -> None:
    root = Budget(calls=3)
    children = [root.child() for _ in range(8)]
    given = [child.hold({"calls": 1}) for child in children]
    assert [isinstance(one, Hold) for one in given] == [True] * 3 + [False] * 5
    assert root.left("calls") == 0
    assert [child.left("calls") for child in children] == [0] * 8


def test_five_children_ask_for_what_one_can_have() -> None:
    """Of money too, where sums are not exact."""
    root = Budget(money=10.0)
    assert root.take({"money": 9.9}) is None
    given = [root.child().hold({"money": 0.08}) for _ in range(5)]
    assert [isinstance(one, Hold) for one in given] == [True, False, False, False, False]
    short = given[1]
    assert isinstance(short, Short)
    assert (short.dimension, short.wanted, short.left) == ("money", 0.08, pytest.approx(0.02))


def test_fractions_that_add_up_to_the_limit_fit_into_it() -> None:
    budget = Budget(money=0.3)
    holds = [budget.hold({"money": 0.1}) for _ in range(3)]
    assert all(isinstance(hold, Hold) for hold in holds)
    assert isinstance(budget.hold({"money": 0.001}), Short)
    for hold in holds:
        assert isinstance(hold, Hold)
        assert budget.settle(hold, {"money": 0.1}) == {}
    assert budget.held == {}


def test_whole_numbers_are_exact() -> None:
    budget = Budget(tokens=2_000_000_000)
    assert budget.take({"tokens": 2_000_000_000}) is None
    assert isinstance(budget.hold({"tokens": 1}), Short)


def test_a_hold_is_all_or_nothing_over_dimensions_and_tree() -> None:
    root = Budget(tokens=100, calls=1)
    left, right = root.child(tokens=10), root.child()
    assert isinstance(left.hold({"tokens": 5, "calls": 2}), Short)
    assert isinstance(right.hold({"calls": 1, "tokens": 101}), Short)
    assert root.held == left.held == right.held == {}
    assert isinstance(right.hold({"calls": 1}), Hold)
    assert isinstance(left.hold({"calls": 1}), Short)


def test_a_settlement_above_its_hold_is_an_overrun_only_where_it_does_not_fit() -> None:
    root = Budget(tokens=100)
    child = root.child(tokens=60)
    hold = child.hold({"tokens": 50})
    assert isinstance(hold, Hold)
    assert child.settle(hold, {"tokens": 55}) == {}
    second = child.hold({"tokens": 5})
    assert isinstance(second, Hold)
    assert child.settle(second, {"tokens": 50}) == {"tokens": 45}
    assert (child.spent, root.spent) == ({"tokens": 105}, {"tokens": 105})
    assert root.left("tokens") == -5
    third = root.hold({"tokens": 0.5})
    assert isinstance(third, Short)
    assert third.left == 0


def test_a_child_of_two_draws_from_both_and_from_what_is_above_both_once() -> None:
    root = Budget(tokens=100)
    team, purse = root.child(tokens=50), root.child(tokens=30)
    both = Budget(team, purse)
    assert both.path == (both, team, root, purse)
    assert (both.left("tokens"), both.limit("tokens")) == (30, 30)
    assert isinstance(both.hold({"tokens": 31}), Short)
    hold = both.hold({"tokens": 20})
    assert isinstance(hold, Hold)
    assert (team.held, purse.held, root.held) == ({"tokens": 20},) * 3
    assert both.settle(hold, {"tokens": 10}) == {}
    assert (team.spent, purse.spent, root.spent) == ({"tokens": 10},) * 3
    assert team.take({"tokens": 40}) is None
    assert both.left("tokens") == 0


def test_what_is_taken_is_all_or_nothing() -> None:
    root = Budget(calls=5)
    child = root.child(**{"calls:look": 1})
    assert child.take({"calls": 1, "calls:look": 1}) is None
    short = child.take({"calls": 1, "calls:look": 1})
    assert short is not None
    assert (short.dimension, short.wanted, short.left) == ("calls:look", 1, 0)
    assert root.spent["calls"] == child.spent["calls"] == 1


def test_a_hold_goes_back_to_the_budget_that_gave_it() -> None:
    root = Budget(tokens=100)
    child = root.child()
    hold = child.hold({"tokens": 50})
    assert isinstance(hold, Hold)
    for wrong in (root, Budget(), root.child()):
        with pytest.raises(ValueError, match="given by another budget"):
            wrong.settle(hold, {"tokens": 50})
        with pytest.raises(ValueError, match="given by another budget"):
            wrong.release(hold)
    assert child.held == root.held == {"tokens": 50}
    child.release(hold)
    assert root.left("tokens") == 100


@pytest.mark.parametrize("amount", [-1, -0.001, math.nan, math.inf, -math.inf])
def test_amounts_that_are_none_change_nothing(amount: float) -> None:
    budget = Budget(tokens=10)
    hold = budget.hold({"tokens": 4})
    assert isinstance(hold, Hold)
    for act in (
        lambda: budget.hold({"tokens": amount}),
        lambda: budget.settle(hold, {"tokens": amount}),
        lambda: budget.take({"tokens": amount}),
    ):
        with pytest.raises(ValueError, match="an amount of tokens must be 0 or more"):
            act()
    assert (budget.held, budget.spent, hold.open) == ({"tokens": 4}, {}, True)


@pytest.mark.parametrize("limit", [-1, math.nan])
def test_a_limit_must_be_one(limit: float) -> None:
    with pytest.raises(ConfigurationError, match="budget: tokens must be 0 or more, or None for no limit"):
        Budget(tokens=limit)


def test_none_is_no_limit_of_its_own_and_never_unlimited_below_one() -> None:
    root = Budget(tokens=5)
    child = root.child(tokens=None, calls=math.inf)
    assert child.limit("tokens") == 5
    assert child.left("tokens") == 5
    assert child.left("calls") is None
    assert child.limit("calls") is None
    assert isinstance(child.hold({"tokens": 6}), Short)
    assert isinstance(child.hold({"calls": 10**9}), Hold)


def test_the_least_limit_counts() -> None:
    root = Budget(tokens=50)
    assert root.child(tokens=70).limit("tokens") == 50
    assert root.child(tokens=30).limit("tokens") == 30


def test_the_share_is_that_of_the_limit_that_is_nearest() -> None:
    root = Budget(tokens=100)
    child, other = root.child(tokens=20), root.child()
    assert child.share("tokens") == 0
    assert isinstance(child.hold({"tokens": 10}), Hold)
    assert (child.share("tokens"), root.share("tokens"), other.share("tokens")) == (0.5, 0.1, 0.1)
    assert other.take({"tokens": 70}) is None
    assert (child.share("tokens"), other.share("tokens")) == (0.8, 0.8)
    assert Budget().share("tokens") == 0
    assert Budget(tokens=0).share("tokens") == 1


def test_numbers_of_holds_are_those_of_their_budget() -> None:
    """Two equal runs name their holds alike, whatever ran before them in this process, or runs beside them."""

    def ids() -> list[Any]:
        root = Budget()
        first, second = root.child(), root.child()
        return [
            one.id for one in (first.hold({}), first.hold({}), second.hold({}), root.hold({})) if isinstance(one, Hold)
        ]

    assert ids() == ids() == ["h1", "h2", "h1", "h1"]


def test_holds_that_were_given_before_are_not_numbered_again() -> None:
    """A run that goes on behind its last fact: what holds its facts name is known by number."""
    budget = Budget()
    budget.count_holds_from(7)
    budget.count_holds_from(3)
    first, second = budget.hold({}), budget.hold({})
    assert isinstance(first, Hold)
    assert isinstance(second, Hold)
    assert (first.id, second.id) == ("h8", "h9")


def test_what_nobody_could_tell_is_counted_in_the_whole_line() -> None:
    """Each settlement of it once, whatever else was told of that dimension."""
    root = Budget(money=10.0)
    team, other = root.child(), root.child()
    for unknown in (("money",), ("money", "tokens"), ()):
        hold = team.hold({"tokens": 5})
        assert isinstance(hold, Hold)
        assert team.settle(hold, {"tokens": 5}, unknown) == {}
    assert team.unknown == root.unknown == {"money": 2, "tokens": 1}
    assert other.unknown == {}
    assert "money" not in root.spent


def test_an_overrun_is_told_to_the_fraction() -> None:
    root = Budget(money=1.0)
    child = root.child(money=2.0)
    hold = child.hold({"money": 0.75})
    assert isinstance(hold, Hold)
    assert child.settle(hold, {"money": 1.25}) == {"money": 0.25}


def test_a_hold_of_nothing_leaves_nothing_held() -> None:
    budget = Budget(tokens=1)
    hold = budget.hold({"tokens": 0})
    assert isinstance(hold, Hold)
    budget.release(hold)
    assert budget.held == {}


@given(st.lists(st.floats(0, 100) | st.sampled_from([1e-14, 0.001, 0.1, 0.2]), min_size=1, max_size=8), st.randoms())
def test_when_all_holds_are_given_back_nothing_is_held(amounts: list[float], random: Random) -> None:
    """Of sums of fractions, whatever their sizes and the order in which they go."""
    root = Budget(money=1000.0)
    child = root.child()
    holds = [(child, child.hold({"money": amount})) for amount in amounts] + [(root, root.hold({"money": 0.3}))]
    random.shuffle(holds)
    for budget, hold in holds:
        assert isinstance(hold, Hold)
        budget.release(hold)
    assert root.held == child.held == {}
