"""The plan of a batch: each call waits for every earlier call that it conflicts with, and for no more.

Resource names are paths; a name conflicts with itself, with what is under it and with what it is under. The plan is
kept in a trie of the names: only the writers and readers that still matter are remembered (an earlier writer that a
later writer waits for is waited for through it), so that planning is linear for all ordinary batches.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

from .tools import EVERYTHING, Effect

ROOT = (EVERYTHING,)


class _Node:
    __slots__ = ("below", "readers", "writer", "written")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.readers: list[int] = []
        self.writer: int | None = None
        self.written = False
        """This name or one under it has been written: readers need to look no further where it has not. (Of the root
        nobody asks.)"""


class Plan:
    """Add calls in order; :meth:`add` returns the numbers of earlier calls that one has to wait for, ascending."""

    def __init__(self) -> None:
        self._root = _Node()
        self._only_root_readers = True
        self._count = 0

    def add(self, effect: Effect) -> tuple[int, ...]:
        number = self._count
        self._count += 1
        root = self._root
        if not effect.writes and (not effect.reads or (self._only_root_readers and effect.reads == ROOT)):
            # Nothing writes so far: such readers need no look-up, only to be found by the first writer.
            if effect.reads:
                root.readers.append(number)
            return ()
        self._only_root_readers = False
        waits: set[int] = set()
        for name in effect.reads:
            self._visit(split(name), waits, writes=False)
        for name in effect.writes:
            self._visit(split(name), waits, writes=True)
        for name in effect.reads:
            self._find(split(name)).readers.append(number)
        for name in effect.writes:
            node = self._find(split(name), written=True)
            node.below.clear()
            node.readers.clear()
            node.writer = number
        return tuple(sorted(waits))

    def _visit(self, parts: tuple[str, ...], waits: set[int], *, writes: bool) -> None:
        """Collect what a use of this name has to wait for."""
        node: _Node | None = self._root
        path: list[_Node] = []
        for part in (*parts, None):
            assert node is not None
            path.append(node)
            node = None if part is None else node.below.get(part)
            if node is None:
                break
        # A writer further down came after those further up, and after the readers before it: through it they are
        # waited for.
        last = next((node.writer for node in reversed(path) if node.writer is not None), -1)
        if last >= 0:
            waits.add(last)
        if writes:
            for node in path:
                waits.update(node.readers[bisect_right(node.readers, last) :])
        stack = list(path[-1].below.values()) if len(path) > len(parts) else []
        while stack:
            node = stack.pop()
            if not (writes or node.written):
                continue
            if node.writer is not None:
                waits.add(node.writer)
            if writes:
                waits.update(node.readers)
            stack.extend(node.below.values())

    def _find(self, parts: tuple[str, ...], *, written: bool = False) -> _Node:
        node = self._root
        for part in parts:
            found = node.below.get(part)
            if found is None:
                found = node.below[part] = _Node()
            node = found
            node.written |= written
        return node


@lru_cache(4096)
def split(name: str) -> tuple[str, ...]:
    """The parts of a resource name; ``shared:/a//b/`` is ``("shared:", "a", "b")``, the empty name is ``()``."""
    if name == EVERYTHING:
        return ()
    head, colon, rest = name.partition(":")
    if colon and "/" not in head:
        return (head + colon, *(part for part in rest.split("/") if part))
    return tuple(part for part in name.split("/") if part)


def overlap(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """One of two names is the other or a prefix of it."""
    short = min(len(a), len(b))
    return a[:short] == b[:short]


def conflict(a: Effect, b: Effect, *, shared_only: bool = False) -> bool:
    """True if one writes what the other reads or writes; ``shared_only`` compares the ``shared:`` names alone."""
    return (
        _meet(a.writes, b.writes, shared_only)
        or _meet(a.writes, b.reads, shared_only)
        or _meet(a.reads, b.writes, shared_only)
    )


def _meet(one: tuple[str, ...], other: tuple[str, ...], shared_only: bool) -> bool:
    for name in one:
        if shared_only and not is_shared(name):
            continue
        parts = split(name)
        for second in other:
            if shared_only and not is_shared(second):
                continue
            if overlap(parts, split(second)):
                return True
    return False


def is_shared(name: str) -> bool:
    return name.startswith("shared:")
