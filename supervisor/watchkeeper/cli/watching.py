"""The list of runs, again and again: drawn in place on a terminal, or what has changed as JSON Lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from .detaching import looking_on
from .exits import COMPLETED
from .finding import Sources
from .listed import Listed
from .objects import encoded, print_lines
from .printable import count, one_line
from .standing import HEADS, SPARE, rows

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .listing import Selection

EVERY = 1.0
"""Seconds between two looks."""
AWAY = 15.0
"""Seconds that a service may be away, as in a restart, before the JSON Lines end."""


async def watch_list(sources: Sources, wanted: Selection, limit: int, *, json: bool = False) -> int:
    """Until one goes away. What cannot be reached is said in the picture, and asked again; JSON Lines end when it has
    been away for long, with the exit code for that."""
    await wanted.prepare(sources)
    if json:
        async with looking_on():
            return await _print_changes(sources, wanted, limit)
        return COMPLETED
    from rich.console import Console
    from rich.live import Live

    console = Console(markup=False, emoji=False, highlight=False)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        async with looking_on():
            while True:
                sources.lost.clear()
                runs = await wanted.of(sources, limit)
                drawn = picture(runs, list(map(str, sources.lost.values())), time.time(), console.width, console.height)
                await anyio.to_thread.run_sync(lambda drawn=drawn: live.update(drawn, refresh=True))  # type: ignore[misc]  # a default in a lambda
                await anyio.sleep(EVERY)
    return COMPLETED


async def _print_changes(sources: Sources, wanted: Selection, limit: int) -> int:
    """Each run as it stands, and again when that has changed, until a service has been away for long: the exit code."""
    told: dict[str, bytes] = {}
    gone: float | None = None
    while True:
        sources.lost.clear()
        found = {one.run: encoded(one.plain()) for one in await wanted.of(sources, limit)}
        changed = [line for run, line in found.items() if told.get(run) != line]
        for run in told.keys() - found.keys():  # it has ended, or is asked for no more
            changed += [encoded(one.plain()) for one in await _now(sources, run)]
        if changed:
            await anyio.to_thread.run_sync(print_lines, changed)
        if not sources.code():
            told, gone = found, None
        else:  # what it does not tell of has not ended
            told |= found
            gone = anyio.current_time() if gone is None else gone
            if anyio.current_time() - gone >= AWAY:
                return sources.complain()
        await anyio.sleep(EVERY)


async def _now(sources: Sources, run: str) -> list[Listed]:
    from ..engine import EngineError

    for source in sources.opened:
        try:
            return [Listed(await source.engine.get(run), source)]
        except EngineError:
            continue
    return []


def picture(runs: Sequence[Listed], lost: Sequence[str], now: float, width: int, height: int) -> RenderableType:
    """A screen of it: a line of sums, the table as far as there is room, and what cannot be reached."""
    from rich.console import Group
    from rich.text import Text

    from .tables import fitted

    room = max(height - 5 - len(lost), 3)
    states: dict[str, int] = {}
    for one in runs:
        states[one.state] = states.get(one.state, 0) + 1
    sums = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items())) or (
        "not known" if lost else "nothing runs"
    )
    parts: list[RenderableType] = [
        Text(f"{time.strftime('%H:%M:%S', time.localtime(now))}  {sums}  (q: leave)", style="bold"),
        fitted(HEADS, list(rows(runs[:room], now)), width, SPARE),
    ]
    if len(runs) > room:
        parts.append(Text(f"and {count(len(runs) - room, 'run')} more", style="dim"))
    parts += [Text(one_line(told, 200), style="red") for told in lost]
    return Group(*parts)
