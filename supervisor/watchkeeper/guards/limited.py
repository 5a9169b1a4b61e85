"""The time limit of rules that somebody else wrote: one that takes too long is asked no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .rule import Ruling

T = TypeVar("T")


class TimeLimit:
    """A plain function cannot be interrupted, and the loop stands still while it runs. So its time is measured: what it
    says late still counts, and from the next call on its answer is ``then`` for the rest of the run.

    ``seconds`` by ``clock``; ``note`` takes the fields of a ``GuardOverran``.
    """

    def __init__(self, seconds: float, then: Ruling, clock: Callable[[], float], note: Callable[..., object]) -> None:
        self.seconds = seconds
        self.then = then
        self._clock = clock
        self._note = note

    def hold(self, by: str, rule: Callable[..., T], stated: Callable[..., T]) -> Callable[..., T]:
        """The rule under this limit. ``stated`` is asked in its place, with the same arguments, once it overran."""
        overran = False

        def held(*given: Any) -> T:
            nonlocal overran
            if overran:
                return stated(*given)
            began = self._clock()
            try:
                return rule(*given)
            finally:
                took = self._clock() - began
                if took > self.seconds:
                    overran = True
                    self._note(by=by, seconds=took, limit=self.seconds, then=self.then)

        return held
