"""A guard that somebody else wrote, held at arm's length: what is broken must not let things pass, nor break a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..messages import Event
from .guard import CallGuard, Decision, Proposal


class Guarded:
    """Passes everything on to the guard. Once one of its folds has raised it knows no longer what has happened: its
    folds are left out from then on, and every call is refused in its name."""

    def __init__(self, guard: CallGuard) -> None:
        self._guard = guard
        self.name = guard.name
        self.broken: str | None = None
        self.folds: Mapping[type[Event], Callable[[Any], None]] = {
            kind: self._held(fold) for kind, fold in guard.folds.items()
        }

    def call(self, proposal: Proposal) -> Decision | None:
        if self.broken is not None:
            raise RuntimeError(self.broken)
        return self._guard.call(proposal)

    def _held(self, fold: Callable[[Any], None]) -> Callable[[Any], None]:
        def held(event: Event) -> None:
            if self.broken is None:
                try:
                    fold(event)
                except Exception as error:
                    self.broken = f"it failed at {type(event).__name__}: {type(error).__name__}: {error}"

        return held
