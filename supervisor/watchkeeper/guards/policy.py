"""The policy: what may run, what may not, and what a person is to be asked about."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..errors import ConfigurationError
from ..messages import Event
from ..tools import Tool
from ..wording import Wording
from .guard import Ask, Proposal, Refuse
from .rule import RULINGS, Compiled, Rule, Ruling

PolicyFunction = Callable[[Tool, Mapping[str, Any]], Ruling | tuple[Ruling, str] | None]
"""A policy in code: tool and arguments in, a ruling out, with the reason that the model is told if it likes; None: it
has nothing to say. The arguments are a copy. One that raises, or answers something else, refuses the call."""

_STRENGTH = {ruling: strength for strength, ruling in enumerate(("allow", "ask", "deny"))}


class Policy:
    """Rules as data and as a function. Of all that speak of a call the strongest counts: deny, then ask, then allow;
    what none speaks of is ``otherwise``. A tool that is declared ``irreversible`` always asks.

    It is made for a run before the model says a word and changes no more: nothing that a model or a tool says reaches
    it. ``deny``: names, as a short form of rules.
    """

    name = "policy"

    def __init__(
        self,
        wording: Wording,
        *,
        deny: Collection[str] = (),
        rules: Collection[Rule] = (),
        otherwise: Ruling = "allow",
        function: PolicyFunction | None = None,
    ) -> None:
        if otherwise not in RULINGS:
            raise ConfigurationError(f"otherwise must be one of {', '.join(RULINGS)}, not {otherwise!r}")
        self._wording = wording
        self._rules = tuple(map(Compiled, (*(Rule("deny", name) for name in deny), *rules)))
        self._otherwise = otherwise
        self._function = function
        self._of: dict[str, tuple[Compiled, ...]] = {}
        """The rules that speak of a tool, by its name."""
        self.folds: dict[type[Event], Callable[[Any], None]] = {}

    def says_anything(self, tools: Iterable[Tool]) -> bool:
        """Whether any call of these tools could come to anything but: allowed."""
        if self._function is not None or self._otherwise != "allow":
            return True
        return any(tool.irreversible or self._speaking_of(tool) for tool in tools)

    def _speaking_of(self, tool: Tool) -> tuple[Compiled, ...]:
        return tuple(one for one in self._rules if one.speaks_of(tool))

    def call(self, proposal: Proposal) -> Refuse | Ask | None:
        tool = proposal.tool
        rules = self._of.get(tool.name)
        if rules is None:
            rules = self._of[tool.name] = self._speaking_of(tool)
        ruling, why, whole = self._ruling(rules, proposal)
        if ruling == "deny":
            return Refuse(self._wording.denied(tool.name, why, whole).text, "denied", "denied")
        if tool.irreversible and ruling != "ask":
            return Ask("it cannot be undone")
        return Ask(why) if ruling == "ask" else None

    def _ruling(self, rules: tuple[Compiled, ...], proposal: Proposal) -> tuple[Ruling, str, bool]:
        """The strongest ruling, its reason, and whether it is of the whole tool, whatever the arguments."""
        found: tuple[Ruling, str, bool] | None = None
        for one in rules:
            rule = one.rule
            stronger = found is None or _STRENGTH[rule.decision] > _STRENGTH[found[0]]
            if stronger and one.fits(proposal.values):
                found = (rule.decision, rule.why, not one.arguments)
        if self._function is not None:
            said = self._function(proposal.tool, copy.deepcopy(proposal.values))
            if said is not None:
                ruling, why = (said, "") if isinstance(said, str) else said
                strength = _STRENGTH[ruling]  # nonsense raises here, and so refuses the call
                if found is None or strength > _STRENGTH[found[0]]:
                    found = (ruling, why, False)
        return found or (self._otherwise, "", False)
