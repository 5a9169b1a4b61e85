"""Where the price of a model is found: what the host says, else the list of ``genai-prices``, if that is installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import anyio.to_thread
import msgspec

from . import reports
from .model import Model
from .price import Price
from .seams import Seams


class Prices:
    """Prices by model.

    ``own`` are the host's, by the model's name, and go before any list. The list is looked at offline, by name *and*
    by where the model is (its ``base_url`` or ``provider``): one name costs differently at different providers, and
    what stands behind a proxy or on a machine of your own is in no list. A model that is found nowhere has no price,
    which is not the price 0.
    """

    def __init__(self, own: Mapping[str, Price], seams: Seams) -> None:
        self._own = dict(own)
        self._seams = seams
        self._found: dict[tuple[str, str], Price | None] = {}

    async def of(self, model: Model) -> Price | None:
        """The price, or None if nobody knows it. The list is read in a thread, once: importing it takes a second."""
        where = getattr(model, "base_url", None) or getattr(model, "provider", None)
        if model.name in self._own or not where:
            return self._own.get(model.name)
        key = (model.name, str(where))
        if key not in self._found:
            with self._seams.outside_work():
                self._found[key] = await anyio.to_thread.run_sync(listed, *key, abandon_on_cancel=True)
        return self._found[key]


def listed(name: str, where: str) -> Price | None:
    """The price of today in the list of ``genai-prices``; ``where`` is a URL or the name of a provider.

    None if the package is not installed, the model is not listed there, or what is listed is no price for tokens.
    """
    try:
        catalogue: Any = importlib.import_module("genai_prices")
    except ImportError:
        return None
    place = {"provider_api_url" if "://" in where else "provider_id": where}
    try:
        found = catalogue.calc_price(catalogue.Usage(input_tokens=0, output_tokens=0), name, **place).model_price
        return _price(found)
    except LookupError:
        return None
    except Exception as error:  # another version of the package: a run must not break on it
        reports.report("price_unknown", model=name, cause=f"{type(error).__name__}: {error}"[:300])
        return None


_FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "reasoning": "output_reasoning_mtok",
    "request": "requests_kcount",
}


def _price(found: Any) -> Price | None:
    listed = {field: getattr(found, name, None) for field, name in _FIELDS.items()}
    if listed["input"] is None or listed["output"] is None:
        return None
    starts = sorted({tier.start for value in listed.values() for tier in getattr(value, "tiers", ())})
    steps = [(start, _rates(listed, start + 1)) for start in starts]
    return msgspec.convert(_rates(listed, 0) | {"steps": steps}, Price)


def _rates(listed: Mapping[str, Any], read: int) -> dict[str, Any]:
    """The rates of a request that reads so many tokens."""
    rates = {}
    for field, value in listed.items():
        if value is None:
            continue
        rate = getattr(value, "base", value)
        for tier in getattr(value, "tiers", ()):
            if read > tier.start:
                rate = tier.price
        rates[field] = float(rate) / (1000 if field == "request" else 1)
    return rates
