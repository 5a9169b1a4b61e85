"""Which rules hold for each configured agent, read without loading any agent: the control process tells them.

What the configuration says of an agent's rules is data: a profile, or a policy with its changes, and limits above it.
Nothing secret is in it by intent, and what looks like a secret is cut out all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..cli.exits import CommandError
from ..cli.policy import policy_of, read_table
from ..configuration import AgentSettings, Configuration
from ..errors import ConfigurationError
from ..profiles import Profile, profile_named
from ..redaction import Redaction
from ..thresholds import Thresholds

Source = Literal["profile", "policy", "file"]


class AgentRules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the runs of an agent, as long as a run's own limits do not say otherwise."""

    agent: str
    source: Source
    """Where it comes from: a profile by its name, ``[policy]`` of the configuration, or a policy file."""
    profile: str
    """The profile, or the one that the policy changes."""
    tools: tuple[str, ...] = ()
    """Tool sets that it has."""
    require: tuple[str, ...] = ()
    """Tools that must have found something before an answer counts."""
    settings: dict[str, Any] = {}
    """Every setting of its guards: the fields of a profile, with its limits."""
    detectors: dict[str, Any] = {}
    """What the policy says of installed detectors of third parties, by name."""
    problem: str = ""
    """Why its rules cannot be told; then there are no settings."""


def rulebook(configuration: Configuration, environ: Mapping[str, str]) -> tuple[AgentRules, ...]:
    """The rules of all configured agents, by name. Reads policy files; loads no tools, detectors or models."""
    redaction = Redaction(environment=environ)
    agents = sorted(configuration.agents.items())
    return tuple(_redacted(_rules(configuration, name, said), redaction) for name, said in agents)


def settings_of(profile: Profile) -> dict[str, Any]:
    """A profile as plain data."""
    found: dict[str, Any] = msgspec.to_builtins(profile, enc_hook=str)
    return found


def _redacted(rules: AgentRules, redaction: Redaction) -> AgentRules:
    said = {name: redaction.anything(getattr(rules, name)) for name in rules.__struct_fields__}
    return msgspec.structs.replace(rules, **said)


def _rules(configuration: Configuration, name: str, said: AgentSettings) -> AgentRules:
    source, path = _source(configuration, said)
    found = AgentRules(agent=name, source=source, profile=said.profile, tools=said.tools, require=said.require)
    detectors: dict[str, Any] = {}
    try:
        if source == "profile":
            profile = profile_named(said.profile)
        else:
            table = read_table(Path(path)) if source == "file" else configuration.policy
            found = msgspec.structs.replace(found, profile=str(table.get("base", "default")))
            detectors = _theirs(table)
            called = Path(path).stem if source == "file" else "policy"
            profile = policy_of(table, called, dict.fromkeys(detectors)).profile
        limits = msgspec.structs.replace(profile.limits, **(configuration.limits | said.limits))
    except (CommandError, ConfigurationError, ValueError, TypeError):
        told = f"the rules of {name} cannot be read; watchkeeper config check says what is wrong, and where"
        return msgspec.structs.replace(found, problem=told)
    settings = settings_of(msgspec.structs.replace(profile, limits=limits))
    return msgspec.structs.replace(found, settings=settings, detectors=detectors)


def _source(configuration: Configuration, said: AgentSettings) -> tuple[Source, str]:
    """As :func:`.configuration.agents.agent_of` chooses it."""
    if said.policy:
        return "file", said.policy
    if said.profile:
        return "profile", ""
    path = configuration.policy.get("file")
    return ("policy", "") if path is None else ("file", str(path))


def _theirs(table: Mapping[str, Any]) -> dict[str, Any]:
    """Thresholds that are not ours: those of detectors that workers have and this process does not load."""
    said = table.get("thresholds")
    ours = Thresholds.__struct_fields__
    return {name: value for name, value in said.items() if name not in ours} if isinstance(said, dict) else {}
