"""What the control process says of itself and of its workers; the API asks it, and nothing here runs an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from .rulebook import AgentRules

Standing = Literal["starting", "running", "blocked", "silent", "draining", "stopping", "waiting", "stopped", "failed"]
"""How a worker stands. ``blocked``: its event loop does not answer; ``silent``: not even the thread that watches the
loop does; ``waiting``: it has died and is started again soon; ``failed``: it died too often."""


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pid: int | None
    state: Standing
    runs: int
    """Runs that it executes, as it last said."""
    since: float
    """When it came into this state; UTC, seconds since the epoch."""
    restarts: int
    stack: str
    """Where it stood when it was last found in trouble, until it works again; else empty."""


class Check(msgspec.Struct, frozen=True):
    name: str
    ok: bool
    detail: str = ""


class Report(msgspec.Struct, frozen=True):
    """Whether something is well, and what that rests on."""

    ok: bool
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, *checks: Check) -> Report:
        return cls(all(check.ok for check in checks), checks)


class Control(Protocol):
    """The control process, as the API sees it."""

    @property
    def admitting(self) -> bool:
        """Whether runs may be submitted; false once it drains."""
        ...

    def workers(self) -> Sequence[WorkerStatus]: ...

    def rules(self) -> Sequence[AgentRules]:
        """Which rules hold for each configured agent, for runs that begin from now on."""
        ...

    async def stack(self, worker: str) -> str:
        """Where a worker stands right now: its threads and, if it can still say so, its tasks. Raises ``KeyError``."""
        ...

    async def live(self) -> Report:
        """Whether the control process does its work; if not, it is to be started again."""
        ...

    async def ready(self) -> Report:
        """Whether a run that is submitted now would be executed."""
        ...
