"""How sure a share is that was counted: the interval of Wilson. Pure."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

Z95 = 1.959963984540054
"""Standard deviations on either side of the middle that hold 95 % of a normal distribution."""


class Share(NamedTuple):
    """``hits`` of ``n``, with a 95 % interval of the share behind it."""

    hits: int
    n: int

    @property
    def value(self) -> float:
        return self.hits / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval: fit for small counts and for shares near 0 and 1; everything where n is 0."""
        if not self.n:
            return 0.0, 1.0
        n, p, z2 = self.n, self.value, Z95 * Z95
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z95 * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        low = 0.0 if self.hits == 0 else max(0.0, middle - half)
        return low, 1.0 if self.hits == n else min(1.0, middle + half)
