"""What the routes work with: the engine, what is read of it for several of them, and who asks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from ..engine import Answered, Engine, RunStatus
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
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

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
        if not ID.fullmatch(run):
            raise Problem(404, f"there is no run {run[:64]!r}: an id has letters, digits and . _ -", "unknown-run")
        return await self.engine.get(run)

    async def answered(self, run: str, command: str, seconds: float) -> Answered | None:
        """What became of a command; None if nobody has taken it after so many seconds, or the service closes."""
        with self.streams.until_closing(seconds):
            return await self.engine.answered(run, command)
        return None


def asking(request: Request[Any, Any, Any]) -> Principal:
    """Who asks, as the gate has found."""
    return cast(dict[str, Any], request.scope).get("principal", NOBODY)  # type: ignore[no-any-return]


def author(request: Request[Any, Any, Any], said: str = "") -> str:
    """The name under which it is done: the token's. On the Unix socket there is none, and what is said counts."""
    found = asking(request)
    return said if found.how == "socket" else found.name


def rights(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """The guard of all routes: each names in ``opt`` the scope that it needs; one that names none needs ``admin``."""
    right: Right | None = handler.opt.get("right", "admin")
    found: Principal = cast(dict[str, Any], connection.scope).get("principal", NOBODY)
    if right is not None and not found.may(right):
        raise Problem(
            403, f"that needs the scope {right}; {found.name or 'this caller'} has {_listed(found)}", "scope"
        )


def _listed(found: Principal) -> str:
    return ", ".join(sorted(found.scopes)) or "none"


def key_of(request: Request[Any, Any, Any]) -> str:
    """The id that the header ``Idempotency-Key`` makes for a run or a command; empty without it.

    A key that could be an id is the id; of any other, up to 256 characters, it is made by a digest.
    """
    key = request.headers.get("idempotency-key", "").strip()
    if len(key) > 256:
        raise Problem(400, "an Idempotency-Key has at most 256 characters")
    if not key or ID.fullmatch(key):
        return key
    return f"k-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}"
