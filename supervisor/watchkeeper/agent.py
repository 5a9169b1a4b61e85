"""An agent as data: the model, the tools, the instructions and what an answer must rest on."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .current import current_call
from .errors import ConfigurationError, SpawnRefused
from .goal.guide import Guide
from .guards.policy import PolicyFunction
from .guards.rule import Compiled, Rule, check
from .host import is_async
from .memory.store import Store
from .model import Model
from .profiles import Limits, Profile, check_limits, profile_named
from .retry import RetryPolicy
from .tools import NOTHING, Tool, ToolOutput

if TYPE_CHECKING:
    from .answers.form import Form
    from .answers.validators import Validator
    from .opinions.second import Judge, Verifier
    from .plan.settings import Planning

UNNAMED = "agent"
"""What an agent is called that was given no name."""
FORCED = "(This answer was given because a limit was near; not all of the work may be done.)"
"""Stands behind a sub-agent's forced answer, which is not to be taken for a whole one."""
UNVERIFIED = "(Nothing bears out these statements of it:)"
"""Stands behind a sub-agent's answer with what of it is not verified."""


class Agent:
    """What a run is started with; it holds no state and may be started any number of times, side by side.

    - ``required``: names of tools that must all have succeeded, and found something, before an answer counts;
      ``required_any``: one of these must have. ``fresh``: those of them that must have run after the last write.
    - ``profile``: a name or a :class:`Profile`; ``limits`` replaces the profile's limits.
    - ``guide``: what it is told of its goal and how it is seen that it loses it, as far as that is code.
    - ``answer_type``: what an answer must be, a type that msgspec converts (a struct, ``list[int]``, …) or a JSON
      schema as a dict; its value is ``Outcome.value``. ``validators``: functions that say what is wrong, or None.
      ``cite``: it must name the calls that it rests on; what is not borne out is marked (``Outcome.unverified``).
      ``verifier``: a model that looks at it last. ``docs/answers.md`` has all of it.
    - ``judge``: a model or rule that sees calls before they are admitted.
    - ``policy``: a function that allows, denies or asks, call by call, beside the profile's rules; deny wins.
    - ``plan``: True, or :class:`Planning`: the work is planned and done step by step, each with limits of its own.
    - ``memory``: a long-term store, such as ``SQLiteStore("notes.db")``. With one the agent has the tools ``recall``
      and ``remember``, and what is noted there and may matter is shown to the model by itself.
    - ``tool_choice``: ``auto``, ``required`` (until the first call), or a tool's name.

    Raises :class:`ConfigurationError` if two tools have one name, or a required tool is not there or is denied,
    for rules that cannot work, for an ``answer_type`` that cannot be checked, and for a tool that is to be judged where
    there is no judge.
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Tool] = (),
        *,
        name: str = UNNAMED,
        instructions: str = "",
        required: Iterable[str] = (),
        required_any: Iterable[str] = (),
        fresh: Iterable[str] = (),
        profile: str | Profile = "default",
        limits: Limits | None = None,
        answer_type: Any = None,
        validators: Iterable[Validator] = (),
        cite: bool = False,
        verifier: Verifier | None = None,
        judge: Judge | None = None,
        policy: PolicyFunction | None = None,
        guide: Guide = Guide(),  # noqa: B008 (frozen)
        plan: bool | Planning = False,
        memory: Store | None = None,
        tool_choice: str = "auto",
        parallel: bool = True,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 (frozen)
    ) -> None:
        self.model = model
        self.memory = memory
        self.tools: Mapping[str, Tool] = _by_name(tools if memory is None else (*tools, *_tools_of(memory)))
        self.name = name
        self.instructions = instructions
        self.required = tuple(required)
        self.required_any = tuple(required_any)
        self.fresh = tuple(fresh)
        self.profile = profile_named(profile)
        self.limits = limits or self.profile.limits
        self.form = _form(answer_type)
        self.validators = tuple(validators)
        self.cite = cite
        self.verifier = verifier
        self.judge = judge
        self.policy = policy
        self.guide = guide
        self.tool_choice = tool_choice
        self.parallel = parallel
        self.retry = retry
        check_limits(self.limits)
        _check_policy(name, policy, self.profile.guard_seconds)
        _check_counts(self.profile)
        self.plan: Planning | None = None
        if plan is not False:
            from .plan.settings import planning

            self.plan = planning(plan, self.limits.max_turns)
        check(self.profile.rules, self.tools.values())
        if tool_choice not in ("auto", "none", "required") and tool_choice not in self.tools:
            raise ConfigurationError(
                f"agent {name!r}: tool_choice names {tool_choice!r}, which is not one of its tools"
            )
        for validator in self.validators:
            if not callable(validator):
                raise ConfigurationError(f"agent {name!r}: a validator is a function, not {validator!r}")
        self._check_judged()
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

    def _check_judged(self) -> None:
        judged = [tool.name for tool in self.tools.values() if tool.judged or tool.name in self.profile.judged]
        if judged and self.judge is None:
            raise ConfigurationError(
                f"agent {self.name!r}: {', '.join(judged)} is to be judged, by its declaration or the profile "
                f"{self.profile.name!r}, and there is no judge; give one with judge=, or drop the mark"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """What its models say is secret."""
        models = [self.model, *(one.model for one in (self.verifier, self.judge) if one is not None)]
        return tuple(secret for model in models for secret in getattr(model, "secrets", ()))

    @property
    def examined(self) -> bool:
        """Its answers are looked at beyond the evidence that they must rest on."""
        return self.form is not None or bool(self.validators) or self.cite or self.verifier is not None

    def within(self, limits: Limits) -> Agent:
        """The same agent under other limits. Raises :class:`ConfigurationError` for limits that cannot work."""
        check_limits(limits)
        other = copy.copy(self)
        other.limits = limits
        return other

    def named(self, name: str) -> Agent:
        """The same agent, of that name if it was given none."""
        if self.name != UNNAMED:
            return self
        other = copy.copy(self)
        other.name = name
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
                if self.form is not None and outcome.value is not None:
                    text = self.form.encoded(outcome.value)
                if outcome.unverified:
                    listed = "".join(f"\n- {one.claim} ({one.why})" for one in outcome.unverified)
                    text = f"{text}\n\n{UNVERIFIED}{listed}"
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


def _tools_of(memory: Store) -> list[Tool]:
    for method in ("add", "search"):
        if not callable(getattr(memory, method, None)):
            raise ConfigurationError(
                f"memory: {memory!r} has no method {method}; give a store with add and search, such as SQLiteStore()"
            )
    from .memory.tools import tools

    return tools()


def _form(answer_type: Any) -> Form | None:
    if answer_type is None:
        return None
    from .answers.form import Form

    return Form(answer_type)


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


def _check_policy(agent: str, policy: PolicyFunction | None, seconds: float) -> None:
    if is_async(policy):
        raise ConfigurationError(
            f"agent {agent!r}: its policy is async, and policies are asked without waiting; make it a plain function"
        )
    if not seconds > 0:
        raise ConfigurationError(f"agent {agent!r}: guard_seconds of its profile must be more than 0, not {seconds:g}")


def _check_counts(profile: Profile) -> None:
    least = {"restate_goal": 1, "drift": 1, "thought_alert": 2, "thought_force": 2}
    for name, count in least.items():
        value = getattr(profile, name)
        if value is not None and not value >= count:
            raise ConfigurationError(
                f"profile {profile.name!r}: {name} must be at least {count}, or None for never; not {value}"
            )
    alert, force = profile.thought_alert, profile.thought_force
    if alert is not None and force is not None and force < alert:
        raise ConfigurationError(
            f"profile {profile.name!r}: thought_force ({force}) must not come before thought_alert ({alert})"
        )
