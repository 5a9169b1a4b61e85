"""The list of runs: which are meant, what is found of them, and how it is printed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import get_args

from ..engine import Query
from ..states import State
from .columns import print_rows
from .exits import COMPLETED, CommandError, complain
from .finding import SCANNED, Sources, look, through
from .listed import Listed
from .printable import count
from .standing import HEADS, SPARE, rows

LIVE: tuple[State, ...] = tuple(state for state in get_args(State) if state != "ended")
ENDS = ("completed", "stopped", "cancelled", "failed", "handed_over", "died")
"""How a run may stand beyond the states: with the status of its outcome, or without anybody who executes it."""
SHOWN = 200
"""Runs that are listed unless it is said how many."""


def list_runs(wanted: Selection | None = None, limit: int = SHOWN, *, watch: bool = False, json: bool = False) -> int:
    """Print them, with ``watch`` again and again. Without a selection those that have not ended."""
    wanted = Selection() if wanted is None else wanted
    if not watch and look().nobody(dead_too=wanted.everything):
        print_runs((), limit, everything=wanted.all_asked_for, json=json)
        return COMPLETED

    async def body(sources: Sources) -> int:
        if watch:
            from .watching import watch_list

            return await watch_list(sources, wanted, limit, json=json)
        await wanted.prepare(sources)
        found = await wanted.of(sources, limit)
        suspended = await sources.suspended(Query(states=LIVE, limit=1000))
        all_asked = not sources.lost and not suspended
        print_runs(found, limit, everything=wanted.all_asked_for, json=json, all_asked=all_asked)
        if suspended:
            are = "is" if suspended == 1 else "are"
            complain(
                f"{count(suspended, 'run')} {are} suspended; no service is up (watchkeeper serve goes on with them)"
            )
        return sources.complain()

    return through(body)


class Selection:
    """Which runs are meant. Raises :class:`CommandError` for what is no state or no label."""

    def __init__(
        self,
        everything: bool = False,
        states: Sequence[str] = (),
        agent: str = "",
        labels: Sequence[str] = (),
        children: bool = False,
    ) -> None:
        self.names = _states(states)
        self.all_asked_for = everything
        self.everything = everything or any(name not in LIVE for name in self.names)
        self.query = Query(
            states=() if self.everything else LIVE,
            agent=agent,
            labels=labels_of(labels),
            parent="" if children else None,
            limit=1000,
        )

    async def prepare(self, sources: Sources) -> None:
        """Have those opened that have died."""
        if self.everything:
            await sources.open_dead()

    async def of(self, sources: Sources, most: int) -> list[Listed]:
        found = await sources.runs(self.query, SCANNED if self.names else most)
        return [one for one in found if not self.names or {one.state, one.status.state} & self.names][:most]


def _states(given: Sequence[str]) -> set[str]:
    names = {name.strip().replace("-", "_") for one in given for name in one.split(",") if name.strip()}
    if unknown := sorted(names - {*get_args(State), *ENDS}):
        raise CommandError(f"--state {unknown[0]}: it is one of {', '.join([*get_args(State), *ENDS])}")
    return names


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Labels as they are typed. Raises :class:`CommandError` for what is none."""
    labels = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise CommandError(f"--label {one}: a label is NAME=VALUE")
        labels[name] = value
    return labels


def print_runs(runs: Sequence[Listed], limit: int, *, everything: bool, json: bool, all_asked: bool = True) -> None:
    """That there is none is said only if ``all_asked``: nobody else could have any."""
    if json:
        from .objects import print_objects

        print_objects(one.plain() for one in runs)
        return
    if runs:
        print_rows(HEADS, list(rows(runs, time.time())), SPARE)
    elif all_asked:
        complain("no run" if everything else "nothing runs (-a lists those that have ended)")
    if len(runs) >= limit:
        these = "this is the newest run" if limit == 1 else f"these are the newest {limit:,} runs"
        complain(f"{these}: --limit N shows more")
