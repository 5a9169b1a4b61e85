"""The one retry loop of the project: it classifies, backs off with jitter, honours Retry-After and ends on time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import msgspec

from .seams import Seams

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True):
    """At most ``retries`` further tries; waits of ``first`` seconds doubled up to ``cap``, jitter ± ``jitter``."""

    retries: int = 3
    first: float = 0.5
    cap: float = 30.0
    jitter: float = 0.25

    def wait(self, attempt: int, retry_after: float | None, chance: float) -> float:
        """Seconds to wait after try number ``attempt`` (from 1). A server's wish is honoured beyond the cap."""
        wait = min(self.first * 2.0 ** min(attempt - 1, 30), self.cap) * (1 + self.jitter * (2 * chance - 1))
        if retry_after is not None and retry_after > 0:
            return max(wait, retry_after)
        return wait


class GivingUp(Exception):
    """Raised by a try that failed for good; carries the error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Again(Exception):
    """Raised by a try that failed and may be made again."""

    def __init__(self, error: Exception, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


async def retrying(
    attempt: Callable[[int], Awaitable[T]],
    *,
    policy: RetryPolicy,
    seams: Seams,
    deadline: float,
    on_retry: Callable[[int, Exception, float], None],
) -> T:
    """Call ``attempt(number)`` until it returns. It raises :class:`Again` or :class:`GivingUp` to say how it failed.

    Raises the error behind the last failure when tries or time are used up: a wait that would pass ``deadline`` (the
    clock of ``seams``) is not begun. A cancel ends the wait at once. ``on_retry`` is told of each wait before it.
    """
    number = 1
    while True:
        try:
            return await attempt(number)
        except GivingUp as failure:
            raise failure.error from failure.error.__cause__
        except Again as failure:
            wait = policy.wait(number, failure.retry_after, seams.random())
            if number > policy.retries or seams.clock() + wait >= deadline:
                raise failure.error from failure.error.__cause__
            on_retry(number, failure.error, wait)
        await anyio.sleep(wait)
        number += 1
