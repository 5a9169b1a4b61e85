"""Folds over the facts of runs, read only as far as they are asked for and kept for the next time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import anyio

from ..engine import Engine, RunStatus
from ..log import Gap
from ..messages import Event
from .facts import watched


class Fold(Protocol):
    def observe(self, event: Event) -> None: ...


F = TypeVar("F", bound=Fold)


class Read(Generic[F]):
    """One run's fold, and the number of the last fact that it has seen."""

    __slots__ = ("fold", "lock", "n")

    def __init__(self, fold: F) -> None:
        self.fold = fold
        self.n = 0
        self.lock = anyio.Lock()


class Reading(Generic[F]):
    """Of the ``keep`` runs that were asked for last; what is thrown away is read again when it is wanted."""

    def __init__(self, engine: Engine, new: Callable[[], F], keep: int) -> None:
        self._engine = engine
        self._new = new
        self._keep = keep
        self._kept: OrderedDict[str, Read[F]] = OrderedDict()

    async def of(self, status: RunStatus) -> F:
        """The fold with all facts up to ``status.n``, at least. Raises what ``Engine.watch`` raises.

        On cancellation what was read so far is kept.
        """
        read = self._kept.setdefault(status.run, Read(self._new()))
        self._kept.move_to_end(status.run)
        while len(self._kept) > self._keep:
            self._kept.popitem(last=False)
        async with read.lock:
            if read.n < status.n:
                async with watched(self._engine, status.run, read.n) as facts:
                    async for fact in facts:
                        if isinstance(fact, Gap):
                            read.n = fact.last
                        else:
                            read.fold.observe(fact)
                            read.n = fact.n
                        if read.n >= status.n:
                            break
        return read.fold
