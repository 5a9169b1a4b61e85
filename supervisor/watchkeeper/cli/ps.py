"""``watchkeeper ps``: which runs there are, and how they stand."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from .exits import CommandError
from .finding import SCANNED
from .listing import SHOWN, Selection, list_runs


def ps(
    *,
    all_: Annotated[
        bool, Parameter(name=["--all", "-a"], help="Those that have ended, or died with their process, too.")
    ] = False,
    state: Annotated[tuple[str, ...], Parameter(help="Only in these states, such as running or failed.")] = (),
    agent: Annotated[str, Parameter(help="Only of this agent.")] = "",
    label: Annotated[tuple[str, ...], Parameter(help="Only with this label, NAME=VALUE.")] = (),
    children: Annotated[bool, Parameter(help="Sub-agents too.")] = False,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help=f"At most so many, the newest ({SHOWN}).")] = SHOWN,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], help="Again every second, until q or Ctrl-C.")] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line.")] = False,
) -> int:
    """Which runs there are on this machine, and how they stand: the service's, and those in the foreground."""
    if not 1 <= limit <= SCANNED:
        raise CommandError(f"--limit {limit}: it is from 1 to {SCANNED}")
    wanted = Selection(all_, state, agent, label, children)
    if watch and not json and not sys.stdout.isatty():
        raise CommandError("--watch needs a terminal to draw on; --watch --json prints what changes")
    return list_runs(wanted, limit, watch=watch, json=json)
