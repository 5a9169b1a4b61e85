"""Functions of a host that are asked while a run waits: in bounded time, whatever they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from ..host import called
from ..threads import Threads


async def answer_of(function: Callable[[Any], Any], argument: Any, *, seconds: float, threads: Threads) -> Any:
    """What the function says. An async one runs in the loop, a plain one in a thread.

    Raises ``TimeoutError`` if it takes longer, :class:`NoThread`, or what the function raises. A thread that does not
    end in time is abandoned and counted as that of a tool is.
    """
    with anyio.fail_after(seconds):
        return await called(function, argument, threads)
