"""A run in the foreground of a terminal: other terminals see it and stop it by the files of an engine of its own."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio.to_thread

from ..engine import EngineError
from ..service.places import MAIN, STATE, Places, is_held
from .exits import complain
from .printable import one_line

if TYPE_CHECKING:
    from ..journal import SqliteEngine
    from ..service.places import Folder

KEPT = 100
"""Folders of foreground runs that are kept, the newest."""
DAYS = 14.0
"""Days for which one is kept."""


@contextlib.asynccontextmanager
async def foreground(run: str) -> AsyncIterator[SqliteEngine | None]:
    """The engine for a run of that id, which this process executes; None where there can be none: that is said in a
    line, and the run goes on unseen. The folder stays; of those of earlier runs the oldest are removed at the end."""
    places = Places.of()
    folder = places.foreground(run)
    async with contextlib.AsyncExitStack() as stack:
        engine = None
        try:
            engine = await stack.enter_async_context(await anyio.to_thread.run_sync(_engine_in, folder))
        except (OSError, EngineError) as error:
            complain(f"other terminals do not see this run: {one_line(str(error), 300)} ({STATE} names another folder)")
        yield engine
    if engine is not None:
        await anyio.to_thread.run_sync(forget_old, places, abandon_on_cancel=True)


def _engine_in(folder: Folder) -> SqliteEngine:
    from ..journal import SqliteEngine

    return SqliteEngine(folder.make().path, worker=MAIN)


def forget_old(places: Places, kept: int = KEPT, days: float = DAYS) -> None:
    """Remove the folders of foreground runs that are neither among the newest nor young, or whose time is over; never
    one whose process lives. What cannot be removed stays."""
    oldest = time.time() - days * 86_400
    for place, folder in enumerate(places.foregrounds()):
        with contextlib.suppress(OSError):
            if (place >= kept or folder.path.stat().st_mtime < oldest) and not is_held(folder.lock()):
                shutil.rmtree(folder.path)
