"""Stop runs over HTTP: one with the proof of it, many by a filter, all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any

import anyio
import msgspec
from litestar import Request, Response, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from ..engine import PAGE, EngineError, Query, RunStatus, UnknownRun
from ..journal.checks import LONGEST_NAME
from ..log import Gap
from ..messages import Mode, Status
from ..states import State
from .board import LIVE
from .commands import Reason
from .desk import Desk, TheDesk, author, key_of
from .facts import watched
from .problems import Problem
from .proof import Ended, InFlight, Proof
from .runs import TREE, Run, Wait

SIDE_BY_SIDE = 128
"""Cancels that are sent at once: an engine makes many durable together."""
LOOK = 0.05
"""Seconds between two looks at whether all have ended."""
SHARE = 4
"""A look that takes long is followed by a rest this many times as long, at most: the processor is for those that
end."""
TASK = 160
MOST = 20_000
"""Runs that one filter names."""
Named = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]


class CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: Mode = "now"
    reason: Reason = "cancelled"
    tree: bool = True
    """A cancelled run always cancels its sub-agents; ``false`` is refused."""


class Cancelled(msgspec.Struct, frozen=True):
    """What was at work in the run and its sub-agents when they took the cancel, and how each of it ended.

    ``seconds``: from the cancel to the last task joined, by the run's clock; null as long as it has not ended.
    """

    run: RunStatus
    in_flight: tuple[InFlight, ...]
    ended: tuple[Ended, ...]
    seconds: float | None


class Filter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs that have no parent and are all of this; at least one of it must be said."""

    states: tuple[State, ...] = ()
    agent: str = ""
    labels: dict[str, str] = {}
    runs: Annotated[tuple[Named, ...], msgspec.Meta(max_length=MOST)] | None = None
    """None but these, by id: those that a person has seen before they said yes. Null: whichever fit the rest."""


class StopBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason = "stop all"
    mode: Mode = "now"
    dry_run: bool = False
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """Seconds to wait until all of them have ended."""


class BulkBody(StopBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    filter: Filter
    reason: Reason = "cancelled"


class Stopped(msgspec.Struct, frozen=True):
    """One of the runs that were stopped together: how it stands after it, and how it ended, if it has."""

    run: str
    agent: str
    task: str
    state: State
    outcome: Status | None = None
    reason: str = ""


class StoppedRuns(msgspec.Struct, frozen=True):
    runs: tuple[Stopped, ...]
    dry_run: bool


@post(
    "/v1/runs/{run:str}/cancel",
    opt={"right": "run"},
    tags=["control"],
    responses={
        200: ResponseSpec(Cancelled, description="With `wait`: the proof."),
        202: ResponseSpec(RunStatus, description="The cancel is durable."),
    },
)
async def cancel(
    request: Request[Any, Any, Any], desk: TheDesk, run: Run, data: JSONBody[CancelBody | None] = None, wait: Wait = 0.0
) -> Response[Cancelled | RunStatus]:
    """Cancel a run and its sub-agents. Idempotent: a run that has ended is left as it is."""
    body = data or CancelBody()
    if not body.tree:
        raise Problem(400, "tree: a cancelled run always cancels its sub-agents; leave it out", "invalid")
    await desk.status(run)
    await desk.engine.cancel(run, body.reason, body.mode, by=author(request), id=key_of(request))
    if not wait:
        return Response(await desk.engine.get(run), status_code=202)
    proofs = {run: Proof()}
    with desk.streams.until_closing(wait):
        await _follow(desk, run, proofs[run])
        for child in await _below(desk, run):
            await _follow(desk, child, proofs.setdefault(child, Proof()))
    return Response(
        Cancelled(
            await desk.engine.get(run),
            tuple(one for proof in proofs.values() for one in proof.in_flight),
            tuple(one for proof in proofs.values() for one in proof.ended),
            proofs[run].seconds,
        ),
        status_code=200,
    )


async def _follow(desk: Desk, run: str, proof: Proof) -> None:
    async with watched(desk.engine, run) as facts:
        async for fact in facts:
            if not isinstance(fact, Gap):
                proof.observe(fact)


async def _below(desk: Desk, run: str) -> list[str]:
    """Its sub-agents at any depth."""
    found: list[str] = []
    parents = [run]
    while parents and len(found) < TREE:
        page = await desk.engine.list(Query(parent=parents.pop(), limit=10 * PAGE))
        below = [child.run for child in page.runs]
        found += below
        parents += below
    return found


@post("/v1/runs/cancel", opt={"right": "run"}, tags=["control"], status_code=200)
async def cancel_many(request: Request[Any, Any, Any], desk: TheDesk, data: JSONBody[BulkBody]) -> StoppedRuns:
    """Cancel all live runs that fit a filter; with ``dry_run`` only say which these are."""
    chosen = data.filter
    if not (chosen.states or chosen.agent or chosen.labels or chosen.runs is not None):
        raise Problem(
            400, "filter: it fits every run; say states, agent, labels or runs, or use /v1/stop-all", "invalid"
        )
    states = tuple(state for state in chosen.states or LIVE if state != "ended")
    found = await _roots(desk, Query(states=states, agent=chosen.agent, labels=chosen.labels)) if states else []
    if chosen.runs is not None:
        named = frozenset(chosen.runs)
        found = [status for status in found if status.run in named]
    return await _stop(desk, found, data, author(request))


@post("/v1/stop-all", opt={"right": "run"}, tags=["control"], status_code=200)
async def stop_all(
    request: Request[Any, Any, Any], desk: TheDesk, data: JSONBody[StopBody | None] = None
) -> StoppedRuns:
    """Cancel every run there is at this moment, queued ones too; with ``dry_run`` only say which these are."""
    return await _stop(desk, await _roots(desk, Query(states=LIVE)), data or StopBody(), author(request))


async def _stop(desk: Desk, chosen: Iterable[RunStatus], body: StopBody, by: str) -> StoppedRuns:
    found = {status.run: status for status in chosen}
    if not body.dry_run:
        await _cancel(desk, found, body.reason, body.mode, by)
        if body.wait:
            with desk.streams.until_closing(body.wait):
                await _all_ended(desk, found)
        await _look_at(desk, found, [run for run, status in found.items() if status.state != "ended"])
    return StoppedRuns(tuple(_stopped(status) for status in found.values()), body.dry_run)


def _stopped(status: RunStatus) -> Stopped:
    outcome = status.outcome
    return Stopped(
        status.run,
        status.spec.agent,
        status.spec.task[:TASK],
        status.state,
        None if outcome is None else outcome.status,
        "" if outcome is None else outcome.reason,
    )


async def _roots(desk: Desk, query: Query) -> list[RunStatus]:
    """All runs that fit, newest first."""
    found: dict[str, RunStatus] = {}
    before = ""
    while True:
        page = await desk.engine.list(msgspec.structs.replace(query, before=before, limit=10 * PAGE))
        found.update((status.run, status) for status in page.runs)
        if not page.more or not page.runs:
            return list(found.values())
        before = page.runs[-1].run


async def _cancel(desk: Desk, runs: Iterable[str], reason: str, mode: Mode, by: str) -> None:
    await _of_each(runs, lambda run: desk.engine.cancel(run, reason, mode, by=by))


async def _of_each(runs: Iterable[str], ask: Callable[[str], Awaitable[None]]) -> None:
    """Ask the engine of each run, many side by side, also when it cannot do it of one; then what was wrong is raised.
    Of a run that was deleted since it was listed there is nothing to ask."""
    places = anyio.Semaphore(SIDE_BY_SIDE)
    wrong: list[EngineError] = []

    async def one(run: str) -> None:
        async with places:
            try:
                await ask(run)
            except UnknownRun:
                return
            except EngineError as error:
                wrong.append(error)

    async with anyio.create_task_group() as group:
        for run in runs:
            group.start_soon(one, run)
    if wrong:
        raise wrong[0]


async def _all_ended(desk: Desk, found: dict[str, RunStatus]) -> None:
    """Wait for it; what has ended is looked at while others still end."""
    left = set(found)
    while left:
        began = anyio.current_time()
        live = {status.run for status in await _roots(desk, Query(states=LIVE))}
        await _look_at(desk, found, left - live)
        left &= live
        if left:
            last = next(run for run in reversed(found) if run in left)
            await _rest(desk, last, SHARE * (anyio.current_time() - began))


async def _rest(desk: Desk, last: str, seconds: float) -> None:
    """Until it is worth looking at all of them again: after so long, or as soon as the one has ended that was told
    last. One alone is looked at quickly."""
    until = anyio.current_time() + seconds
    while True:
        await anyio.sleep(LOOK)
        if anyio.current_time() >= until or await _has_ended(desk, last):
            return


async def _has_ended(desk: Desk, run: str) -> bool:
    try:
        return (await desk.engine.get(run)).state == "ended"
    except UnknownRun:
        return True  # deleted since


async def _look_at(desk: Desk, found: dict[str, RunStatus], runs: Iterable[str]) -> None:
    """How they stand now, into ``found``. Of many, most are on the first page of all runs."""
    left = set(runs)
    if len(left) > SIDE_BY_SIDE:
        page = await desk.engine.list(Query(limit=10 * PAGE))
        seen = {status.run: status for status in page.runs if status.run in left}
        found.update(seen)
        left -= seen.keys()

    async def look(run: str) -> None:
        found[run] = await desk.engine.get(run)  # one that was deleted stays as it was last seen

    await _of_each(left, look)


ROUTES = (cancel, cancel_many, stop_all)
