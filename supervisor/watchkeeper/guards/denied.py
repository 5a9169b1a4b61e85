"""Tools that a profile denies."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..messages import Event
from ..wording import Wording
from .guard import Proposal, Refuse


class Denied:
    """Denies tools by name; ``dangerous`` stands for all that are declared so."""

    name = "policy"

    def __init__(self, names: Collection[str], wording: Wording) -> None:
        self._names = frozenset(names)
        self._wording = wording
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def call(self, proposal: Proposal) -> Refuse | None:
        tool = proposal.tool
        if tool.name in self._names or (tool.dangerous and "dangerous" in self._names):
            return Refuse(self._wording.denied(tool.name).text, "denied", "denied")
        return None
