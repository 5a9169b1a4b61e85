"""When a worker that has died is started again: pure, and as OTP does it: intensity in a window, then escalation."""

from __future__ import annotations

from collections import deque

INTENSITY = 10
"""Deaths within the window that are borne. A run that kills its worker three times is handed over long before."""
WINDOW = 120.0
"""Seconds. A worker that dies at its start is given up well before its end."""
FIRST, MOST = 0.1, 5.0
"""Seconds before a second start in the window, and the most that doubling makes of them."""


class Restarts:
    """Counts the deaths of all workers of one foreman, and spaces the starts of each."""

    def __init__(self, intensity: int = INTENSITY, window: float = WINDOW) -> None:
        self._intensity = intensity
        self._window = window
        self._deaths: deque[tuple[float, str]] = deque()

    def died(self, worker: str, now: float) -> float | None:
        """Seconds until it is started again, 0 for the first time in the window; None: too many have died."""
        while self._deaths and now - self._deaths[0][0] > self._window:
            self._deaths.popleft()
        before = sum(name == worker for _, name in self._deaths)
        self._deaths.append((now, worker))
        if len(self._deaths) > self._intensity:
            return None
        return min(FIRST * 2 ** (before - 1), MOST) if before else 0.0
