"""Prices: what replies cost, what requests may cost at most, and where a price is found."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper import OpenAIModel, Price, reports
from watchkeeper.messages import Usage
from watchkeeper.price import UNIT
from watchkeeper.prices import Prices, listed
from watchkeeper.testing import ScriptedModel, VirtualSeams

PRICE = Price(input=2.0, output=10.0, cached=0.5, reasoning=20.0)


def test_cached_and_thought_tokens_have_prices_of_their_own() -> None:
    usage = Usage(1_000_000, 100_000, cached_tokens=400_000, reasoning_tokens=60_000)
    assert PRICE.of(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.04 * 10 + 0.06 * 20)
    plain = Price(input=2.0, output=10.0)
    assert plain.of(usage) == pytest.approx(2 + 1)
    assert Price(input=0, output=0, request=0.01).of(usage) == 0.01


def test_what_is_put_into_the_cache_has_a_price_of_its_own() -> None:
    price = Price(input=2.0, output=10.0, cached=0.5, cache_write=2.5)
    usage = Usage(1_000_000, 0, cached_tokens=400_000, cache_write_tokens=500_000)
    assert price.of(usage) == pytest.approx(0.1 * 2 + 0.4 * 0.5 + 0.5 * 2.5)
    assert price.most(1_000_000, 0) == pytest.approx(2.5)
    assert Price(input=2.0, output=10.0).of(usage) == pytest.approx(2.0)
    # Counts that cannot be are cut to what was read.
    assert price.of(Usage(100, 0, cached_tokens=60, cache_write_tokens=70)) * UNIT == pytest.approx(60 * 0.5 + 40 * 2.5)


def test_a_long_request_pays_the_dearer_price_for_all_its_tokens() -> None:
    price = Price(input=1, output=2, steps=((200_000, Price(input=3, output=4)), (500_000, Price(input=5, output=6))))
    costs = [price.of(Usage(read, 0)) * UNIT / read for read in (200_000, 200_001, 500_000, 500_001)]
    assert costs == pytest.approx([1, 3, 3, 5])
    assert price.most(200_001, 1_000_000) == pytest.approx(0.600003 + 4)


@given(
    st.builds(
        Price,
        input=st.floats(0, 100),
        output=st.floats(0, 100),
        cached=st.none() | st.floats(0, 100),
        cache_write=st.none() | st.floats(0, 100),
        reasoning=st.none() | st.floats(0, 100),
        request=st.floats(0, 1),
    ),
    st.integers(0, 10**6),
    st.integers(0, 10**5),
    st.data(),
)
def test_no_reply_within_a_hold_costs_more_than_was_held(price: Price, read: int, written: int, data: Any) -> None:
    within = Usage(
        data.draw(st.integers(0, read)),
        data.draw(st.integers(0, written)),
        data.draw(st.integers(0, 2 * read)),
        data.draw(st.integers(0, 2 * written)),
        cache_write_tokens=data.draw(st.integers(0, 2 * read)),
    )
    most = price.most(read, written)
    assert 0 <= price.of(within) <= most * (1 + 1e-9)
    money = data.draw(st.floats(0, 2 * most + 1))
    affords = price.affords(read, money)
    if affords >= written:
        assert most <= money * (1 + 1e-9) + 1e-9
    if affords >= 0:
        assert price.most(read, int(min(affords, written))) <= money * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(
    "wrong", [{"input": -1}, {"output": float("nan")}, {"cached": float("inf")}, {"request": -0.1}]
)
def test_what_is_no_price(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"price: {next(iter(wrong))} must be 0 or more"):
        Price(**{"input": 1.0, "output": 1.0} | wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="steps must ascend"):
        Price(input=1, output=1, steps=((2, PRICE), (1, PRICE)))


# -- where it is found ------------------------------------------------------------------------------------------------


def tiered(base: float, *tiers: tuple[int, float]) -> Any:
    return SimpleNamespace(base=base, tiers=[SimpleNamespace(start=start, price=price) for start, price in tiers])


class Catalogue:
    """Stands for genai_prices: what it was asked, and what it says."""

    def __init__(self, says: Any) -> None:
        self.says = says
        self.asked: list[Any] = []
        self.Usage = SimpleNamespace

    def calc_price(self, usage: Any, name: str, **place: str) -> Any:
        self.asked.append((name, place))
        if isinstance(self.says, Exception):
            raise self.says
        return SimpleNamespace(model_price=SimpleNamespace(**self.says))


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    made = Catalogue({"input_mtok": 1.0, "output_mtok": 2.0})
    monkeypatch.setitem(sys.modules, "genai_prices", made)  # type: ignore[arg-type]
    return made


def test_it_is_looked_up_by_name_and_place(catalogue: Catalogue) -> None:
    assert listed("m", "https://api.example.com/v1") == Price(input=1, output=2)
    assert listed("m", "example") == Price(input=1, output=2)
    assert catalogue.asked == [
        ("m", {"provider_api_url": "https://api.example.com/v1"}),
        ("m", {"provider_id": "example"}),
    ]


def test_all_parts_of_a_listed_price_are_taken_over(catalogue: Catalogue) -> None:
    catalogue.says = {
        "input_mtok": tiered(1.0, (200_000, 3.0)),
        "output_mtok": tiered(2.0, (200_000, 4.0), (500_000, 6.0)),
        "cache_read_mtok": 0.25,
        "cache_write_mtok": tiered(1.25, (200_000, 3.75)),
        "output_reasoning_mtok": 7.0,
        "requests_kcount": 5.0,
        "web_searches_kcount": 10.0,
    }
    same = {"cached": 0.25, "reasoning": 7.0, "request": 0.005}
    assert listed("m", "example") == Price(
        input=1,
        output=2,
        cache_write=1.25,
        **same,
        steps=(
            (200_000, Price(input=3, output=4, cache_write=3.75, **same)),
            (500_000, Price(input=3, output=6, cache_write=3.75, **same)),
        ),
    )


@pytest.mark.parametrize("says", [LookupError("no such model"), {"input_mtok": 1.0}, {}, {"output_mtok": 1.0}])
def test_what_is_not_listed_has_no_price_which_is_not_nothing(catalogue: Catalogue, says: Any) -> None:
    catalogue.says = says
    assert listed("m", "example") is None


def test_a_list_that_fails_is_told_and_has_no_price(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(reports, "report", lambda event, **fields: told.append({"event": event, **fields}))
    catalogue.says = TypeError("another version")
    assert listed("m", "example") is None
    assert told == [{"event": "price_unknown", "model": "m", "cause": "TypeError: another version"}]


def test_without_the_package_no_price_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert listed("gpt-5", "https://api.openai.com/v1") is None


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_the_hosts_prices_go_before_the_list_which_is_asked_once(catalogue: Catalogue) -> None:
    seams = VirtualSeams()
    seams.bind()
    prices = Prices({"own": PRICE}, seams)
    assert await prices.of(OpenAIModel("own", base_url="http://127.0.0.1:9/v1")) is PRICE
    assert await prices.of(ScriptedModel([], name="own")) is PRICE
    assert await prices.of(ScriptedModel([], name="m")) is None  # nobody says where it is
    assert catalogue.asked == []
    for _ in range(3):
        assert await prices.of(OpenAIModel("m", base_url="http://127.0.0.1:9/v1")) == Price(input=1, output=2)
    assert catalogue.asked == [("m", {"provider_api_url": "http://127.0.0.1:9/v1"})]


def test_the_real_list_is_read_and_agrees_with_its_own_sums() -> None:
    genai_prices = pytest.importorskip("genai_prices")
    usage = Usage(300_000, 5_000, cached_tokens=100_000, cache_write_tokens=50_000)
    theirs = genai_prices.Usage(
        input_tokens=300_000, output_tokens=5_000, cache_read_tokens=100_000, cache_write_tokens=50_000
    )
    for name, url in (
        ("gpt-5", "https://api.openai.com/v1"),
        ("gpt-5-mini", "https://api.openai.com:443"),
        ("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("claude-sonnet-4-5", "https://api.anthropic.com/v1"),
    ):
        price = listed(name, url)
        assert price is not None, name
        expected = genai_prices.calc_price(theirs, name, provider_api_url=url).total_price
        assert price.of(usage) == pytest.approx(float(expected)), name
    assert listed("gpt-5", "http://127.0.0.1:8080/v1") is None
    assert listed("no-such-model", "https://api.openai.com/v1") is None
    assert importlib.import_module("genai_prices") is genai_prices


def test_a_price_is_plain_data() -> None:
    price = Price(input=1, output=2, steps=((5, PRICE),))
    assert msgspec.json.decode(msgspec.json.encode(price), type=Price) == price
