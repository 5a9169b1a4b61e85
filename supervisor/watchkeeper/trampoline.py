"""Driving a call's coroutine: in a context of its own, and with an eye on where it stands."""

from __future__ import annotations

import contextvars
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any


@types.coroutine
def in_context(
    context: contextvars.Context, coroutine: Coroutine[Any, Any, Any], suspended: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """Drive a coroutine inside a context of its own; ``suspended`` is called when it waits for the first time."""
    run = context.run
    try:
        yielded = run(coroutine.send, None)
    except StopIteration as stop:
        return stop.value
    suspended()
    while True:
        try:
            sent = yield yielded
        except BaseException as error:
            failure: BaseException | None = error
        else:
            failure = None
        try:
            yielded = run(coroutine.send, sent) if failure is None else run(coroutine.throw, failure)
        except StopIteration as stop:
            return stop.value


async def awaiting(value: Any) -> Any:
    return await value


def frame_of(coroutine: Coroutine[Any, Any, Any] | None) -> str | None:
    """Where a waiting coroutine stands: its own line, and the innermost one."""
    frames = []
    inner: Any = coroutine
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is None:
            break
        frames.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}")
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    if not frames:
        return None
    return frames[0] if len(frames) == 1 else f"{frames[0]}, waiting in {frames[-1]}"
