"""``watchkeeper wait``: until runs have ended; the exit code is their outcome."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import anyio
from cyclopts import Parameter

from ..engine import EngineError
from ..messages import Outcome
from .detaching import looking_on
from .epilogue import epilogue
from .exits import COMPLETED, DETACHED, FAILED, TIMED_OUT, CommandError, complain, exit_code
from .finding import Sources, code_of, through
from .following import closing
from .listed import Listed
from .objects import print_object
from .printable import count, identifier, one_line
from .view import view_on


def wait(
    *runs: str,
    timeout: Annotated[float | None, Parameter(help="Seconds to wait at most; then the exit code is 124.")] = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], help="The exit code says all.")] = False,
    json: Annotated[bool, Parameter(help="The outcome as a JSON object, a line for each run.")] = False,
) -> int:
    """Wait until runs have ended. The exit code is the outcome: 0 completed, 1 failed, 3 stopped, 4 cancelled,
    5 not approved, 6 handed over; of several runs that of the first, in their order, which is not 0.

    Ctrl-C ends the waiting and no run; the exit code is then 130.

    Parameters
    ----------
    runs:
        Which: ids, beginnings of ids, or @last.
    """
    if not runs:
        raise CommandError("say which: watchkeeper wait RUN…")
    if timeout is not None and not timeout > 0:
        raise CommandError(f"--timeout {timeout:g}: it is more than 0 seconds")

    async def body(sources: Sources) -> int:
        return await waited(await sources.find_all(runs), timeout, quiet=quiet, json=json)

    return through(body)


async def waited(
    runs: Sequence[Listed], patience: float | None = None, *, quiet: bool = False, json: bool = False
) -> int:
    """Until all have ended; the exit code."""
    codes: dict[str, int] = {}

    async def one(listed: Listed) -> None:
        codes[listed.run] = await _ended(listed, quiet=quiet, json=json)

    with anyio.move_on_after(patience) as time_over:
        async with looking_on(keys=False) as watcher, anyio.create_task_group() as tasks:
            for listed in runs:
                tasks.start_soon(one, listed)
    left = [one.run for one in runs if one.run not in codes]
    if left and watcher.gone:
        complain(f"not waiting any more; {count(len(left), 'run')} not ended: nothing was stopped")
        return DETACHED
    if left and time_over.cancelled_caught:
        complain(f"{identifier(left[0])} has not ended within {patience:g} s")
        return TIMED_OUT
    return next((codes[one.run] for one in runs if codes[one.run]), COMPLETED)


async def _ended(one: Listed, *, quiet: bool, json: bool) -> int:
    """Wait for the end of one run, and tell it; the exit code."""
    if one.died:
        complain(f"{identifier(one.run)} has died with its process: it has no outcome")
        return FAILED
    try:
        if not one.ended:
            events = one.source.engine.watch(one.run, one.status.n)
            async with closing(events):
                async for _ in events:
                    pass
            one = await one.again()
    except EngineError as error:
        complain(f"{identifier(one.run)}: {one_line(str(error), 300)}")
        return code_of(error)
    outcome = one.status.outcome
    if outcome is None:
        complain(f"{identifier(one.run)} is not watched any more, and has no outcome: look with watchkeeper show")
        return FAILED
    _tell(outcome, quiet=quiet, json=json)
    return exit_code(outcome)


def _tell(outcome: Outcome, *, quiet: bool, json: bool) -> None:
    if json:
        print_object(outcome)
    elif not quiet:
        view_on(sys.stdout).print(epilogue(outcome))
