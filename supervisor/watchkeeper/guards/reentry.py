"""Tools that reach themselves again, by way of the sub-agents that they start."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..messages import Event
from ..tools import Tool
from ..wording import Wording
from .guard import Proposal, Refuse

DEEPEST = 3
"""The time at which it is refused that a tool or an agent reaches itself: once is delegation, a third time a spiral."""


class Reentry:
    """Refuses a call of a tool within a call of it within a call of it. ``above``: the tools of the calls within which
    the run was started, outermost first."""

    name = "reentry"

    def __init__(self, above: Collection[Tool], wording: Wording) -> None:
        self._above = tuple(map(_identity, above))
        self._wording = wording
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def call(self, proposal: Proposal) -> Refuse | None:
        if self._above.count(_identity(proposal.tool)) + 1 < DEEPEST:
            return None
        return Refuse(self._wording.reached_itself(proposal.tool.name, DEEPEST).text, "reached_itself")


def _identity(tool: Tool) -> tuple[str, object]:
    """Another tool of the same name is another one; one that is made anew for each run is not."""
    return tool.name, getattr(tool.function, "__code__", tool.function)
