"""What the service says of itself, the events of all runs, sessions of browsers, and the page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from importlib.metadata import version as version_of
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.types import ASGIApp

from ..engine import BudgetStanding
from ..messages import FORMAT, mended
from ..profiles import PROFILES
from .access import COOKIE
from .board import Board, Stats
from .control import Report, WorkerStatus
from .desk import TheDesk, asking
from .problems import Problem
from .rulebook import AgentRules, settings_of
from .runs import Run
from .sessions import cookie
from .streams import FORMS, SSE, EventStream, Form


class Version(msgspec.Struct, frozen=True):
    watchkeeper: str
    format: int
    """Of events."""


class Workers(msgspec.Struct, frozen=True):
    workers: tuple[WorkerStatus, ...]


class Policies(msgspec.Struct, frozen=True):
    agents: tuple[AgentRules, ...]
    policies: dict[str, dict[str, Any]]
    """The profiles: each with all its settings."""


class Budgets(msgspec.Struct, frozen=True):
    budgets: tuple[BudgetStanding, ...]


class ServiceStats(msgspec.Struct, frozen=True):
    runs: Stats
    streams: int
    """Streams that are open."""
    cut: int
    """Streams that were cut since the start, because their readers were too slow."""


class SessionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: Annotated[str, msgspec.Meta(max_length=256)]


class SessionReply(msgspec.Struct, frozen=True):
    """Whose session it is, and what it may do."""

    name: str
    scopes: tuple[str, ...]


@get("/livez", opt={"right": None}, tags=["service"], responses={503: ResponseSpec(Report, description="Not well.")})
async def live(request: Request[Any, Any, Any], desk: TheDesk) -> Response[Report]:
    """Whether the service does its work; if not, it is to be started again."""
    report = Report.of() if desk.control is None else await desk.control.live()
    return _told(request, report)


@get("/readyz", opt={"right": None}, tags=["service"], responses={503: ResponseSpec(Report, description="Not ready.")})
async def ready(request: Request[Any, Any, Any], desk: TheDesk) -> Response[Report]:
    """Whether a run that is submitted now would be executed."""
    report = Report.of() if desk.control is None else await desk.control.ready()
    return _told(request, report)


def _told(request: Request[Any, Any, Any], report: Report) -> Response[Report]:
    """Who has no credential learns whether it is well, and not why."""
    shown = report if asking(request).scopes else Report(report.ok, ())
    return Response(shown, status_code=200 if report.ok else 503)


@get("/version", opt={"right": "read"}, tags=["service"])
async def version() -> Version:
    """Of the program and of its events."""
    return Version(version_of("watchkeeper"), FORMAT)


@get("/metrics", opt={"right": "read"}, tags=["service"], media_type="text/plain")
async def metrics(desk: TheDesk) -> Response[bytes]:
    """For Prometheus."""
    if desk.exposition is None:
        raise Problem(404, "this service has no metrics: the extra server is not whole", "no-metrics")
    kind, body = desk.exposition(desk.engine)
    return Response(body, media_type=kind)


@get("/v1/policies", opt={"right": "read"}, tags=["service"])
async def policies(desk: TheDesk) -> Policies:
    """Which rules hold for each configured agent, and the profiles there are, by name."""
    agents = () if desk.control is None else tuple(desk.control.rules())
    return Policies(agents, {name: settings_of(profile) for name, profile in PROFILES.items()})


@get("/v1/budgets", opt={"right": "read"}, tags=["service"])
async def budgets(desk: TheDesk) -> Budgets:
    """What each shared budget holds in all, and what of it is granted to nobody yet."""
    return Budgets(tuple(await desk.engine.limits.standing()))


@get("/v1/workers", opt={"right": "read"}, tags=["service"])
async def workers(request: Request[Any, Any, Any], desk: TheDesk) -> Workers:
    """The worker processes. Where one stands in trouble (``stack``) is for the scope ``admin``."""
    found: Sequence[WorkerStatus] = () if desk.control is None else desk.control.workers()
    if not asking(request).may("admin"):
        found = [msgspec.structs.replace(worker, stack="") for worker in found]
    return Workers(tuple(found))


@get("/v1/workers/{worker:str}/stack", opt={"right": "admin"}, tags=["service"], media_type="text/plain")
async def stack(desk: TheDesk, worker: Run) -> str:
    """Where a worker stands right now."""
    try:
        if desk.control is not None:
            return await desk.control.stack(worker)
    except KeyError:
        pass
    raise Problem(404, f"there is no worker {worker[:64]!r}", "unknown-worker")


@get("/v1/stats", opt={"right": "read"}, tags=["service"])
async def stats(desk: TheDesk) -> ServiceStats:
    """Counts of runs, the newest and all live ones, and of streams."""
    return ServiceStats(await desk.board.look(), desk.streams.open, desk.streams.cut)


@get(
    "/v1/events",
    opt={"right": "read"},
    tags=["events"],
    media_type=SSE,
    responses={200: ResponseSpec(str, description="Statuses of runs as they change.", media_type=SSE)},
)
async def events(desk: TheDesk) -> ASGIApp:
    """How all runs stand and whenever one changes, at most twice a second each. It begins with all of them anew each
    time, so there is nothing to resume."""
    if desk.streams.full:
        raise Problem(503, "too many streams are open; close some", "streams", retry_after="5")
    return EventStream(desk.streams, FORMS[SSE], changes(desk.board, FORMS[SSE]))


async def changes(board: Board, form: Form) -> AsyncGenerator[bytes, None]:
    """``run`` for each status that is new, ``stats`` when the counts are."""
    with board.viewer() as viewer:
        while True:
            statuses, counts = await viewer.take()
            for status in statuses:
                yield form.event("run", encoded(status), None)
            if counts is not None:
                yield form.event("stats", encoded(counts), None)


def encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(mended(msgspec.to_builtins(value)))


@post("/v1/session", opt={"right": None}, tags=["session"], status_code=200)
async def begin(request: Request[Any, Any, Any], desk: TheDesk, data: JSONBody[SessionBody]) -> Response[SessionReply]:
    """Exchange a token for a cookie, for browsers."""
    found = desk.sessions.begin(data.token)
    if found is None:
        raise Problem(401, "the token is not known, or has been taken back")
    value, who = found
    header = cookie(value, secure=request.scope["scheme"] == "https")
    return Response(SessionReply(who.name, tuple(sorted(who.scopes))), headers={"Set-Cookie": header})


@get("/v1/session", opt={"right": "read"}, tags=["session"])
async def session(request: Request[Any, Any, Any]) -> SessionReply:
    """Who asks, and what they may do."""
    who = asking(request)
    return SessionReply(who.name, tuple(sorted(who.scopes)))


@delete("/v1/session", opt={"right": "read"}, tags=["session"], status_code=204)
async def end(request: Request[Any, Any, Any], desk: TheDesk) -> Response[None]:
    """End the session of this cookie."""
    desk.sessions.end(request.cookies.get(COOKIE, ""))
    header = cookie("", secure=request.scope["scheme"] == "https")
    return Response(None, status_code=204, headers={"Set-Cookie": header})


ROUTES = (
    live, ready, version, metrics, policies, budgets, workers, stack, stats, events, begin, session, end,
)  # fmt: skip
