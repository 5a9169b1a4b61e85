"""``watchkeeper tail``: what a run has done, and with ``-f`` what it does."""

from __future__ import annotations

import math
import sys
from typing import Annotated

from cyclopts import Parameter

from .detaching import looking_on
from .exits import COMPLETED, CommandError, complain
from .finding import Sources, through
from .following import AsJson, AsLines, up_to
from .following import follow as follow_facts
from .listed import Listed
from .printable import identifier
from .view import view_on

LINES = 40
"""Lines of what was before that are shown."""


def tail(
    run: str,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], help="And what comes, to the run's end; q or Ctrl-C detaches.")
    ] = False,
    lines: Annotated[
        int | None, Parameter(name=["--lines", "-n"], help=f"So many lines of what was before ({LINES}).")
    ] = None,
    after: Annotated[int, Parameter(help="With --json: only facts behind this number.")] = 0,
    json: Annotated[bool, Parameter(help="The facts as JSON Lines; all of them, unless -n says how many.")] = False,
) -> int:
    """What a run has done, and what it does. Going away never stops a run.

    Parameters
    ----------
    run:
        The run: its id, the beginning of it, or @last.
    """
    if lines is not None and lines < 0:
        raise CommandError(f"--lines {lines}: it is 0 or more")
    if after < 0 or (after and not json):
        raise CommandError("--after N is for --json, from 0 on; -n says how many lines of what was are shown")

    async def body(sources: Sources) -> int:
        one = await sources.find(run)
        if json:
            return await tailed(one, AsJson(one.status.n, math.inf if lines is None else lines), follow, after)
        return await tailed(one, AsLines(view_on(sys.stdout), one.status.n, LINES if lines is None else lines), follow)

    return through(body)


async def tailed(one: Listed, shown: AsLines | AsJson, follows: bool, after: int = 0, *, keys: bool = True) -> int:
    """Show what there is, and if it ``follows`` what comes, until the end or until one goes away."""
    events = one.source.engine.watch(one.run, after)
    if not follows or one.died:
        await follow_facts(up_to(events, one.status.n if one.status.n > after else 0), shown)
        if one.died:
            complain(f"run {identifier(one.run)} has died with its process: this is all there is of it")
        return COMPLETED
    async with looking_on(keys=keys) as watcher:
        await follow_facts(events, shown)
    if watcher.gone:
        complain(f"detached; the run goes on (watchkeeper tail -f {identifier(one.run)})")
    return COMPLETED
