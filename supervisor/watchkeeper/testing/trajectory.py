"""Trajectories: what a run did, as a file that a person or a replay can read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..log import Gap
from ..messages import Event, encode_event


def write_trajectory(path: str | os.PathLike[str], events: Iterable[Event | Gap]) -> int:
    """Write facts as JSON Lines, one a line; a gap is left out. Returns how many were written.

    The file is complete or not there at all: it is written beside its place and moved into it.
    """
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    count = 0
    with partial.open("wb") as file:
        for event in events:
            if isinstance(event, Event):
                file.write(encode_event(event) + b"\n")
                count += 1
    partial.replace(target)
    return count
