"""What is left for a request: held within every limit, cut to what makes sense, charged at what was used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import Budget, Price
from watchkeeper.allowance import LEAST_REPLY, MAX_USAGE, Allowance
from watchkeeper.budget import Hold, Short
from watchkeeper.messages import Usage
from watchkeeper.stopwatch import Timed

PRICE = Price(input=1000.0, output=2000.0)


def allowance(price: Price | None = PRICE, reply: int = 500, **limits: float | None) -> Allowance:
    made = Allowance(Budget(**limits), reply)
    made.price = price
    return made


def held(found: Hold | Short) -> Hold:
    assert isinstance(found, Hold)
    return found


@given(
    st.fixed_dictionaries(
        {
            "tokens": st.none() | st.integers(0, 2000),
            "input_tokens": st.none() | st.integers(0, 2000),
            "output_tokens": st.none() | st.integers(0, 2000),
            "money": st.none() | st.floats(0, 4),
        }
    ),
    st.none() | st.builds(Price, input=st.floats(0, 5000), output=st.floats(0, 5000), request=st.floats(0, 1)),
    st.integers(0, 1500),
    st.integers(1, 800),
)
def test_a_hold_is_within_every_limit_or_names_one_that_is_short(
    limits: dict[str, float | None], price: Price | None, read: int, reply: int
) -> None:
    made = allowance(price, reply, **limits)
    found = made.hold(read)
    if isinstance(found, Short):
        assert limits[found.dimension] is not None
        # So little was left of it that not even the least reply would have fitted.
        rest = {name: limit for name, limit in limits.items() if name == found.dimension}
        assert isinstance(allowance(price, LEAST_REPLY, **rest).hold(read), Short)
        return
    amounts = found.amounts
    assert (amounts["input_tokens"], amounts["tokens"]) == (read, read + amounts["output_tokens"])
    assert min(reply, LEAST_REPLY) <= amounts["output_tokens"] <= reply
    for name, limit in limits.items():
        if limit is not None and name in amounts:
            assert amounts[name] <= limit * (1 + 1e-9)
    assert ("money" in amounts) == (price is not None)


@pytest.mark.parametrize(
    "usage",
    [None, Usage(), Usage(-1, 5), Usage(5, -1), Usage(MAX_USAGE, 1)],
    ids=["none", "nothing", "input below 0", "output below 0", "beyond belief"],
)
def test_what_is_no_report_is_charged_at_the_hold_and_estimated(usage: Usage | None) -> None:
    made = allowance(tokens=5000)
    hold = held(made.hold(100))
    charge = made.settle(hold, usage)
    assert charge.amounts == {"tokens": 600, "input_tokens": 100, "output_tokens": 500, "money": pytest.approx(1.1)}
    assert (charge.usage, charge.over, charge.unknown) == (Usage(100, 500, estimated=True), {}, ())


def test_a_report_is_charged_as_it_is_also_beyond_the_hold() -> None:
    made = allowance(tokens=5000, money=1.5)
    charge = made.settle(held(made.hold(100)), Usage(1000, 600))
    assert charge.amounts == {"tokens": 1600, "input_tokens": 1000, "output_tokens": 600, "money": pytest.approx(2.2)}
    assert charge.over == {"money": pytest.approx(0.7)}


def test_without_a_price_money_is_unknown() -> None:
    made = allowance(None, money=5.0)
    assert made.unpriced
    charge = made.settle(held(made.hold(100)), Usage(100, 5))
    assert ("money" in charge.amounts, charge.unknown) == (False, ("money",))
    assert not allowance(None, tokens=5).unpriced
    assert not allowance(money=5.0).unpriced


def test_what_is_nearly_used_up() -> None:
    free = allowance(tokens=1000)
    assert free.nearly_used(0.9, free.uses(()), 400) is None
    assert free.nearly_used(0.9, free.uses(()), 500) == "tokens"  # this request and not one more
    made = allowance(money=1.0)
    assert made.nearly_used(0.9, made.uses(()), 400) is None
    assert made.nearly_used(0.9, made.uses(()), 480) == "money"
    budget = Budget(output_tokens=1000)
    assert budget.take({"output_tokens": 900}) is None
    written = Allowance(budget, 500)
    assert written.nearly_used(0.9, written.uses(()), 0) == "output_tokens"
    assert written.nearly_used(0.91, written.uses(()), 0) is None
    time = [Timed("time", 50.0, 100.0, True), Timed("working_time", 9.0, 10.0, True)]
    assert free.nearly_used(0.9, free.uses(time), 0) == "working_time"


def test_how_limited_dimensions_stand() -> None:
    budget = Budget(**{"turns": 10, "calls": 3, "calls:look": 4, "pages": 8, "tokens": None})
    assert budget.take({"turns": 5, "calls": 3, "calls:look": 1, "pages": 6}) is None
    made = Allowance(budget, 500)
    assert list(made.uses([Timed("time", 25.0, 100.0, True)]).all()) == [
        ("turns", 0.5, 5), ("calls", 1.0, 0), ("calls:look", 0.25, 3), ("pages", 0.75, 2), ("time", 0.25, 75.0)
    ]  # fmt: skip
    assert [name for name in ("turns", "calls", "calls:look", "pages", "time") if made.is_small(name)] == ["calls"]
