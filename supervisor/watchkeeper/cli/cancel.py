"""``watchkeeper cancel``: end runs from any terminal; with ``--wait`` it says what was at work and what ended when."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import anyio
from cyclopts import Parameter

from ..engine import EngineError
from ..messages import Gap, Mode
from ..service.client import HttpEngine
from ..service.proof import Proof
from .columns import print_rows
from .exits import COMPLETED, FAILED, TIMED_OUT, CommandError, complain
from .finding import Sources, code_of, through
from .following import closing
from .ids import shortened
from .listed import Listed
from .listing import Selection
from .objects import print_object, print_objects
from .printable import count, identifier, one_line
from .progress import Counted
from .prompting import may
from .proof import Cancelled, told
from .sending import whoever
from .show import Tree
from .standing import HEADS, SPARE, rows
from .view import view_on

TIMEOUT = {"after_turn": 180.0, "now": 30.0, "kill": 30.0}
"""Seconds that --wait waits by mode, unless it is told otherwise: each is beyond what the mode itself waits for."""
SIDE_BY_SIDE = 100
"""Requests on their way at a time."""


def cancel(
    *runs: str,
    after_turn: Annotated[bool, Parameter(help="When the calls of its turn have ended.")] = False,
    now: Annotated[bool, Parameter(help="At once (this is so unless said otherwise).")] = False,
    kill: Annotated[bool, Parameter(help="At once, and without waiting for what does not stop.")] = False,
    tree: Annotated[bool, Parameter(help="The whole tree that the run is in, from its root on.")] = False,
    all_: Annotated[bool, Parameter(name=["--all"], help="Every run that has not ended.")] = False,
    label: Annotated[tuple[str, ...], Parameter(help="Every one with this label, NAME=VALUE.")] = (),
    agent: Annotated[str, Parameter(help="Every one of this agent.")] = "",
    state: Annotated[tuple[str, ...], Parameter(help="Every one in this state, such as queued.")] = (),
    dry_run: Annotated[bool, Parameter(help="Only say which would be cancelled.")] = False,
    reason: Annotated[str, Parameter(help="Why, for the record.")] = "cancelled",
    wait: Annotated[bool, Parameter(help="Until they have ended, and say what ended when.")] = False,
    timeout: Annotated[float | None, Parameter(help="Seconds to wait at most.")] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.")] = False,
    json: Annotated[bool, Parameter(help="A JSON object for each run.")] = False,
) -> int:
    """End runs: their calls and requests are cancelled, what they have done is kept.

    A run takes its sub-agents along. Several runs at once (--all, --label, --agent, --state) are asked about at a
    terminal, and need --yes without one.

    Parameters
    ----------
    runs:
        Which: ids, beginnings of ids, or @last.
    """
    chosen: list[Mode] = [mode for mode, given in (("after_turn", after_turn), ("now", now), ("kill", kill)) if given]  # type: ignore[misc]
    if len(chosen) > 1:
        raise CommandError("--after-turn, --now and --kill exclude each other")
    mode: Mode = chosen[0] if chosen else "now"
    wanted = Selection(False, state, agent, label) if all_ or label or agent or state else None
    if not runs and wanted is None:
        raise CommandError(
            "say which: watchkeeper cancel RUN…, or --all, --label NAME=VALUE, --agent NAME, --state STATE"
        )
    if runs and wanted is not None:
        raise CommandError("name runs, or say which by --all, --label, --agent and --state: not both")
    if timeout is not None and not timeout > 0:
        raise CommandError(f"--timeout {timeout:g}: it is more than 0 seconds")
    order = Order(mode, reason or "cancelled", wait or timeout is not None, timeout or TIMEOUT[mode])

    async def body(sources: Sources) -> int:
        found = await sources.find_all(runs) if wanted is None else await wanted.of(sources, 1_000_000)
        if tree:
            found = await _roots(found)
        live = [one for one in found if not one.ended and not one.died]
        if wanted is None and not json:
            _tell_of_the_others(found)
        if dry_run:
            return _print_dry(live, json) or sources.complain()
        if not live:
            if wanted is not None and not sources.lost:
                complain("no such run is going on")
            return sources.complain()
        if (
            wanted is not None
            and not yes
            and not await may(
                f"cancel {count(len(live), 'run')} ({mode})?", _rows(live), remedy="--yes, or --dry-run to see which"
            )
        ):
            complain("nothing was cancelled")
            return FAILED
        code = await order.carry_out(live, json)
        return code or sources.complain()

    return through(body)


class Together(NamedTuple):
    """What came of cancelling a run together with others: seconds until its end was seen, if it was; or what went
    wrong."""

    seconds: float | None = None
    error: EngineError | None = None


class Order:
    """A cancel of some runs."""

    def __init__(self, mode: Mode, reason: str, wait: bool, timeout: float) -> None:
        self._mode = mode
        self._reason = reason
        self._wait = wait
        self._timeout = timeout

    async def carry_out(self, runs: Sequence[Listed], json: bool) -> int:
        """Send it to all of them, and wait for their ends if that is wanted; the exit code."""
        proofs: dict[str, Cancelled | EngineError] = {}
        limit = anyio.CapacityLimiter(SIDE_BY_SIDE)

        async def one(listed: Listed) -> None:
            async with limit:
                proofs[listed.run] = await self._cancel(listed, together, look=self._wait or json)
            bar.advance()

        with Counted(len(runs), "cancelled") as bar:
            together = await self._cancel_together(runs)
            async with anyio.create_task_group() as tasks:
                for listed in runs:
                    tasks.start_soon(one, listed)
        return self._say(runs, proofs, json)

    async def _cancel_together(self, runs: Sequence[Listed]) -> dict[str, Together]:
        """Tell many runs of a service by one request: the last of a thousand is not to wait for a thousand of them."""
        services: dict[HttpEngine, list[str]] = {}
        for listed in runs:
            if isinstance(engine := listed.source.engine, HttpEngine) and listed.root == listed.run:
                services.setdefault(engine, []).append(listed.run)
        found: dict[str, Together] = {}
        for engine, names in services.items():
            if len(names) == 1:
                continue
            sent = time.monotonic()
            wait = self._timeout if self._wait else 0.0
            try:
                ended = await engine.cancel_many(names, self._reason, self._mode, by=whoever(), wait=wait)
            except EngineError as error:
                found |= dict.fromkeys(names, Together(error=error))
            else:
                seconds = time.monotonic() - sent
                found |= {name: Together(seconds if name in ended else None) for name in names}
        return found

    async def _cancel(self, one: Listed, together: Mapping[str, Together], *, look: bool) -> Cancelled | EngineError:
        """The proof, or what went wrong."""
        told = together.get(one.run)
        if told is not None and told.error is not None:
            return told.error
        sent = time.monotonic()
        waited = None
        folds: list[Proof] = []
        try:
            if told is None:
                await one.source.engine.cancel(one.run, self._reason, self._mode, by=whoever())
            if self._wait:
                with anyio.move_on_after(self._timeout):
                    await _fold(one, folds)
                    waited = told.seconds if told is not None and told.seconds else time.monotonic() - sent
                    for child in list(await Tree.of(one))[1:]:
                        await _fold(child, folds)
            if look:
                one = await one.again()
        except EngineError as error:
            return error
        return Cancelled(
            one=one,
            in_flight=tuple(found for fold in folds for found in fold.in_flight),
            ended=tuple(found for fold in folds for found in fold.ended),
            seconds=folds[0].seconds if folds else None,
            waited=waited,
        )

    def _say(self, runs: Sequence[Listed], proofs: Mapping[str, Cancelled | EngineError], json: bool) -> int:
        short = shortened(proofs)
        failed, late = COMPLETED, False
        view = view_on(sys.stdout)
        for one in runs:
            proof, name = proofs[one.run], identifier(short[one.run])
            if isinstance(proof, EngineError):
                failed = max(failed, code_of(proof))
                complain(f"{name}: {one_line(str(proof), 300)}")
                continue
            late = late or (self._wait and proof.waited is None)
            if json:
                print_object(proof.plain())
            elif self._wait:
                view.print(told(proof, short[one.run]))
            else:
                print(f"{name}: asked to end ({self._mode}); --wait says when it has")
        if late:
            complain(f"not all had ended within {self._timeout:g} s (--timeout); the request stands")
        return failed or (TIMED_OUT if late else COMPLETED)


async def _fold(one: Listed, folds: list[Proof]) -> None:
    """Follow a run to its end."""
    fold = Proof()
    folds.append(fold)
    events = one.source.engine.watch(one.run)
    async with closing(events):
        async for event in events:
            if not isinstance(event, Gap):
                fold.observe(event)


async def _roots(runs: Sequence[Listed]) -> list[Listed]:
    found = {}
    for one in runs:
        root = one if one.root == one.run else Listed(await one.source.engine.get(one.root), one.source)
        found[root.run] = root
    return list(found.values())


def _tell_of_the_others(runs: Sequence[Listed]) -> None:
    for one in runs:
        if one.ended:
            complain(f"{identifier(one.run)} has ended already ({one.state})")
        elif one.died:
            complain(f"{identifier(one.run)} has died with its process: nothing of it is going on")


def _rows(runs: Sequence[Listed]) -> list[str]:
    from .columns import plain

    return plain(HEADS, [[text for text, _ in row] for row in rows(runs, time.time())])


def _print_dry(runs: Sequence[Listed], json: bool) -> int:
    if json:
        print_objects(one.plain() for one in runs)
    elif runs:
        print_rows(HEADS, list(rows(runs, time.time())), SPARE)
        complain(f"{count(len(runs), 'run')} would be cancelled")
    else:
        complain("no run would be cancelled")
    return COMPLETED
