"""The evidence gate: an answer counts only if it rests on calls that succeeded and found something."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..messages import CallAdmitted, CallEnded, CallStarted, ChildEnded, ChildStarted, Event


class Missing:
    """What an answer still lacks."""

    __slots__ = ("any_of", "required", "stale")

    def __init__(self, required: list[str], any_of: tuple[str, ...], stale: list[str]) -> None:
        self.required = required
        self.any_of = any_of
        self.stale = stale

    def __bool__(self) -> bool:
        return bool(self.required or self.any_of or self.stale)


NOTHING_MISSING = Missing([], (), [])


class Evidence:
    """Which tools have found something, as a fold over the log.

    ``required``: all of these must have; ``required_any``: at least one of these; ``fresh``: of those these must have
    done so after the last writing call of another tool started, and after the last sub-agent, whose calls are not seen
    here. An answer from memory is as good as a new one: nothing that conflicts with it has started since.
    """

    def __init__(
        self, required: Collection[str] = (), required_any: Collection[str] = (), fresh: Collection[str] = ()
    ) -> None:
        self.required = tuple(required)
        self.required_any = tuple(required_any)
        self.fresh = tuple(fresh)
        self.calls: list[str] = []
        """Ids of the productive calls, oldest first."""
        self._found: dict[str, int] = {}
        self._writing: dict[str, str] = {}
        self._last_write = 0

    @property
    def folds(self) -> dict[type[Event], Callable[[Any], None]]:
        if not self.fresh:
            return {CallEnded: self._ended}
        return {
            CallEnded: self._ended,
            CallAdmitted: self._admitted,
            CallStarted: self._started,
            ChildStarted: self._child,
            ChildEnded: self._child,
        }

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        self._writing.pop(result.call_id, None)
        if result.productive:
            self.calls.append(result.call_id)
            self._found[result.tool] = event.n

    def _admitted(self, event: CallAdmitted) -> None:
        if event.writes:
            self._writing[event.call_id] = event.tool

    def _started(self, event: CallStarted) -> None:
        tool = self._writing.pop(event.call_id, None)
        if tool is not None and tool not in self.fresh:
            self._last_write = event.n

    def _child(self, event: ChildStarted | ChildEnded) -> None:
        self._last_write = event.n

    def standing(self) -> tuple[frozenset[str], frozenset[str]]:
        """The tools that have found something, and those of them that would have to do so anew (``fresh``)."""
        found = frozenset(self._found)
        return found, frozenset(name for name in self.fresh if self._found.get(name, math.inf) < self._last_write)

    def take_over(self, calls: Iterable[str], found: Mapping[str, bool]) -> None:
        """Begin with what an earlier run of the same work has found; false: before its last change."""
        self.calls[:0] = calls
        self._found |= {name: 0 if is_fresh else -1 for name, is_fresh in found.items()}

    def missing(self) -> Missing:
        if not (self.required or self.required_any or self.fresh):
            return NOTHING_MISSING
        found = self._found
        stale = {name for name in self.fresh if name in found and found[name] < self._last_write}
        required = [name for name in self.required if name not in found]
        any_of: tuple[str, ...] = ()
        if any(name in found and name not in stale for name in self.required_any):
            stale -= set(self.required_any) - set(self.required)  # another one of them will do
        elif not any(name in stale for name in self.required_any):
            any_of = self.required_any
        return Missing(required, any_of, sorted(stale))
