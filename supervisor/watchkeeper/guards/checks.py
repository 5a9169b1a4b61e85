"""Checks of arguments beyond the schema, which a tool declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..messages import Event
from ..wording import Wording
from .guard import Proposal, Refuse


class Checks:
    """Refuses calls whose arguments do not pass the checks of their tool; the model is told all problems at once.

    They are asked with the arguments as the tool would get them. A check that raises refuses the call.
    """

    name = "checks"

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def call(self, proposal: Proposal) -> Refuse | None:
        checks = proposal.tool.checks
        if not checks:
            return None
        problems = [
            f"{name}: {problem}"
            for name, asked in checks.items()
            for check in asked
            if (problem := check(proposal.values[name])) is not None
        ]
        if not problems:
            return None
        return Refuse(self._wording.check_failed(proposal.tool.name, problems).text, "check_failed")
