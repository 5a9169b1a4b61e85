"""Functions that a host gives us to ask: plain or async, whatever they do."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from .threads import Threads


def is_async(function: object) -> bool:
    """Whether it has to be awaited: an async function, or an object whose ``__call__`` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def called(function: Callable[[Any], Any], argument: Any, threads: Threads) -> Any:
    """What it says. An async one runs in the loop, a plain one in a thread; who is cancelled abandons the thread.

    Raises :class:`NoThread`, or what the function raises.
    """
    if is_async(function):
        return await function(argument)
    context = contextvars.copy_context()
    said = await threads.run(partial(function, argument), context, lambda: None, lambda job: None)
    return await said if inspect.isawaitable(said) else said
