"""What is sent to one run over HTTP: pause, resume, steer, more budget, hand over; and what became of it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from ..engine import (
    AddBudget,
    Answered,
    AnyCommand,
    EngineError,
    HandOver,
    Pause,
    Resume,
    Steer,
    Unavailable,
    UnknownRun,
    Unusable,
)
from ..messages import Mode
from .desk import Desk, TheDesk, author, key_of
from .problems import Problem
from .runs import Run, Wait

Reason = Annotated[str, msgspec.Meta(max_length=500)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]
Amount = Annotated[float, msgspec.Meta(gt=0, le=1e15)]


SOON = 0.05
"""Seconds in which an engine says what it knows."""


class PauseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason = "paused"
    seconds: Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] | None = None
    """After so many the run is stopped if nobody resumes it; null: as its limits say."""


class ResumeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason = ""


class SteerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Text


class BudgetBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    amounts: Annotated[dict[str, Amount], msgspec.Meta(min_length=1, max_length=32)]
    """By dimension (``turns``, ``tokens``, ``money``, …), added to what there is."""


class HandOverBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason = "asked"
    mode: Mode = "after_turn"


class Sent(msgspec.Struct, frozen=True):
    command: str
    """Its id: ask for ``/v1/runs/RUN/commands/ID`` what became of it."""


REPLIES = {
    200: ResponseSpec(Answered, description="With `wait`: what became of it."),
    202: ResponseSpec(Sent, description="It is durable; nobody has answered yet."),
}


async def sent(
    request: Request[Any, Any, Any], desk: Desk, run: str, command: AnyCommand, wait: float
) -> Response[Answered | Sent]:
    """Send a command under the caller's name and key, and wait for what becomes of it."""
    await desk.status(run)
    id = await desk.engine.send(
        run, msgspec.structs.replace(command, id=key_of(request), by=author(request, command.by))
    )
    found = await desk.answered(run, id, wait) if wait else None
    return Response(Sent(id), status_code=202) if found is None else Response(found, status_code=200)


@post("/v1/runs/{run:str}/pause", opt={"right": "run"}, tags=["control"], responses=REPLIES)
async def pause(
    request: Request[Any, Any, Any], desk: TheDesk, run: Run, data: JSONBody[PauseBody | None] = None, wait: Wait = 0.0
) -> Response[Answered | Sent]:
    """Hold it before its next model request."""
    body = data or PauseBody()
    return await sent(request, desk, run, Pause(reason=body.reason, seconds=body.seconds), wait)


@post("/v1/runs/{run:str}/resume", opt={"right": "run"}, tags=["control"], responses=REPLIES)
async def resume(
    request: Request[Any, Any, Any], desk: TheDesk, run: Run, data: JSONBody[ResumeBody | None] = None, wait: Wait = 0.0
) -> Response[Answered | Sent]:
    """End a pause, also one that the watchdog has made."""
    return await sent(request, desk, run, Resume(reason=(data or ResumeBody()).reason), wait)


@post("/v1/runs/{run:str}/steer", opt={"right": "run"}, tags=["control"], responses=REPLIES)
async def steer(
    request: Request[Any, Any, Any], desk: TheDesk, run: Run, data: JSONBody[SteerBody], wait: Wait = 0.0
) -> Response[Answered | Sent]:
    """Give it a message of the user."""
    return await sent(request, desk, run, Steer(text=data.text), wait)


@post("/v1/runs/{run:str}/budget", opt={"right": "run"}, tags=["control"], responses=REPLIES)
async def budget(
    request: Request[Any, Any, Any], desk: TheDesk, run: Run, data: JSONBody[BudgetBody], wait: Wait = 0.0
) -> Response[Answered | Sent]:
    """Raise its limits."""
    return await sent(request, desk, run, AddBudget(amounts=data.amounts), wait)


@post("/v1/runs/{run:str}/hand-over", opt={"right": "run"}, tags=["control"], responses=REPLIES)
async def hand_over(
    request: Request[Any, Any, Any],
    desk: TheDesk,
    run: Run,
    data: JSONBody[HandOverBody | None] = None,
    wait: Wait = 0.0,
) -> Response[Answered | Sent]:
    """End it at a person's desk."""
    body = data or HandOverBody()
    return await sent(request, desk, run, HandOver(reason=body.reason, mode=body.mode), wait)


@get("/v1/runs/{run:str}/commands/{command:str}", opt={"right": "read"}, tags=["control"])
async def answered(desk: TheDesk, run: Run, command: Run, wait: Wait = 0.0) -> Answered:
    """What became of a command; 404 as long as nobody has taken or refused it."""
    await desk.status(run)
    try:
        found = await desk.answered(run, command, max(wait, SOON))
    except (UnknownRun, Unavailable, Unusable):
        raise
    except EngineError as error:
        raise Problem(404, str(error), "unknown-command") from error
    if found is None:
        raise Problem(404, f"nobody has answered the command {command[:64]!r} of the run {run} yet", "not-answered")
    return found


ROUTES = (pause, resume, steer, budget, hand_over, answered)
