"""Runs over HTTP: begin one, look at it, wait for what came of it."""

from __future__ import annotations

from typing import Annotated, Any, cast
from urllib.parse import unquote

import msgspec
from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, PathParameter, QueryParameter
from litestar.types import ASGIApp

from ..engine import PAGE, EngineError, Page, Query, RunSpec, RunStatus, UnknownRun
from ..errors import ConfigurationError
from ..journal.checks import LONGEST_NAME, check_spec
from ..messages import Outcome, RunEnded
from ..profiles import limits_with
from ..states import State
from .desk import Desk, TheDesk, author, key_of
from .facts import facts, watched
from .problems import Problem
from .streams import FORMS, NDJSON, SSE, EventStream
from .timeline import Timeline

TREE = 1_000
"""Runs of a tree that are told of."""

Run = Annotated[str, PathParameter(description="The run's id.", max_length=LONGEST_NAME)]
Wait = Annotated[
    float,
    QueryParameter(name="wait", ge=0, le=60, description="Seconds to wait for what is asked for; 0: not at all."),
]


class Tree(msgspec.Struct, frozen=True):
    """A run and its sub-agents, oldest first."""

    run: RunStatus
    children: tuple[Tree, ...] = ()


@post(
    "/v1/runs",
    opt={"right": "run"},
    tags=["runs"],
    responses={422: ResponseSpec(None, description="other spec, or no limits")},
)
async def submit(request: Request[Any, Any, Any], desk: TheDesk, data: JSONBody[RunSpec]) -> Response[RunStatus]:
    """Queue a run. With a header ``Idempotency-Key`` the same request again gives the run that is there."""
    if desk.control is not None and not desk.control.admitting:
        raise Problem(503, "the service drains and takes no new runs; ask again later", "draining", retry_after="5")
    try:
        check_spec(data)
    except EngineError as error:
        raise Problem(400, str(error), "invalid") from error
    try:
        limits_with(data.limits)
    except ConfigurationError as error:
        raise Problem(422, str(error), "limits") from error
    spec = msgspec.structs.replace(data, by=author(request, data.by))
    run = key_of(request)
    try:
        status = await desk.engine.submit(spec, run=run)
    except EngineError as error:
        if run and await _is_another(desk, run, spec):
            raise Problem(422, str(error), "other-spec") from error
        raise
    return Response(status, status_code=201, headers={"Location": f"/v1/runs/{status.run}"})


async def _is_another(desk: Desk, run: str, spec: RunSpec) -> bool:
    try:
        return (await desk.engine.get(run)).spec != spec
    except UnknownRun:
        return False


@get("/v1/runs", opt={"right": "read"}, tags=["runs"])
async def listed(
    desk: TheDesk,
    states: Annotated[
        list[State] | None, QueryParameter(name="state", description="Runs in one of these states.")
    ] = None,
    agent: Annotated[str, QueryParameter(max_length=200)] = "",
    label: Annotated[
        list[str] | None,
        QueryParameter(description="Runs with all of these labels, each `key:value`; a colon in a key as %3A."),
    ] = None,
    parent: Annotated[
        str | None,
        QueryParameter(description="Children of that run; empty: all runs; without it: those that have no parent."),
    ] = None,
    worker: Annotated[str, QueryParameter(max_length=200)] = "",
    before: Annotated[str, QueryParameter(max_length=64, description="The last run of the page before.")] = "",
    limit: Annotated[int, QueryParameter(ge=1, le=10 * PAGE)] = PAGE,
) -> Page:
    """Runs, newest first."""
    if before:
        try:
            await desk.engine.get(before)
        except UnknownRun as error:
            raise Problem(400, f"before: {error}", "invalid") from error
    return await desk.engine.list(
        Query(
            states=tuple(states or ()),
            agent=agent,
            labels=labels_of(label or []),
            parent=parent,
            worker=worker,
            before=before,
            limit=limit,
        )
    )


def labels_of(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, colon, value = text.partition(":")
        if not key or not colon:
            raise Problem(400, f"label: {text[:100]!r} is not of the form key:value", "invalid")
        found[unquote(key)] = value
    return found


@get("/v1/runs/{run:str}", opt={"right": "read"}, tags=["runs"])
async def got(desk: TheDesk, run: Run) -> RunStatus:
    """How a run stands."""
    return await desk.status(run)


@get("/v1/runs/{run:str}/tree", opt={"right": "read"}, tags=["runs"])
async def tree(desk: TheDesk, run: Run) -> Tree:
    """A run and its sub-agents at any depth, at most 1,000 in all."""
    top = await desk.status(run)
    below: dict[str, list[RunStatus]] = {}
    waiting, seen = [top.run], 1
    while waiting and seen < TREE:
        parent = waiting.pop(0)
        page = await desk.engine.list(Query(parent=parent, limit=min(10 * PAGE, TREE - seen)))
        below[parent] = [*reversed(page.runs)]
        waiting += [child.run for child in below[parent]]
        seen += len(page.runs)

    def grown(status: RunStatus) -> Tree:
        return Tree(status, tuple(grown(child) for child in below.get(status.run, ())))

    return grown(top)


@get("/v1/runs/{run:str}/result", opt={"right": "read"}, tags=["runs"])
async def result(desk: TheDesk, run: Run, wait: Wait = 0.0) -> Outcome:
    """The outcome, with the conversation; 404 until the run has ended, or ``wait`` seconds are over."""
    status = await desk.status(run)
    if status.outcome is None and wait:
        with desk.streams.until_closing(wait):
            async with watched(desk.engine, run, status.n) as found:
                async for _ in found:
                    pass
        status = await desk.status(run)
    if status.outcome is None:
        raise Problem(404, f"the run {run} is {status.state}: it has no result yet", "not-ended")
    async with watched(desk.engine, run, max(status.n - 1, 0)) as found:
        async for fact in found:
            if isinstance(fact, RunEnded):
                return fact.outcome
    return status.outcome


@get("/v1/runs/{run:str}/timeline", opt={"right": "read"}, tags=["runs"])
async def timeline(desk: TheDesk, run: Run) -> Timeline:
    """What happened when: bars for the model, the tools and the watchdog, and the curve of what was spent."""
    course = await desk.courses.of(await desk.status(run))
    return course.timeline(desk.clock())


@get(
    "/v1/runs/{run:str}/events",
    opt={"right": "read"},
    tags=["events"],
    media_type=SSE,
    responses={200: ResponseSpec(str, description="Events; lines of JSON if that is accepted.", media_type=SSE)},
)
async def events(
    request: Request[Any, Any, Any],
    desk: TheDesk,
    run: Run,
    after: Annotated[int, QueryParameter(ge=0, le=2**53, description="Facts from behind this number.")] = 0,
    follow: Annotated[bool, QueryParameter(description="Stay until the run has ended.")] = True,
) -> ASGIApp:
    """The facts of a run: those that are there, then, with ``follow``, live ones until it ends."""
    status = await desk.status(run)
    form = FORMS[NDJSON if NDJSON in request.headers.get("accept", "") else SSE]
    last = request.headers.get("last-event-id")
    if last is not None:
        if not (last.isascii() and last.isdigit() and len(last) < 16 and int(last) <= status.n):
            raise Problem(
                400,
                f"Last-Event-ID {last[:40]!r} is no number of a fact of the run {run}, which has {status.n}; "
                "leave it out to begin at the first",
                "last-event-id",
            )
        after = int(last)
        if status.state == "ended" and after == status.n:
            # What tells a browser to ask no more.
            return cast("ASGIApp", Response(None, status_code=204).to_asgi_response(None, request))
    if desk.streams.full:
        raise Problem(503, "too many streams are open; close some", "streams", retry_after="5")
    upto = None if follow else status.n
    return EventStream(desk.streams, form, facts(desk.engine, run, after, upto, form))


ROUTES = (submit, listed, got, tree, result, timeline, events)
