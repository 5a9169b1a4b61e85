"""A run as the command line knows it: how it stands, and by which engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ..engine import Engine, RunStatus

SERVICE, FOREGROUND = "service", "foreground"


class Source(NamedTuple):
    """An engine, and what its runs are executed by."""

    where: str
    """``service``, ``foreground``, or the address of a service elsewhere."""
    engine: Engine
    alive: bool = True
    """False: the process that executed its runs has died."""


class Listed(NamedTuple):
    status: RunStatus
    source: Source

    @property
    def run(self) -> str:
        return self.status.run

    @property
    def root(self) -> str:
        """The run at the top of its tree, which takes commands for all of it."""
        return self.status.root or self.status.run

    @property
    def ended(self) -> bool:
        return self.status.state == "ended"

    @property
    def died(self) -> bool:
        """It has no end, and nobody will bring it to one."""
        return not self.ended and not self.source.alive

    @property
    def state(self) -> str:
        """Its state in one word: that of its outcome, once there is one."""
        outcome = self.status.outcome
        if self.ended and outcome is not None:
            return outcome.status
        return "died" if self.died else self.status.state

    async def again(self) -> Listed:
        """As it stands now. Raises :class:`.EngineError`."""
        return Listed(await self.source.engine.get(self.run), self.source)

    def plain(self) -> dict[str, Any]:
        """For JSON: the fields of :class:`.RunStatus`, ``where`` it is, and ``died`` if it has."""
        found: dict[str, Any] = {"run": self.run, "state": self.status.state, **msgspec.to_builtins(self.status)}
        found["where"] = self.source.where
        return found | ({"died": True} if self.died else {})
