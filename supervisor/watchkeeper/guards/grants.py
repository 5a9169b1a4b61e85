"""What a person has permitted beyond one call: which calls of a tool, for a run or for an agent's later runs. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from ..errors import ApprovalError, ConfigurationError
from ..outputs import text as text_of
from ..tools import Tool
from .rule import Compiled, Pattern, Rule

KEPT = 256
"""Grants that are kept for an agent; the oldest go first."""
EXACT = "These are equal arguments, which no pattern of a rule can say"


class Grant(msgspec.Struct, frozen=True):
    """Calls of ``tool`` that need no further yes: those with equal arguments, or those that fit a pattern."""

    approval: str
    """The approval that it was given with."""
    tool: str
    by: str
    asked: frozenset[tuple[str, str]]
    """The guards that asked, each with its reason: it covers nothing that another one asks about, or for another
    reason."""
    arguments_hash: str = ""
    """Of the arguments that it covers; empty where ``rule`` says which."""
    rule: Rule | None = None
    """The same as a rule of a policy, where it can be said in one."""
    fits: Compiled | None = None

    def covers(self, tool: str, values: Mapping[str, Any], arguments_hash: str) -> bool:
        if tool != self.tool:
            return False
        if self.fits is None:
            return arguments_hash == self.arguments_hash
        return self.fits.fits(values)


class Grants:
    """What was permitted always, by the name of the agent. A supervisor keeps it in memory, for its later runs."""

    def __init__(self) -> None:
        self._of: dict[str, list[Grant]] = {}

    def add(self, agent: str, grant: Grant) -> None:
        kept = self._of.setdefault(agent, [])
        kept.append(grant)
        del kept[:-KEPT]

    def of(self, agent: str) -> tuple[Grant, ...]:
        """Oldest first."""
        return tuple(self._of.get(agent, ()))

    def forget(self, agent: str) -> None:
        """Take back all that was permitted always for an agent of that name."""
        self._of.pop(agent, None)

    def rules(self, agent: str) -> tuple[Rule, ...]:
        """The same as rules for ``Profile.rules``, as far as it can be said in patterns."""
        return tuple(grant.rule for grant in self.of(agent) if grant.rule is not None)

    def toml(self, agent: str) -> str:
        """The same as ``[[rules]]`` of a policy file; what no pattern can say stands there as a remark."""
        return toml_of(self.of(agent))


def exact_rule(tool: Tool, values: Mapping[str, Any]) -> Rule | None:
    """A rule that allows calls with these very arguments and no others; None if no pattern can say them."""
    when: dict[str, Pattern] = {}
    for name, value in values.items():
        texts = [value] if not isinstance(value, list | tuple) else list(value)
        parts = tuple(text_of(one) for one in texts)
        if any("*" in part or "?" in part for part in parts) or isinstance(value, set | frozenset):
            return None
        when[name] = parts if isinstance(value, list | tuple) else parts[0]
    rule = Rule("allow", tool.name, when=(when,) if when else (), approved=True)
    return rule if Compiled(rule).fits(values) else None


def toml_of(grants: Iterable[Grant]) -> str:
    """Grants as tables of a policy file."""
    return "\n".join(map(_table, grants))


def _table(grant: Grant) -> str:
    rule = grant.rule
    if rule is None:
        return f"# always permitted: {grant.tool} with the arguments {grant.arguments_hash[:16]}…\n# {EXACT}.\n"
    lines = ["[[rules]]", 'decision = "allow"', "approved = true", f"tool = {_text(rule.tool)}"]
    for one in rule.when:
        said = ", ".join(f"{_text(name)} = {_pattern(pattern)}" for name, pattern in one.items())
        lines.append(f"when = {{ {said} }}")
    return "\n".join(lines) + "\n"


def _pattern(pattern: Pattern) -> str:
    return _text(pattern) if isinstance(pattern, str) else f"[{', '.join(map(_text, pattern))}]"


def _text(text: str) -> str:
    """A basic string of TOML: that of JSON, save for one character more to be escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def pattern_rule(tool: str, fields: Collection[str], values: Mapping[str, Any], pattern: object) -> Rule:
    """The rule that allows the calls of a tool which fit a pattern. Raises :class:`ApprovalError` if it cannot be read,
    names no arguments of the tool, or does not fit the call with these ``values``, which it is given for."""
    if not isinstance(pattern, Mapping):
        raise ApprovalError(f"a pattern names arguments, each with a glob; this is none: {pattern!r}", "pattern")
    unknown = [str(name) for name in pattern if name not in fields]
    if unknown:
        raise ApprovalError(
            f"the pattern names {', '.join(map(repr, unknown))}, which {tool} does not take; it takes "
            f"{', '.join(fields) or 'nothing'}",
            "pattern",
        )
    try:
        rule = Rule("allow", tool, when=(dict(pattern),) if pattern else (), approved=True)
        fits = Compiled(rule).fits(values)
    except ConfigurationError as error:
        raise ApprovalError(str(error), "pattern") from error
    if not fits:
        raise ApprovalError("the pattern does not fit the very call that it is given for", "pattern")
    return rule
