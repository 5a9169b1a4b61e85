"""The agents of a configuration, made ready to run: model, tools, policy and limits of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..agent import Agent
from ..cli.exits import CommandError
from ..cli.plugged import steps_declared, with_steps
from ..cli.policy import Policy, policy_of, read_policy
from ..detect.detector import Factory
from ..errors import ConfigurationError, ToolError
from ..model import Model, Timeouts
from ..models.openai import OpenAIModel
from ..plugins import load_detectors, load_tools
from ..price import Price
from ..profiles import profile_named
from ..tools import Tool
from .loading import ConfigurationProblems
from .schema import AgentSettings, Configuration

T = TypeVar("T")


def agents_of(configuration: Configuration, environ: Mapping[str, str]) -> dict[str, Agent]:
    """All agents of a configuration, by name. Reads policy files and loads tool sets; asks no server.

    Raises :class:`ConfigurationProblems` with all that is wrong with any of them.
    """
    agents: dict[str, Agent] = {}
    problems: list[str] = []
    for name in configuration.agents:
        try:
            agents[name] = agent_of(configuration, name, environ)
        except ConfigurationProblems as error:
            problems += error.problems
    for check in (prices_of, detectors_of):
        try:
            check(configuration)
        except ConfigurationProblems as error:
            problems += error.problems
    if problems:
        raise ConfigurationProblems(dict.fromkeys(problems))
    return agents


def agent_of(configuration: Configuration, name: str, environ: Mapping[str, str]) -> Agent:
    """The agent ``[agents.NAME]``. Raises :class:`ConfigurationProblems`."""
    said = configuration.agents.get(name)
    if said is None:
        known = ", ".join(sorted(configuration.agents)) or "none"
        raise ConfigurationProblems([f"there is no agent {name!r} in the configuration; its agents are {known}"])
    where = _Where(configuration, name)
    problems: list[str] = []
    policy = _tried(problems, lambda: _policy(configuration, said, where))
    tools = _tried(problems, lambda: _tools(said, where))
    model = _tried(problems, lambda: _model(said, where, environ))
    if policy is None or tools is None or model is None:
        raise ConfigurationProblems(problems)
    profile = policy.profile
    limits = msgspec.structs.replace(profile.limits, **(configuration.limits | said.limits))
    try:
        return Agent(
            model,
            tools,
            name=name,
            instructions=said.instructions,
            required=said.require,
            profile=profile,
            limits=limits,
            plan=said.plan,
        )
    except (ConfigurationError, ValueError) as error:
        raise where.wrong("", str(error)) from error


def prices_of(configuration: Configuration) -> dict[str, Price]:
    """The prices of models that its agents state, for ``Supervisor(prices=…)``. Raises :class:`ConfigurationProblems`
    for two of one model."""
    found: dict[str, Price] = {}
    for name, said in configuration.agents.items():
        if said.price is not None and found.setdefault(said.model, said.price) != said.price:
            told = f"another agent states another price of the model {said.model!r}; a model has one"
            raise _Where(configuration, name).wrong("price", told)
    return found


def detectors_of(configuration: Configuration) -> tuple[Factory, ...]:
    """The installed detectors of third parties with the steps that ``[policy]`` gives them, for
    ``Supervisor(detectors=…, plugged=False)``. Raises :class:`ConfigurationProblems`."""
    return with_steps(load_detectors(), _common(configuration).steps)


class _Where:
    """Says of what is wrong with an agent where that stands."""

    def __init__(self, configuration: Configuration, agent: str) -> None:
        self._origins = configuration.origins
        self._agent = f"agents.{agent}" if agent else ""

    def wrong(self, key: str, told: str) -> ConfigurationProblems:
        path = f"{self._agent}.{key}".strip(".")
        inside = (place for name, place in self._origins.items() if name.startswith(f"{self._agent or path}."))
        place = self._origins.get(path) or next(inside, "the defaults")
        return ConfigurationProblems([f"{place}: {path}: {told}"])


def _tried(problems: list[str], make: Callable[[], T]) -> T | None:
    """What is made, or None and what is wrong with it among the problems."""
    try:
        return make()
    except ConfigurationProblems as error:
        problems += error.problems
        return None


def _tools(said: AgentSettings, where: _Where) -> list[Tool]:
    try:
        return load_tools(*said.tools, root=Path(said.root), hosts=said.allow_hosts, allow_private=said.allow_private)
    except NotADirectoryError:
        raise where.wrong("root", f"{said.root} is not a folder; name one that exists") from None
    except OSError as error:
        raise where.wrong("root", f"{said.root}: {error.strerror or error}") from error
    except (ToolError, ConfigurationError) as error:
        raise where.wrong("tools", str(error)) from error
    except ValueError as error:
        raise where.wrong("allow_hosts", str(error)) from error


def _policy(configuration: Configuration, said: AgentSettings, where: _Where) -> Policy:
    if said.policy:
        policy = _read(said.policy, where, "policy")
        if policy.steps:
            named = ", ".join(policy.steps)
            told = f"thresholds of installed detectors ({named}) hold for all agents; say them in [policy]"
            raise where.wrong("policy", told)
        return policy
    if not said.profile:
        return _common(configuration)
    try:
        return Policy(profile=profile_named(said.profile))
    except ConfigurationError as error:
        raise where.wrong("profile", str(error)) from error


def _common(configuration: Configuration) -> Policy:
    """What ``[policy]`` says."""
    table: dict[str, Any] = configuration.policy
    outside = _Where(configuration, "")
    if "file" in table:
        return _read(table["file"], outside, "policy.file")
    try:
        return policy_of(table, "policy", steps_declared(load_detectors()))
    except (ConfigurationError, ValueError) as error:
        key = str(error).split(maxsplit=1)[0].rstrip(":").partition(".")[0].partition("[")[0]
        raise outside.wrong(f"policy.{key}", str(error)) from error


def _read(path: str, where: _Where, key: str) -> Policy:
    try:
        return read_policy(Path(path), steps_declared(load_detectors()))
    except (CommandError, ConfigurationError) as error:
        raise where.wrong(key, str(error).removeprefix("--policy ")) from error


def _model(said: AgentSettings, where: _Where, environ: Mapping[str, str]) -> Model:
    name = said.model or environ.get("OPENAI_MODEL", "")
    if not name:
        raise where.wrong("model", "no model: give its name, or set OPENAI_MODEL")
    key = environ.get(said.api_key_env, "")
    if not key and said.api_key_env != AgentSettings().api_key_env:
        raise where.wrong("api_key_env", f"the variable {said.api_key_env} is not set; it has to hold the key")
    timeouts = Timeouts()
    if said.first_chunk_timeout is not None:
        first = said.first_chunk_timeout
        timeouts = Timeouts(first_chunk=first, total=max(timeouts.total, 2 * first))
    try:
        model = OpenAIModel(
            name,
            base_url=said.base_url or environ.get("OPENAI_BASE_URL") or None,
            api_key=key or None,
            timeouts=timeouts,
            context_window=said.context_window,
            cached_tokens=said.cached_tokens,
        )
    except (ConfigurationError, ValueError) as error:
        raise where.wrong("base_url" if said.base_url else "", str(error)) from error
    if said.text_tools:
        from ..models.text import TextTools

        return TextTools(model)
    return model
