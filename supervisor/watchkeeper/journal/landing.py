"""Where one task waits for what a thread does for it. An event, for which any number may wait, costs twice as much."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Landing(Protocol):
    """Set in the loop; waited for by one task at most. It may still be set after that task was cancelled."""

    def set(self) -> object: ...

    def wait(self) -> Awaitable[object]: ...


class _Future:
    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def set(self) -> None:
        if not self._future.done():  # who waited was cancelled
            self._future.set_result(None)

    def wait(self) -> Awaitable[None]:
        return self._future


def landings() -> Callable[[], Landing]:
    """What makes them, for the loop that runs in this thread."""
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        from .place import Place

        return Place
    future = task.get_loop().create_future
    return lambda: _Future(future())
