"""``watchkeeper config``: is the configuration right, what is set, and who has said so."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .exits import COMPLETED, CONFIGURATION, complain
from .printable import identifier, safe_json


def check(
    *files: Path,
    files_only: Annotated[
        bool, Parameter(help="Look at what is said, not at the tool sets, policies, models and keys of agents.")
    ] = False,
) -> int:
    """Look whether the configuration can be taken, and whether its agents can be made. Asks no server.

    Parameters
    ----------
    files:
        TOML files, of which the last has the last word; without any those of WATCHKEEPER_CONFIG, or of this machine and
        user. The environment (WATCHKEEPER_…) is looked at with them.
    """
    from ..configuration import ConfigurationProblems, load

    paths = _named(files)
    problems: tuple[str, ...] = ()
    try:
        configuration = load(paths, os.environ)
    except ConfigurationProblems as error:
        configuration, problems = error.rest, error.problems
    if not files_only:
        from ..configuration.agents import agents_of

        try:
            agents_of(configuration, os.environ)
        except ConfigurationProblems as error:
            problems += error.problems
    if problems:
        return _told(problems)
    read = ", ".join(map(str, paths)) or "no file"
    agents = ", ".join(sorted(configuration.agents)) or "none"
    print(identifier(f"{read}: all right; agents: {agents}"))
    return COMPLETED


def show(
    *files: Path,
    origin: Annotated[bool, Parameter(help="Say of each setting where it comes from.")] = False,
    json: Annotated[bool, Parameter(help="One JSON object: key, value and origin of each setting.")] = False,
) -> int:
    """Show every setting as it counts: as TOML that may be read again. What looks secret is cut out.

    Parameters
    ----------
    files:
        As for check.
    """
    from ..configuration import ConfigurationProblems, load
    from ..configuration.showing import rows_of

    try:
        rows = rows_of(load(_named(files), os.environ), os.environ)
    except ConfigurationProblems as error:
        return _told(error.problems)
    if json:
        import msgspec

        told = msgspec.json.encode({row.key: {"value": row.value, "origin": row.origin} for row in rows})
        sys.stdout.write(f"{safe_json(told).decode()}\n")
        return COMPLETED
    lines = [(identifier(row.toml()), row.origin) for row in rows]
    width = min(max(len(line) for line, _ in lines), 60)
    for line, place in lines:
        print(f"{line:<{width}}  # {identifier(place)}" if origin else line)
    return COMPLETED


def _named(files: tuple[Path, ...]) -> tuple[Path, ...]:
    from ..configuration import files_of

    return files or files_of(os.environ)


def _told(problems: tuple[str, ...]) -> int:
    for problem in problems:
        complain(identifier(problem))
    return CONFIGURATION
