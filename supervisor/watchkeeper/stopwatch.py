"""A stopwatch: the seconds that go by while nothing holds it. Pure; the caller brings the time."""

from __future__ import annotations

from typing import NamedTuple


class Stopwatch:
    """Runs from ``now`` on, and stands still while it is held for one reason or several.

    ``now`` is any monotonic clock in seconds, the same one in every call.
    """

    __slots__ = ("_from", "_reasons", "_seconds")

    def __init__(self, now: float) -> None:
        self._from = now
        self._seconds = 0.0
        self._reasons: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        return not self._reasons

    def seconds(self, now: float) -> float:
        return self._seconds if self._reasons else self._seconds + now - self._from

    def hold(self, reason: str, now: float) -> None:
        """Stand still for this reason. Holding twice for one changes nothing."""
        self._seconds = self.seconds(now)
        if reason not in self._reasons:
            self._reasons += (reason,)

    def release(self, reason: str, now: float) -> None:
        """Go on, unless another reason is left."""
        if reason in self._reasons:
            self._reasons = tuple(one for one in self._reasons if one != reason)
            self._from = now

    def restart(self, now: float, seconds: float = 0.0) -> None:
        """Begin anew, at 0 or at so many seconds; what holds it still does."""
        self._seconds = seconds
        self._from = now


class Timed(NamedTuple):
    """A limit of time: the reason that it ends a run with, the seconds that are used, and whether they go on."""

    reason: str
    used: float
    limit: float
    running: bool

    @property
    def left(self) -> float:
        return self.limit - self.used

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 1.0
