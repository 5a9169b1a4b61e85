"""What the routes work with: the engine, what is read of it for several of them, and who asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler

from ..engine import Answered, Engine, EngineError, RunStatus
from ..journal.checks import LONGEST_NAME, check_name
from .access import NOBODY, Principal, Right
from .board import Board
from .control import Control
from .inbox import Pending
from .problems import Problem
from .reading import Reading
from .sessions import Sessions
from .streams import Streams
from .timeline import Course
from .tokens import Keyring

TIMELINES, INBOXES = 64, 2_048
"""Runs whose timelines, and whose open approvals, are kept between requests."""
LONGEST_KEY = 400
"""Characters of an idempotency key."""

Exposition = Callable[[Engine], tuple[str, bytes]]
"""The body of ``/metrics``: its content type and itself."""


class Desk:
    """One for each service."""

    def __init__(
        self,
        engine: Engine,
        *,
        control: Control | None,
        keyring: Keyring,
        sessions: Sessions,
        streams: Streams,
        clock: Callable[[], float],
        page: Path | None,
        exposition: Exposition | None,
    ) -> None:
        self.engine = engine
        self.control = control
        self.keyring = keyring
        self.sessions = sessions
        self.streams = streams
        self.clock = clock
        """UTC, seconds since the epoch."""
        self.page = page
        self.exposition = exposition
        self.board = Board(engine)
        self.courses = Reading(engine, Course, TIMELINES)
        self.pending = Reading(engine, Pending, INBOXES)

    async def status(self, run: str) -> RunStatus:
        """Raises :class:`.UnknownRun`."""
        return await self.engine.get(run)

    async def answered(self, run: str, command: str, seconds: float) -> Answered | None:
        """What became of a command; None if nobody has taken it after so many seconds, or the service closes."""
        with self.streams.until_closing(seconds):
            return await self.engine.answered(run, command)
        return None


TheDesk = NamedDependency[Desk]
"""As a route has it."""


def desk_of(request: Request[Any, Any, Any]) -> Desk:
    """As the gate has put it into the scope."""
    return cast("dict[str, Any]", request.scope)["desk"]  # type: ignore[no-any-return]  # what our middleware has put there


def asking(request: Request[Any, Any, Any]) -> Principal:
    """Who asks, as the gate has found."""
    return cast("dict[str, Any]", request.scope)["principal"]  # type: ignore[no-any-return]  # what our middleware has put there


def author(request: Request[Any, Any, Any], said: str = "") -> str:
    """The name under which it is done: the token's. On the Unix socket there is none, and what is said counts: in the
    body, or percent-encoded in the header ``Watchkeeper-By``."""
    found = asking(request)
    if found.how != "socket":
        return found.name
    return (said or unquote(request.headers.get("watchkeeper-by", ""), errors="replace"))[:LONGEST_NAME]


async def rights(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """The guard of all routes: each names in ``opt`` the scope that it needs; one that names none needs ``admin``.

    It waits for nothing: the framework would give a plain function a thread.
    """
    right: Right | None = handler.opt.get("right", "admin")
    found: Principal = cast("dict[str, Any]", connection.scope).get("principal", NOBODY)
    if right is not None and not found.may(right):
        raise Problem(403, f"that needs the scope {right}; {found.name or 'this caller'} has {_listed(found)}", "scope")


def _listed(found: Principal) -> str:
    return ", ".join(sorted(found.scopes)) or "none"


def key_of(request: Request[Any, Any, Any]) -> str:
    """The id that the header ``Idempotency-Key`` makes for a run or a command; empty without it.

    A key, percent-decoded, that could be an id is the id; of any other it is made by a digest.
    """
    key = unquote(request.headers.get("idempotency-key", "").strip(), errors="replace")
    if len(key) > LONGEST_KEY:
        raise Problem(400, f"an Idempotency-Key has at most {LONGEST_KEY} characters", "invalid")
    if not key:
        return ""
    try:
        return check_name("a key", key)
    except EngineError:
        pass
    return f"k-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}"
