"""Processes that a dead worker has left: known by a mark in their environment, and by whose children they are."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Container

MARK = "WATCHKEEPER_WORKER"
"""Environment variable whose value is a random word of the worker; all that it starts with its environment has it."""


def adopt() -> bool:
    """Make this process the parent of all of its descendants whose own parent dies; False where that cannot be."""
    if sys.platform != "linux":
        return False
    import ctypes

    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>
    return bool(ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when ``parent``, which has started it, ends; at once if it has already."""
    if sys.platform == "linux":
        import ctypes
        import signal

        set_pdeathsig = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
        ctypes.CDLL(None).prctl(set_pdeathsig, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def marked(word: str) -> set[int]:
    """Ids of live processes that bear the mark; none where there is no /proc."""
    needle = f"{MARK}={word}".encode()
    found = set()
    for pid in _all():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if needle in file.read().split(b"\0"):
                found.add(pid)
    return found


def adopted(known: Container[int]) -> set[int]:
    """Ids of live children of this process that it has adopted. Collects those that have ended."""
    found = set()
    for pid in _all():
        if pid in known or _parent(pid) != os.getpid():
            continue
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                found.add(pid)
    return found


def _all() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except FileNotFoundError:
        return []


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return None
