"""What the runs of one provider share: when the next attempt may start. Pure; the caller brings the time."""

from __future__ import annotations

import math
from collections import deque
from typing import Literal

from .errors import ConfigurationError

State = Literal["closed", "open", "half_open"]

TROUBLE = frozenset({"connection", "timeout", "server", "overloaded", "empty_stream"})
"""Kinds of :class:`ModelError` that say that the provider is not well; so many in a row open the breaker."""
ANSWERED = frozenset({"rate_limited", "no_quota", "bad_request", "auth", "not_found", "context_length", "unsupported"})
"""Kinds that a provider which is well answers: they never open the breaker, and a probe that meets one closes it."""

PROBE_POLL = 0.5
"""Seconds after which to ask again while somebody else's probe is out."""
FIRST_GAP = 0.05
"""Seconds between two starts after a first 429: 50 runs that were told to wait until one moment need 2.5 s to start,
so that no 100 ms see more than a few of them. Doubled by every further wave of 429s, halved by a success once a second:
by every success, the first few would let all the others go at once."""
LONGEST_GAP = 5.0
ONE_WAVE = 1.0
"""Seconds within which further 429s are the same wave: they were on their way when the first one came back."""


class Provider:
    """Rate limiter and circuit breaker of one provider, shared by all runs that ask it.

    Ask :meth:`admit` before every attempt; it never waits itself. Whoever was let go says how it went, at the latest at
    the end: :meth:`succeeded`, :meth:`failed` or :meth:`released`. ``now`` is any monotonic clock in seconds, the same
    one in every call. Not thread-safe: it belongs to the loop of its supervisor.

    - **Breaker.** ``failures`` attempts in a row that met trouble (connection, timeout, 5xx, overload, empty stream)
      open it: nothing starts for ``open_seconds``, then exactly one probe may. If the probe fails it opens again for
      twice as long, up to ``max_open``. A success at any time closes it. 4xx answers do not count.
    - **429.** Holds back everybody until the Retry-After has passed (at most ``max_open`` seconds, lest one odd header
      silence the provider for days), and spaces the starts that follow, so that those who waited do not come at once.
    - **Rate.** At most ``requests_per_minute`` starts in any minute (below 1: one start in so many minutes).
    """

    def __init__(
        self,
        key: str,
        *,
        failures: int = 5,
        open_seconds: float = 30.0,
        max_open: float = 300.0,
        requests_per_minute: float | None = None,
    ) -> None:
        _check(failures, open_seconds, max_open, requests_per_minute)
        self.key = key
        self.failures = failures
        self.open_seconds = open_seconds
        self.max_open = max_open
        self._rate = _Window(requests_per_minute) if requests_per_minute is not None else None
        self._state: State = "closed"
        self._in_a_row = 0
        self._opened_for = open_seconds
        self._open_until = -math.inf
        self._probe_until: float | None = None
        self._probes = 0
        self.ticket = 0
        """Of the attempt that :meth:`admit` let go last: whoever hands it back is known as the probe, or as none."""
        self._not_before = -math.inf
        self._wave_until = -math.inf
        self._gap = 0.0
        self._ease_from = -math.inf
        self._last_start = -math.inf

    @property
    def state(self) -> State:
        """The breaker: ``closed`` (all go), ``open`` (none go) or ``half_open`` (one probe goes). Time alone does not
        change it; the next :meth:`admit` does."""
        return self._state

    def admit(self, now: float) -> float:
        """Seconds to wait before asking again; 0 means: start now, the slot is yours."""
        wait = max(self._breaker_wait(now), self._not_before - now, self._last_start + self._gap - now)
        if self._rate is not None:
            wait = max(wait, self._rate.wait(now))
        if wait > 0:
            return wait
        self._last_start = now
        if self._rate is not None:
            self._rate.take(now)
        if self._state != "closed":
            self._state = "half_open"
            self._probe_until = now + self.max_open
            self._probes += 1
            self.ticket = self._probes
        else:
            self.ticket = 0
        return 0.0

    def succeeded(self, now: float) -> None:
        """An attempt worked. Best told when a reply begins to come in, so that others need not wait for its end; if it
        breaks off after that, :meth:`failed` follows."""
        self._close()
        if self._gap and now >= self._ease_from:
            self._gap = self._gap / 2 if self._gap > FIRST_GAP / 4 else 0.0
            self._ease_from = now + ONE_WAVE

    def failed(self, now: float, kind: str, retry_after: float | None = None, *, ticket: int | None = None) -> None:
        """An attempt failed with a :class:`ModelError` of this ``kind``."""
        if kind == "rate_limited":
            self._limited(now, retry_after)
        elif kind in TROUBLE:
            self._trouble(now)
            if kind == "overloaded" and retry_after is not None:
                self._hold(now, retry_after)
        if self._state == "half_open":
            if kind in ANSWERED:
                self._close()
            elif ticket is None or ticket == self.ticket:
                self._probe_until = None

    def released(self, now: float, *, ticket: int | None = None) -> None:
        """An attempt was cancelled, or ended without saying anything about the provider: if it was the probe, another
        may go."""
        if ticket is None or ticket == self.ticket:
            self._probe_until = None

    def _breaker_wait(self, now: float) -> float:
        if self._state == "open":
            return self._open_until - now
        if self._state == "half_open" and self._probe_until is not None:
            return min(PROBE_POLL, self._probe_until - now)  # a probe that nobody reported about is forgotten
        return 0.0

    def _trouble(self, now: float) -> None:
        if self._state == "open":
            return  # these were on their way when it opened
        self._in_a_row += 1
        if self._state == "half_open":
            self._opened_for = min(self._opened_for * 2, self.max_open)
        elif self._in_a_row < self.failures:
            return
        self._state = "open"
        self._open_until = now + self._opened_for
        self._probe_until = None

    def _close(self) -> None:
        self._state = "closed"
        self._in_a_row = 0
        self._opened_for = self.open_seconds
        self._probe_until = None

    def _limited(self, now: float, retry_after: float | None) -> None:
        if now >= self._wave_until:
            self._gap = min(max(self._gap * 2, FIRST_GAP), LONGEST_GAP)
        self._hold(now, retry_after)
        self._wave_until = max(self._wave_until, self._not_before, now + ONE_WAVE)
        self._ease_from = max(self._ease_from, self._wave_until)

    def _hold(self, now: float, retry_after: float | None) -> None:
        if retry_after is not None and retry_after > 0:
            self._not_before = max(self._not_before, now + min(retry_after, self.max_open))


class _Window:
    """The last starts, as many as may fall into one window."""

    def __init__(self, per_minute: float) -> None:
        count = max(1, math.floor(per_minute))
        self.seconds = 60.0 * count / per_minute
        self._starts: deque[float] = deque(maxlen=count)

    def wait(self, now: float) -> float:
        if len(self._starts) < (self._starts.maxlen or 1):
            return 0.0
        return self._starts[0] + self.seconds - now

    def take(self, now: float) -> None:
        self._starts.append(now)


def _check(failures: int, open_seconds: float, max_open: float, per_minute: float | None) -> None:
    if failures < 1:
        raise ConfigurationError(f"provider: failures must be at least 1, not {failures!r}")
    if not 0 < open_seconds <= max_open < math.inf:
        raise ConfigurationError(
            f"provider: open_seconds ({open_seconds!r}) must be above 0 and at most max_open ({max_open!r})"
        )
    if per_minute is not None and not 0 < per_minute < math.inf:
        raise ConfigurationError(f"provider: requests_per_minute must be above 0 or None, not {per_minute!r}")
