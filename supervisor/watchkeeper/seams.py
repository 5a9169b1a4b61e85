"""Clock, ids and randomness as one injected object, bound to the running event loop."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent
    from .run import Run

_NOTHING = contextlib.nullcontext()
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, lower case


class Seams:
    """Where the outside comes in: time, identity and chance.

    A supervisor calls :meth:`bind` inside its event loop; from then on :meth:`clock` is that loop's own clock (also a
    virtual one) and :meth:`post` hands a function to the loop from any thread.
    """

    virtual = False
    paced = True
    """Runs let the event loop go round between their turns when it has much to do (:class:`.Pace`)."""

    def __init__(self, *, seed: int | None = None) -> None:
        # Not for secrets: ids and jitter only.
        self._random = random.Random(seed)  # noqa: S311
        self.clock: Callable[[], float] = time.monotonic
        self.wall: Callable[[], float] = time.time
        self.thread: int | None = None
        self._post: Callable[[Callable[[], Any]], Any] | None = None

    def bind(self) -> None:
        """Bind to the event loop that runs in this thread. Raises ``RuntimeError`` outside one."""
        self.thread = threading.get_ident()
        if _in_asyncio():
            import asyncio

            loop = asyncio.get_running_loop()
            # The same clock without the call in between, where the loop has not a clock of its own.
            plain = type(loop).time is asyncio.BaseEventLoop.time
            self.clock = time.monotonic if plain else loop.time
            self._post = loop.call_soon_threadsafe
        else:
            import trio

            self.clock = trio.lowlevel.current_clock().current_time
            self._post = trio.lowlevel.current_trio_token().run_sync_soon

    def post(self, function: Callable[[], Any]) -> bool:
        """Run ``function`` in the loop's thread soon; callable from any thread. False if the loop is gone."""
        if self._post is None:
            raise RuntimeError("these seams are not bound to an event loop: open the Supervisor first")
        try:
            self._post(function)
        except RuntimeError:  # asyncio: loop closed; trio: RunFinishedError is a RuntimeError
            return False
        return True

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def new_id(self, prefix: str = "") -> str:
        """A sortable id: milliseconds since the epoch and 52 random bits, 20 characters of base 32 after the prefix."""
        number = (int(self.wall() * 1000) & (1 << 48) - 1) << 52 | self._random.getrandbits(52)
        return prefix + "".join(_ALPHABET[number >> shift & 31] for shift in range(95, -5, -5))

    def for_run(self, run_id: str, agent: Agent, task: str, parent: Run | None) -> tuple[Agent, Seams]:
        """The agent and the seams of a run that is about to start: where a run is recorded or played, its own."""
        return agent, self

    async def enter(self) -> None:
        """The run has a place, and is about to begin."""

    def follow(self, run: Run) -> None:
        """The run is there, and no fact of it yet."""

    def outside_work(self) -> contextlib.AbstractContextManager[None]:
        """Work that the loop cannot see (a thread, a process) is going on: a virtual clock must not jump meanwhile."""
        return _NOTHING


def _in_asyncio() -> bool:
    import asyncio

    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
