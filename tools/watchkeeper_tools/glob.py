"""Patterns for paths."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from watchkeeper import ToolError


class Glob:
    """A pattern for paths below a directory, matched name by name in time linear in both.

    ``*``, ``?`` and ``[…]`` stay within a name and ``**`` stands for any number of names. A pattern without ``/``
    is looked for at any depth. Raises :class:`ToolError` for a pattern that cannot match a path inside.
    """

    def __init__(self, pattern: str) -> None:
        if pattern.startswith("/"):
            raise ToolError("the pattern is absolute", hint="give it relative to path, such as 'src/**/*.py'")
        names = [name for name in pattern.split("/") if name not in ("", ".")]
        if not names or ".." in names or len(pattern) > 500:
            raise ToolError("the pattern names no file inside", hint="such as '*.py' or 'src/**/test_*.py'")
        if len(names) == 1:
            names.insert(0, "**")
        if names[-1] == "**":
            names.append("*")
        self._steps = [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]

    def matches(self, parts: Iterable[str]) -> bool:
        """True if the whole path matches."""
        return len(self._steps) in self._reach(parts)

    def may_match_below(self, parts: Iterable[str]) -> bool:
        """True if something in the directory with this path may match."""
        return any(state < len(self._steps) for state in self._reach(parts))

    def _reach(self, parts: Iterable[str]) -> set[int]:
        states = self._skip({0})
        for part in parts:
            states = self._skip({follow for state in states for follow in self._step(state, part)})
        return states

    def _step(self, state: int, part: str) -> tuple[int, ...]:
        if state == len(self._steps):
            return ()
        step = self._steps[state]
        if step is None:
            return (state,)
        return (state + 1,) if step.match(part) else ()

    def _skip(self, states: set[int]) -> set[int]:
        """``**`` may stand for no name at all."""
        for state in sorted(states):
            while state < len(self._steps) and self._steps[state] is None:
                state += 1
                states.add(state)
        return states
