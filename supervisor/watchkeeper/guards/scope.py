"""Data scopes: what the calls of a run may read and write at all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from ..messages import Event
from ..planner import split
from ..wording import Wording
from .guard import Proposal, Refuse


class Scope(msgspec.Struct, frozen=True):
    """Names of resources, as effects name them; what is under one is in it, and what may be written may be read.

    None: no limit of that kind; empty: nothing.
    """

    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None


class Scoped:
    """Denies calls whose effect goes beyond a scope; one that declares none writes everything, and so goes beyond any.

    It rests on what tools declare of themselves, which is the host's word and never the model's. ``scopes``: that of
    the run and those above it; each must hold.
    """

    name = "scope"

    def __init__(self, scopes: Collection[Scope], wording: Wording) -> None:
        self._limits = [
            (
                None if scope.reads is None else _names((*scope.reads, *(scope.writes or ()))),
                None if scope.writes is None else _names(scope.writes),
            )
            for scope in scopes
        ]
        self._wording = wording
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def call(self, proposal: Proposal) -> Refuse | None:
        effect = proposal.effect
        for reads, writes in self._limits:
            for verb, allowed, names in (("read", reads, effect.reads), ("write", writes, effect.writes)):
                beyond = None if allowed is None else next((name for name in names if not _in(name, allowed)), None)
                if beyond is not None:
                    told = self._wording.out_of_scope(proposal.tool.name, verb, beyond or "everything")
                    return Refuse(told.text, "out_of_scope", "denied")
        return None


def _names(names: Collection[str]) -> list[tuple[str, ...]]:
    return [split(name) for name in names]


def _in(name: str, allowed: list[tuple[str, ...]]) -> bool:
    parts = split(name)
    return ".." not in parts and any(parts[: len(one)] == one for one in allowed)
