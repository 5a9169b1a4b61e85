"""How soon it is seen that all have ended that were stopped together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from watchkeeper.engine import Page, Query, RunSpec, RunStatus, UnknownRun
from watchkeeper.service.cancels import _all_ended

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SPEC = RunSpec(agent="a", task="t")


class Slow:
    """An engine of two runs in which a look at all takes a second; the newer one is told first."""

    def __init__(self, ends: dict[str, float], deleted: tuple[str, ...] = ()) -> None:
        self._ends = ends
        self._deleted = deleted
        self.looks = 0

    async def list(self, query: Query) -> Page:
        self.looks += 1
        await anyio.sleep(1)
        found = (self._status(run) for run in self._ends)
        return Page(tuple(one for one in found if not query.states or one.state in query.states), False)

    async def get(self, run: str) -> RunStatus:
        if run in self._deleted and self._status(run).state == "ended":
            raise UnknownRun(run)
        return self._status(run)

    def _status(self, run: str) -> RunStatus:
        ended = anyio.current_time() >= self._ends[run]
        return RunStatus(run=run, spec=SPEC, state="ended" if ended else "running")


async def seen(ends: dict[str, float], **more: Any) -> tuple[float, int]:
    """How long after the last end it is seen, and how many looks at all it took."""
    began = anyio.current_time()
    engine = Slow({run: began + after for run, after in ends.items()}, **more)
    found = {run: RunStatus(run=run, spec=SPEC, state="running") for run in ends}
    await _all_ended(SimpleNamespace(engine=engine), found)  # type: ignore[arg-type]  # of a desk it needs the engine
    return anyio.current_time() - began - max(ends.values()), engine.looks


async def test_the_end_of_the_one_that_was_told_last_is_seen_at_once() -> None:
    late, looks = await seen({"newer": 1.5, "older": 2.0})
    assert late < 1.2  # a look at all is a part of it
    assert looks == 2


async def test_one_that_was_told_last_and_ends_first_makes_nobody_look_all_the_time() -> None:
    late, looks = await seen({"newer": 30.0, "older": 0.5})
    assert late < 2.2
    assert looks < 10


async def test_one_that_is_deleted_meanwhile_has_ended() -> None:
    late, _ = await seen({"newer": 1.5, "older": 2.0}, deleted=("older",))
    assert late < 1.2
