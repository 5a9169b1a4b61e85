"""Sends a command to a run, and says what became of it."""

from __future__ import annotations

import getpass

import anyio

from ..engine import Answered, AnyCommand
from .exits import COMPLETED, FAILED, TIMED_OUT, CommandError, complain
from .listed import Listed
from .objects import print_object
from .printable import identifier, one_line

TIMEOUT = 5.0
"""Seconds that a run gets to take a command: it does so between two steps of its loop."""


async def sent(
    one: Listed, command: AnyCommand, done: str, *, patience: float = TIMEOUT, json: bool = False, later: bool = False
) -> int:
    """Send it to the run, and wait so long for what becomes of it; the exit code. ``done`` is what the run does once it
    has taken it; ``later``: that it has not yet is as good."""
    if one.ended or one.died:
        why = f"has ended ({one.state})" if one.ended else "has died with its process"
        raise CommandError(f"run {identifier(one.run)} {why}: it takes no command any more", FAILED)
    answer = None
    id = await one.source.engine.send(one.run, command)
    with anyio.move_on_after(patience):
        answer = await one.source.engine.answered(one.run, id)
    if json:
        print_object({"command": id, "run": one.run} | ({} if answer is None else _plain(answer)))
    if answer is None and later:
        if not json:
            print(f"{identifier(one.run)}: {done}")
        return COMPLETED
    if answer is None:
        complain(f"{identifier(one.run)} has not taken it within {patience:g} s; it is kept, and taken when it can be")
        return TIMED_OUT
    if not answer.taken:
        complain(f"{identifier(one.run)} has refused it: {one_line(answer.why, 300) or 'it does not say why'}")
        return FAILED
    if not json:
        print(f"{identifier(one.run)}: {done}")
    return COMPLETED


def _plain(answer: Answered) -> dict[str, object]:
    return {"taken": answer.taken, "why": answer.why}


def whoever() -> str:
    """Who sends it, for the record: the name that this process is logged in with."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, in a container
        return "person"
