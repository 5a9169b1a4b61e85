"""The inbox over HTTP: the calls that wait for a yes or a no, and the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, PathParameter, QueryParameter

from ..approvals import Scope
from ..engine import PAGE, Answered, AnyCommand, Approve, Deny, Query, UnknownRun
from .board import LIVE
from .commands import Reason, Sent, sent
from .desk import TheDesk
from .inbox import Waiting
from .problems import Problem

ENTRIES = 500
"""Entries of the inbox that are shown, those that expire first."""


class Inbox(msgspec.Struct, frozen=True):
    approvals: tuple[Waiting, ...]
    more: int = 0
    """How many more there are."""


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A yes needs the hash of the arguments that were looked at, and is for those alone."""

    run: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    decision: Literal["approve", "deny"]
    arguments_hash: Annotated[str, msgspec.Meta(max_length=64)] = ""
    scope: Scope = "once"
    pattern: dict[str, str | tuple[str, ...]] | None = None
    """For the scopes ``run`` and ``always``: which calls of the tool, by a glob for each argument."""
    reason: Reason = ""


@get("/v1/approvals", opt={"right": "read"}, tags=["approvals"])
async def inbox(desk: TheDesk) -> Inbox:
    """Calls of all runs that wait for a yes or a no."""
    found: list[Waiting] = []
    before = ""
    while True:
        page = await desk.engine.list(Query(states=LIVE, parent="", before=before, limit=10 * PAGE))
        for status in page.runs:
            if status.approvals:
                try:
                    found += (await desk.pending.of(status)).waiting(status)
                except UnknownRun:
                    continue
        if not page.more or not page.runs:
            break
        before = page.runs[-1].run
    found.sort(key=lambda one: one.expires)
    return Inbox(tuple(found[:ENTRIES]), max(len(found) - ENTRIES, 0))


@post(
    "/v1/approvals/{approval:str}",
    opt={"right": "approve"},
    tags=["approvals"],
    responses={
        200: ResponseSpec(Answered, description="The run has taken it."),
        202: ResponseSpec(Sent, description="It is durable; the run has not taken it yet."),
        409: ResponseSpec(None, description="It is decided already, or was for other arguments."),
    },
)
async def decide(
    request: Request[Any, Any, Any],
    desk: TheDesk,
    approval: Annotated[str, PathParameter(max_length=200)],
    data: JSONBody[Decision],
    wait: Annotated[float, QueryParameter(ge=0, le=60, description="Seconds to wait for the run.")] = 10.0,
) -> Response[Answered | Sent]:
    """Say yes or no to one call, once."""
    command: AnyCommand
    if data.decision == "deny":
        command = Deny(approval=approval, reason=data.reason)
    elif len(data.arguments_hash) != 64:
        raise Problem(400, "arguments_hash: a yes names the SHA-256 of the arguments that it is for", "invalid")
    else:
        command = Approve(approval=approval, arguments_hash=data.arguments_hash, scope=data.scope, pattern=data.pattern)
    reply = await sent(request, desk, data.run, command, wait)
    if isinstance(reply.content, Answered) and not reply.content.taken:
        raise Problem(409, reply.content.why or "it is decided already", "refused")
    return reply


ROUTES = (inbox, decide)
