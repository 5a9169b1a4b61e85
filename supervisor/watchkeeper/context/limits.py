"""How long a conversation may grow before the model reads less of it."""

from __future__ import annotations

import math

import msgspec

from ..errors import ConfigurationError


class ContextLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When the view of a conversation is made smaller, and how far. Amounts are tokens of a request.

    Without a known window and without ``tokens`` nothing is done until a server says that a request is too long.

    Raises :class:`ConfigurationError` for numbers that make no sense.
    """

    compact: bool = True
    """False: never; a request that is too long ends the run."""
    window: int | None = None
    """What the model takes, prompt and reply together; None: what the model says of itself (``context_window``)."""
    start: float = 0.8
    """Share of the window at which it begins: the rest is for the reply and for what a turn may bring."""
    tokens: int | None = None
    """Where it begins whatever the window; the smaller of the two counts."""
    target: float = 0.6
    """Share of that at which it ends: the lower, the rarer it is, and the longer a provider's prompt cache serves."""
    keep: int = 3
    """The newest rounds (a reply, its calls and results), which are touched last; the very newest is never left out."""
    every: int = 3
    """Turns from one compaction to the next, and from one summary to the next. A compaction comes sooner only where the
    request would not fit into the window otherwise."""
    in_a_row: int = 4
    """Compactions that come sooner than that one after the other, until the run is to end: it goes round in them."""
    summary: bool = True
    """The model sums up what is left out, where that is more than words of ours and calls that found nothing."""
    summary_tokens: int = 600
    """Tokens of such a summary."""
    summary_seconds: float = 60.0
    """Seconds that it may take; after that it is done without."""

    def __post_init__(self) -> None:
        for name in ("window", "tokens", "every", "in_a_row", "keep", "summary_tokens", "summary_seconds"):
            value = getattr(self, name)
            if value is not None and not 1 <= value < math.inf:
                raise ConfigurationError(f"context: {name} must be at least 1, not {value:g}")
        for name in ("start", "target"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigurationError(
                    f"context: {name} is a share above 0 and of at most 1, not {getattr(self, name):g}"
                )
