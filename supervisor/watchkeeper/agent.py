"""An agent as data: the model, the tools, the instructions and what an answer must rest on."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from .current import current_call
from .errors import ConfigurationError, SpawnRefused
from .guards.policy import PolicyFunction
from .guards.rule import Compiled, Rule, check
from .model import Model
from .profiles import Limits, Profile, profile_named
from .retry import RetryPolicy
from .tools import NOTHING, Tool, ToolOutput

FORCED = "(This answer was given because a limit was near; not all of the work may be done.)"
"""Stands behind a sub-agent's forced answer, which is not to be taken for a whole one."""
OPTIONAL_LIMITS = ("max_calls", "seconds", "working_seconds", "tokens", "input_tokens", "output_tokens", "money")


class Agent:
    """What a run is started with; it holds no state and may be started any number of times, side by side.

    - ``required``: names of tools that must all have succeeded, and found something, before an answer counts;
      ``required_any``: one of these must have. ``fresh``: those of them that must have run after the last write.
    - ``profile``: a name or a :class:`Profile`; ``limits`` replaces the profile's limits.
    - ``policy``: a function that allows, denies or asks, call by call, beside the profile's rules; deny wins.
    - ``tool_choice``: ``auto``, ``required`` (until the first call), or a tool's name.

    Raises :class:`ConfigurationError` if two tools have one name, or a required tool is not there or is denied,
    and for rules that cannot work.
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Tool] = (),
        *,
        name: str = "agent",
        instructions: str = "",
        required: Iterable[str] = (),
        required_any: Iterable[str] = (),
        fresh: Iterable[str] = (),
        profile: str | Profile = "default",
        limits: Limits | None = None,
        policy: PolicyFunction | None = None,
        tool_choice: str = "auto",
        parallel: bool = True,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008
    ) -> None:
        self.model = model
        self.tools: Mapping[str, Tool] = _by_name(tools)
        self.name = name
        self.instructions = instructions
        self.required = tuple(required)
        self.required_any = tuple(required_any)
        self.fresh = tuple(fresh)
        self.profile = profile_named(profile)
        self.limits = limits or self.profile.limits
        self.policy = policy
        self.tool_choice = tool_choice
        self.parallel = parallel
        self.retry = retry
        _check_limits(self.limits)
        check(self.profile.rules, self.tools.values())
        if tool_choice not in ("auto", "none", "required") and tool_choice not in self.tools:
            raise ConfigurationError(
                f"agent {name!r}: tool_choice names {tool_choice!r}, which is not one of its tools"
            )
        for wanted in (*self.required, *self.required_any, *self.fresh):
            self._check_required(wanted)

    def _check_required(self, wanted: str) -> None:
        tool = self.tools.get(wanted)
        if tool is None:
            raise ConfigurationError(
                f"agent {self.name!r}: the required tool {wanted!r} is not among its tools "
                f"({', '.join(self.tools) or 'none'}); add it to tools=, or drop the requirement"
            )
        rules = (*(Rule("deny", name) for name in self.profile.deny), *self.profile.rules)
        if any(
            rule.decision == "deny" and not (rule.when or rule.unless) and Compiled(rule).speaks_of(tool)
            for rule in rules
        ):
            raise ConfigurationError(
                f"agent {self.name!r}: the required tool {wanted!r} is denied by the profile {self.profile.name!r}; "
                "no answer could ever count"
            )

    def within(self, limits: Limits) -> Agent:
        """The same agent under other limits. Raises :class:`ConfigurationError` for limits that cannot work."""
        _check_limits(limits)
        other = copy.copy(self)
        other.limits = limits
        return other

    def is_like(self, other: Agent) -> bool:
        """The same agent, or one that was made anew with the same name, instructions and tools."""
        if self is other:
            return True
        mine, theirs = ((one.name, one.instructions, tuple(one.tools)) for one in (self, other))
        return mine == theirs

    def as_tool(self, *, name: str | None = None, description: str | None = None, timeout: float | None = None) -> Tool:
        """This agent as a tool of another: each call is a run of its own, under the caller's limits and cancel.

        The call itself touches nothing; what the sub-agent's own tools touch is kept apart across the run tree. Its
        deadline is that of the sub-agent's limits unless ``timeout`` (seconds) is given.
        """

        async def delegate(task: str) -> ToolOutput:
            here = current_call()
            try:
                run = await here.run.supervisor.start(self, task, parent=here.run)
            except SpawnRefused as refusal:
                return ToolOutput(f"No sub-agent was started: {refusal}", productive=False, error="spawn_refused")
            outcome = await run.wait_or_cancel()
            text = outcome.answer or outcome.partial or ""
            if outcome.status == "completed":
                return ToolOutput(f"{text}\n\n{FORCED}" if outcome.forced else text)
            return ToolOutput(
                f"The sub-agent ended without an answer ({outcome.status}: {outcome.reason}). {outcome.message}\n"
                f"What it had so far: {text or '(nothing)'}",
                productive=False,
                error=f"{outcome.status}_{outcome.reason}",
            )

        limit = self.limits.seconds
        return Tool(
            delegate,
            name=name or self.name,
            description=description or f"Give a task to the agent {self.name} and get its answer.",
            effect=NOTHING,
            timeout=timeout or (limit + self.limits.grace if limit else None),
        )

    def __repr__(self) -> str:
        return f"<Agent {self.name} with {len(self.tools)} tools>"


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise ConfigurationError(f"{tool!r} is not a tool: make one of it with @tool")
        if tool.name in found:
            first = found[tool.name].function
            raise ConfigurationError(
                f"two tools are named {tool.name!r}: {first.__module__}.{first.__qualname__} and "
                f"{tool.function.__module__}.{tool.function.__qualname__}; give one another with @tool(name=…)"
            )
        found[tool.name] = tool
    return found


def _check_limits(limits: Limits) -> None:
    for name, least in (("max_turns", 1), ("finish_turns", 0), ("parallel", 1), ("reply_tokens", 1), ("pushbacks", 0)):
        if getattr(limits, name) < least:
            raise ConfigurationError(f"limits: {name} must be at least {least}, not {getattr(limits, name)}")
    given = {name: getattr(limits, name) for name in OPTIONAL_LIMITS}
    given |= {f"calls_per_tool[{tool!r}]": limit for tool, limit in limits.calls_per_tool.items()}
    for name, value in given.items():
        if value is not None and not value >= 0:
            raise ConfigurationError(f"limits: {name} must be 0 or more, or None for no limit; not {value}")
