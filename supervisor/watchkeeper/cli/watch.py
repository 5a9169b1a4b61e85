"""``watchkeeper watch``: a run as it goes on, with a picture of what it does now; without a run, the list of all."""

from __future__ import annotations

import sys

from .exits import CommandError
from .finding import Sources, through
from .following import AsLines
from .listing import SHOWN, Selection
from .tail import LINES, tailed
from .view import view_on
from .watching import watch_list


def watch(run: str | None = None, /) -> int:
    """A run as it goes on, or all of them. q or Ctrl-C detaches, and never stops a run.

    Parameters
    ----------
    run:
        The run: its id, the beginning of it, or @last. Without one: the list of runs, as ps --watch.
    """
    if run is None and not sys.stdout.isatty():
        raise CommandError("watch needs a terminal to draw on; ps --watch --json prints what changes")

    async def body(sources: Sources) -> int:
        if run is None:
            return await watch_list(sources, Selection(), SHOWN)
        one = await sources.find(run)
        view = view_on(sys.stdout)
        with view.live():
            return await tailed(one, AsLines(view, one.status.n, LINES, picture=True), True)

    return through(body)
