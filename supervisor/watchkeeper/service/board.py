"""The board: how all runs stand, looked at together for all viewers, and told to each as far as it has changed.

One look serves every viewer, and none is made without one. A viewer holds the latest status of each run that it has not
taken yet, and nothing older: a slow one misses steps in between, and costs no more than the runs there are.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import get_args

import anyio
import msgspec

from ..engine import Engine, EngineError, Query, RunStatus, UnknownRun
from ..states import State

EVERY = 0.5
"""Seconds between two looks, at least: a run changes for a viewer at most twice a second."""
SHARE = 4
"""A look that takes long is followed by a rest this many times as long: looking never takes more than a fifth."""
RECENT = 100
"""Runs, the newest, that are on the board although they have ended."""
MOST = 5_000
"""Live runs on the board; more are counted by nobody here and are found in the list."""
LIVE: tuple[State, ...] = tuple(state for state in get_args(State) if state != "ended")

log = logging.getLogger("watchkeeper.service")


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the runs on the board, sub-agents included."""

    states: dict[str, int]
    live: int
    approvals: int
    findings: int


class Viewer:
    """Who looks at the board."""

    def __init__(self, runs: dict[str, RunStatus]) -> None:
        self._changed = dict(runs)
        self._woken = anyio.Event()
        self.stats: Stats | None = None
        if runs:
            self._woken.set()

    def tell(self, changed: dict[str, RunStatus], stats: Stats | None) -> None:
        self._changed.update(changed)
        if stats is not None:
            self.stats = stats
        if self._changed or self.stats is not None:
            self._woken.set()

    async def take(self) -> tuple[list[RunStatus], Stats | None]:
        """What has changed since the last time; waits for it."""
        await self._woken.wait()
        self._woken = anyio.Event()
        changed, self._changed = self._changed, {}
        stats, self.stats = self.stats, None
        return list(changed.values()), stats


class Board:
    """Run :meth:`run` in a task of its own for as long as there may be viewers."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._viewers: set[Viewer] = set()
        self._watched = anyio.Event()
        self._runs: dict[str, RunStatus] = {}
        self._stats: Stats | None = None
        self._failed = ""

    async def run(self) -> None:
        while True:
            await self._watched.wait()
            began = self._clock()
            try:
                await self.look()
                self._failed = ""
            except EngineError as error:
                if str(error) != self._failed:
                    self._failed = str(error)
                    log.warning("how runs stand cannot be looked at: %s", error)
            await anyio.sleep(max(EVERY, SHARE * (self._clock() - began)))

    @contextmanager
    def viewer(self) -> Iterator[Viewer]:
        if not self._viewers:
            self._runs = {}
            self._stats = None
        viewer = Viewer(self._runs)
        viewer.stats = self._stats
        self._viewers.add(viewer)
        self._watched.set()
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._watched = anyio.Event()

    async def look(self) -> Stats:
        """Look at all runs now and tell the viewers. Raises :class:`EngineError`."""
        found = await self._found()
        for run in self._runs.keys() - found.keys():
            before = self._runs[run]
            if before.state != "ended":
                try:
                    found[run] = await self._engine.get(run)
                except UnknownRun:
                    continue
        changed = {run: status for run, status in found.items() if self._runs.get(run) != status}
        self._runs = found
        stats = stats_of(found.values())
        told = stats if stats != self._stats else None
        self._stats = stats
        for viewer in self._viewers:
            viewer.tell(changed, told)
        return stats

    async def _found(self) -> dict[str, RunStatus]:
        recent = await self._engine.list(Query(parent="", limit=RECENT))
        found = {status.run: status for status in recent.runs}
        before = ""
        while len(found) < MOST:
            page = await self._engine.list(Query(states=LIVE, parent="", before=before, limit=1_000))
            found.update((status.run, status) for status in page.runs)
            if not page.more or not page.runs:
                break
            before = page.runs[-1].run
        return found


def stats_of(runs: Iterable[RunStatus]) -> Stats:
    """Of these runs."""
    states: Counter[str] = Counter()
    approvals = findings = 0
    for status in runs:
        states[status.state] += 1
        findings += status.findings
        approvals += status.approvals
    live = sum(count for state, count in states.items() if state != "ended")
    return Stats(states=dict(states), live=live, approvals=approvals, findings=findings)
