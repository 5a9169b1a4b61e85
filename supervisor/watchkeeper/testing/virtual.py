"""Virtual time on both back ends: an hour of waiting takes no time, and a program that cannot go on says so at once.

The clock jumps when nothing is ready, but never while a thread or a process of a supervisor is at work.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Iterator
from typing import Any

from ..seams import Seams

EPOCH = 1_800_000_000.0
"""What the wall clock shows when virtual time begins."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time jumps. Raises ``RuntimeError`` where a real loop would hang for ever."""

    def __init__(self) -> None:
        self.now = 0.0
        self.holds = 0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now

    def jump(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self.now += seconds


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._loop.holds or len(self.get_map()) > 1:  # a thread at work, or more than the loop's own wake-up pipe
            return super().select(0.02 if timeout is not None else None)
        if timeout is None:
            raise RuntimeError("deadlock: nothing is ready, nothing is scheduled, and nothing outside is at work")
        self._loop.now += timeout
        return []


class VirtualSeams(Seams):
    """Seams of a virtual clock, with ids and chances that are the same in every run."""

    virtual = True

    def __init__(self, *, seed: int = 1) -> None:
        super().__init__(seed=seed)
        self._holds = 0

    def bind(self) -> None:
        super().bind()
        began = self.clock()
        self.wall = lambda: EPOCH + self.clock() - began
        self._where = _Asyncio() if isinstance(_loop(), VirtualLoop) else _Trio()

    @contextlib.contextmanager
    def outside_work(self) -> Iterator[None]:
        self._holds += 1
        if self._holds == 1:
            self._where.hold()
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._where.release()


class _Asyncio:
    def hold(self) -> None:
        _loop().holds += 1

    def release(self) -> None:
        _loop().holds -= 1


class _Trio:
    def hold(self) -> None:
        self._set(float("inf"))

    def release(self) -> None:
        self._set(0.0)

    def _set(self, threshold: float) -> None:
        import trio

        clock: Any = trio.lowlevel.current_clock()
        if hasattr(clock, "autojump_threshold"):
            clock.autojump_threshold = threshold


def _loop() -> Any:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def backend(name: str) -> tuple[str, dict[str, Any]]:
    """What anyio's pytest plugin and ``anyio.run`` need to run on this back end in virtual time; new for each use."""
    if name == "asyncio":
        return "asyncio", {"loop_factory": VirtualLoop}
    from trio.testing import MockClock

    return "trio", {"clock": MockClock(autojump_threshold=0)}
