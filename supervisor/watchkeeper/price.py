"""The price of a model: what a reply costs, what a request may cost at most, and what money affords. Pure."""

from __future__ import annotations

import math

import msgspec

from .messages import Usage

UNIT = 1_000_000
"""Tokens that a price is for."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Money per million tokens: US dollars, unless you state all your prices and limits in something else.

    Raises ``ValueError`` for what is no price.
    """

    input: float
    output: float
    cached: float | None = None
    """Input tokens that the provider had cached. None: as other input."""
    cache_write: float | None = None
    """Input tokens that are written to the provider's cache, where its usage tells them apart. None: as other input."""
    reasoning: float | None = None
    """Output tokens that were thought. None: as other output."""
    request: float = 0.0
    """Money for each request, beside its tokens."""
    steps: tuple[tuple[int, Price], ...] = ()
    """``(tokens, price)``, ascending: the price of all tokens of a request that reads more than so many."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "cache_write", "reasoning", "request"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"price: {name} must be 0 or more, not {value!r}")
        if [above for above, _ in self.steps] != sorted(above for above, _ in self.steps):
            raise ValueError("price: steps must ascend")

    def of(self, usage: Usage) -> float:
        """What a reply cost. Cached tokens and those put into the cache are part of those read, thought ones of those
        written."""
        price = self._at(usage.input_tokens)
        cached = min(usage.cached_tokens, usage.input_tokens)
        kept = min(usage.cache_write_tokens, usage.input_tokens - cached)
        thought = min(usage.reasoning_tokens, usage.output_tokens)
        tokens = (usage.input_tokens - cached - kept) * price.input + cached * price._cached
        tokens += kept * price._cache_write
        tokens += (usage.output_tokens - thought) * price.output + thought * price._reasoning
        return tokens / UNIT + price.request

    def most(self, read: int, written: int) -> float:
        """What a request with so many input tokens and a reply of at most so many may cost: nothing cached, all of it,
        or all of it put into the cache, whichever is dearest."""
        price = self._at(read)
        dearest = max(price.output, price._reasoning)
        return (read * max(price.input, price._cached, price._cache_write) + written * dearest) / UNIT + price.request

    def affords(self, read: int, money: float) -> float:
        """Tokens of a reply for which the money suffices; below 0 if it does not even for the input."""
        price = self._at(read)
        left = money - self.most(read, 0)
        dearest = max(price.output, price._reasoning)
        return left * UNIT / dearest if dearest else math.copysign(math.inf, left)

    @property
    def _cached(self) -> float:
        return self.input if self.cached is None else self.cached

    @property
    def _cache_write(self) -> float:
        return self.input if self.cache_write is None else self.cache_write

    @property
    def _reasoning(self) -> float:
        return self.output if self.reasoning is None else self.reasoning

    def _at(self, read: int) -> Price:
        price = self
        for above, dearer in self.steps:
            if read > above:
                price = dearer
        return price
