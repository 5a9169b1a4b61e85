"""A guard that somebody else wrote, held at arm's length: what is broken must not let things pass, nor break a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ConfigurationError
from ..messages import Event
from ..wording import Wording
from .guard import Ask, CallGuard, Decision, Proposal, Refuse
from .limited import TimeLimit


class Guarded:
    """Passes everything on to the guard. Once one of its folds has raised it knows no longer what has happened: its
    folds are left out from then on, and every call is refused in its name.

    ``limit``: what it may take for one call. Raises :class:`ConfigurationError` for one that would have to be awaited.
    """

    def __init__(self, guard: CallGuard, limit: TimeLimit, wording: Wording) -> None:
        if inspect.iscoroutinefunction(guard.call):
            raise ConfigurationError(
                f"the guard {guard.name} is async, and guards are asked without waiting; make its call a plain function"
            )
        self._ask = limit.hold(guard.name, guard.call, self._stated)
        self._then = limit.then
        self._wording = wording
        self.name = guard.name
        self.broken: str | None = None
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {
            kind: self._held(fold) for kind, fold in guard.folds.items()
        }

    def call(self, proposal: Proposal) -> Decision | None:
        if self.broken is not None:
            raise RuntimeError(self.broken)
        return self._ask(proposal)

    def _stated(self, proposal: Proposal) -> Decision | None:
        if self._then == "allow":
            return None
        if self._then == "ask":
            return Ask(f"the guard {self.name} takes too long")
        return Refuse(self._wording.overran(proposal.tool.name, self.name).text, "guard_overran", "denied")

    def _held(self, fold: Callable[[Any], None]) -> Callable[[Any], None]:
        def held(event: Event) -> None:
            if self.broken is None:
                try:
                    fold(event)
                except Exception as error:
                    self.broken = f"it failed at {type(event).__name__}: {type(error).__name__}: {error}"

        return held
