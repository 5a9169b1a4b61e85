"""The evidence gate: an answer counts only if it rests on calls that succeeded and found something."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..messages import CallAdmitted, CallEnded, CallStarted, Event


class Missing:
    """What an answer still lacks."""

    __slots__ = ("any_of", "required", "stale")

    def __init__(self, required: list[str], any_of: tuple[str, ...], stale: list[str]) -> None:
        self.required = required
        self.any_of = any_of
        self.stale = stale

    def __bool__(self) -> bool:
        return bool(self.required or self.any_of or self.stale)


class Evidence:
    """Which tools have found something, as a fold over the log.

    ``required``: all of these must have; ``required_any``: at least one of these; ``fresh``: of the required ones
    these must have done so after the last writing call of another tool started.
    """

    def __init__(
        self, required: Collection[str] = (), required_any: Collection[str] = (), fresh: Collection[str] = ()
    ) -> None:
        self.required = tuple(required)
        self.required_any = tuple(required_any)
        self.fresh = frozenset(fresh)
        self.calls: list[str] = []
        """Ids of the productive calls, oldest first."""
        self._found: dict[str, int] = {}
        self._writing: dict[str, str] = {}
        self._last_write = 0
        self.folds: dict[type[Event], Callable[[Any], None]] = {CallEnded: self._ended}
        if self.fresh:
            self.folds |= {CallAdmitted: self._admitted, CallStarted: self._started}

    def _ended(self, event: CallEnded) -> None:
        result = event.result
        if not result.productive:
            return
        self.calls.append(result.call_id)
        if result.reused_from is None:
            self._found[result.tool] = event.n
        else:
            self._found.setdefault(result.tool, event.n)

    def _admitted(self, event: CallAdmitted) -> None:
        if event.writes:
            self._writing[event.call_id] = event.tool

    def _started(self, event: CallStarted) -> None:
        tool = self._writing.pop(event.call_id, None)
        if tool is not None and tool not in self.fresh:
            self._last_write = event.n

    def missing(self) -> Missing:
        found = self._found
        required = [name for name in self.required if name not in found]
        any_of = () if any(name in found for name in self.required_any) else self.required_any
        stale = [name for name in self.fresh if name in found and found[name] < self._last_write]
        return Missing(required, any_of, stale)
