"""``watchkeeper stack``: where the workers of the service stand right now."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import msgspec
from cyclopts import Parameter

from .asking import ask, asked, told_by
from .columns import print_rows
from .exits import COMPLETED, FAILED, CommandError
from .objects import print_objects
from .printable import duration, printable

if TYPE_CHECKING:
    from .narrator import Style

STYLES: dict[str, Style] = {"running": "good", "blocked": "bad", "silent": "bad", "failed": "bad"}


class Worker(msgspec.Struct, frozen=True):
    """As ``GET /v1/workers`` has it."""

    name: str
    pid: int | None
    state: str
    runs: int
    since: float
    restarts: int
    stack: str = ""


class Workers(msgspec.Struct, frozen=True):
    workers: tuple[Worker, ...]


def stack(
    worker: str | None = None, /, *, json: Annotated[bool, Parameter(help="Print a JSON object a line.")] = False
) -> int:
    """The workers of the service; of one that is named, where its threads and tasks stand right now.

    Parameters
    ----------
    worker:
        Its name, such as w1.
    """
    if worker is not None:
        status, body = ask(f"/v1/workers/{quote(worker, safe='')}/stack")
        if status != 200:
            raise CommandError(told_by(status, body), FAILED)
        text = body.decode("utf-8", "replace")
        if json:
            print_objects([{"name": worker, "stack": text}])
        else:
            sys.stdout.write("".join(f"{printable(line)}\n" for line in text.splitlines()))
        return COMPLETED
    found = asked("/v1/workers", Workers).workers
    if json:
        print_objects(found)
        return COMPLETED
    import time

    now = time.time()
    print_rows(
        ("WORKER", "STATE", "FOR", "RUNS", "RESTARTS", "PID"),
        [
            (
                (printable(one.name), "head"),
                (printable(one.state), STYLES.get(one.state, "plain")),
                (duration(max(0.0, now - one.since)), "plain"),
                (str(one.runs), "plain"),
                (str(one.restarts), "warn" if one.restarts else "plain"),
                (str(one.pid or ""), "dim"),
            )
            for one in found
        ],
    )
    return COMPLETED
