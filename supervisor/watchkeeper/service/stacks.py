"""Where a process stands: its threads, and the tasks of its event loop, as text. Callable from any thread."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from itertools import chain
from types import CodeType, FrameType
from typing import Any

LONGEST = 64 << 10
"""Characters of the whole; what is more is left out and said to be."""
DEEPEST = 40
"""Frames of one task or thread, the innermost ones."""

Tasks = Callable[[], Iterator[tuple[str, Any]]]
"""Gives the tasks of a loop: name and coroutine."""


def text(first: int | None = None, tasks: Tasks | None = None) -> str:
    """All threads, ``first`` (the loop's, as a rule) before the others, then the tasks: no more of them are looked at
    than are told, for a worker may have ten thousand, and who asks is about to call it silent."""
    parts: list[str] = []
    size = 0
    for part in chain(_threads(first), _tasks(tasks) if tasks is not None else ()):
        parts.append(part)
        size += len(part) + 2
        if size > LONGEST:
            break
    whole = "\n\n".join(parts)
    return whole if len(whole) <= LONGEST else f"{whole[:LONGEST]}\n[… and more]"


def tasks_here() -> Tasks:
    """The tasks of the loop that runs in this thread; to be called there, its result anywhere."""
    try:
        import asyncio

        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        root = trio.lowlevel.current_root_task()
        return lambda: _of_trio(root)
    return lambda: ((task.get_name(), task.get_coro()) for task in asyncio.all_tasks(loop))


def _of_trio(root: Any) -> Iterator[tuple[str, Any]]:
    left = [root]
    while left:
        task = left.pop()
        yield task.name, task.coro
        left.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)


def _threads(first: int | None) -> Iterator[str]:
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    here = threading.get_ident()
    for ident in sorted(frames, key=lambda one: (one != first, one)):
        if ident == here != first:
            continue
        role = " (event loop)" if ident == first else ""
        yield f"thread {names.get(ident, ident)}{role}\n{_lines(frames[ident])}"


def _lines(frame: FrameType) -> str:
    return "\n".join(
        f"  {one.filename}:{one.lineno} in {one.name}" for one in traceback.extract_stack(frame)[-DEEPEST:]
    )


def _tasks(tasks: Tasks) -> Iterator[str]:
    try:
        found = list(tasks())
    except RuntimeError as error:  # they changed while they were counted
        yield f"tasks: not to be had ({error})"
        return
    for name, coroutine in found:
        places = [f"  {code.co_filename}:{line} in {code.co_name}" for code, line in _awaited(coroutine)]
        yield "\n".join([f"task {name}", *places[-DEEPEST:]])


def _awaited(coroutine: Any) -> Iterator[tuple[CodeType, int]]:
    """The frames of a coroutine, outermost first. A task that runs right now shows how it was entered."""
    for _ in range(1000):
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(coroutine, f"{kind}_frame")), None)
        if kind is None:
            return
        frame = getattr(coroutine, f"{kind}_frame")
        if frame is not None:
            yield frame.f_code, frame.f_lineno or 0
        coroutine = getattr(coroutine, {"cr": "cr_await", "gi": "gi_yieldfrom", "ag": "ag_await"}[kind])


def innermost(thread: int | None) -> str:
    """Where one thread is: file, line and function."""
    frame = sys._current_frames().get(thread or -1)
    return _lines(frame).rpartition("\n")[2].strip() if frame is not None else "unknown"
