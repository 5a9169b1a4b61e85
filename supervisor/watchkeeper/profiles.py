"""Profiles: settings of every guard as data, chosen by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from .context.limits import ContextLimits
from .errors import ConfigurationError
from .guards.rate import Rate
from .guards.rule import Rule, Ruling
from .guards.scope import Scope
from .ladder import GuardMode
from .thresholds import Steps, Thresholds

DIMENSIONS = ("turns", "calls", "tokens", "input_tokens", "output_tokens", "money")
"""What a budget of ours is kept in, beside time and ``calls:NAME`` for a tool."""
LEAST = {
    **{"max_turns": 1, "finish_turns": 0, "parallel": 1, "reply_tokens": 1, "pushbacks": 0, "reasks": 0},
    "approval": 0,
}
OPTIONAL_LIMITS = (
    *("max_calls", "seconds", "working_seconds", "tokens", "input_tokens", "output_tokens", "money"),
    "reasoning_tokens",
)

COUNTED = ("max_turns", "max_calls", "calls_per_tool", "tokens", "input_tokens", "output_tokens", "money")
"""Fields of :class:`Limits` that a budget holds (:meth:`Limits.amounts`)."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run and its sub-agents, with the default of each. None means: no limit of its own in that dimension.

    By default turns, calls, tokens and time are limited, so that no run is without an end.
    """

    max_turns: int = 20
    finish_turns: int = 3
    """Turns after ``max_turns`` in which tools are off: one for the answer and one for each push-back."""
    max_calls: int | None = 1000
    """Calls that run, of all tools."""
    calls_per_tool: dict[str, int] = {}
    """Calls of single tools, by name: ``{"search": 5}``. What goes beyond is not run, and the run goes on."""
    seconds: float | None = 1800.0
    """Wall-clock time without pauses: 30 minutes."""
    working_seconds: float | None = None
    """The same without waits for the model's provider (rate limits, breaker, back-off), its own and those of sub-agents
    that its calls wait for."""
    tokens: int | None = 2_000_000
    """Tokens of all requests and replies together."""
    input_tokens: int | None = None
    """Tokens of the requests, cached ones included."""
    output_tokens: int | None = None
    """Tokens of the replies, with what was thought in them."""
    money: float | None = None
    """What requests and calls cost, in the currency of the prices: US dollars, as a rule."""
    unpriced: Literal["refuse", "allow"] = "refuse"
    """Where money is limited, here or above, and the price of the model is not known: ``refuse`` ends the run before
    its first request (reason ``unpriced``); ``allow`` lets it and its sub-agents go on, and the limit holds for what is
    known."""
    reply_tokens: int = 4096
    """Tokens of one turn's reply (``max_completion_tokens`` or ``max_tokens`` of the request); cut to what the budget
    has left."""
    reasoning_tokens: int | None = None
    """Of these, how many may be thinking. Servers that know such a limit are told; thinking that streams on far beyond
    it is cut off and sent back once."""
    pushbacks: int = 2
    """How often an answer is sent back, for evidence, before the run ends."""
    reasks: int = 2
    """How often an answer is sent back in all for its form, for what validators, answer guards and the verifier say of
    it, and for its citations."""
    empty_replies: int = 2
    """Empty replies in a row that are asked again."""
    grace: float = 5.0
    """Seconds after a cancel at which the outcome is published, whatever is still at work."""
    pause: float = 3600.0
    """Seconds after which a paused run is stopped."""
    approval: float = 600.0
    """Seconds that a call waits for its approval; then silence is a no."""
    parallel: int = 16
    """Calls of a run that run side by side."""

    def amounts(self) -> dict[str, float | None]:
        """The limits that a budget holds, by its dimensions; time is the run's own."""
        return {
            "turns": self.max_turns,
            "calls": self.max_calls,
            "tokens": self.tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "money": self.money,
            **{f"calls:{tool}": limit for tool, limit in self.calls_per_tool.items()},
        }


def shared_amounts(given: Mapping[str, Any]) -> dict[str, float]:
    """What a budget holds that runs share, by dimension. ``given``: fields of :class:`Limits`, of those that are
    ``COUNTED``; what is not among them, or is None, has no limit there."""
    nothing: dict[str, Any] = {"max_turns": None, "max_calls": None, "tokens": None}
    amounts = msgspec.structs.replace(Limits(), **{**nothing, **given}).amounts()
    return {name: amount for name, amount in amounts.items() if amount is not None}


def limits_with(given: Mapping[str, Any], limits: Limits | None = None) -> Limits:
    """Limits of which some fields are given otherwise. Raises :class:`ConfigurationError` for what are none, and for
    those that cannot work; which they are does not depend on the others."""
    limits = limits or Limits()
    fields: dict[str, Any] = {name: getattr(limits, name) for name in limits.__struct_fields__}
    unknown = given.keys() - fields.keys()
    if unknown:
        raise ConfigurationError(
            f"there are no limits named {', '.join(sorted(unknown))}; they are {', '.join(fields)}"
        )
    try:
        found = msgspec.convert({**fields, **given}, Limits)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"the limits of the run cannot be read: {error}") from error
    check_limits(found)
    return found


def check_limits(limits: Limits) -> None:
    """Raises :class:`ConfigurationError` for limits that cannot work."""
    for name, least in LEAST.items():
        if getattr(limits, name) < least:
            raise ConfigurationError(f"limits: {name} must be at least {least}, not {getattr(limits, name)}")
    if not limits.approval < math.inf:
        raise ConfigurationError(f"limits: approval must be seconds, for a wait needs an end; not {limits.approval}")
    given = {name: getattr(limits, name) for name in OPTIONAL_LIMITS}
    given |= {f"calls_per_tool[{tool!r}]": limit for tool, limit in limits.calls_per_tool.items()}
    for name, value in given.items():
        if value is not None and not value >= 0:
            raise ConfigurationError(f"limits: {name} must be 0 or more, or None for no limit; not {value}")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How each guard is set. Make one of your own with ``msgspec.structs.replace(PROFILES["default"], …)``."""

    name: str = "default"
    limits: Limits = Limits()
    thresholds: Thresholds = Thresholds()
    mode: GuardMode = "enforce"
    """How far the ladder goes: note what it sees, say a word to the model, or block and stop too. A run may be started
    in another one."""
    scope: Scope = Scope()
    """What calls may read and write at all, by the names of resources that their effects declare; of a sub-agent also
    what those above it may."""
    observe: tuple[str, ...] = ()
    """Guards that let pass and note what they would have done (``WouldRefuse``), by name: ``policy``, ``block``,
    ``scope``, ``reentry``, ``checks``, ``equal``, ``rate``, ``duplicate``, ``side_effects``, ``judge``, or for answers
    ``evidence``, ``form``, ``citations``, ``validators``, ``verifier``, or one of a third party."""
    attended: bool = False
    """A person is there: where the ladder would stop the run it is paused for them, for at most ``limits.pause``. A run
    may be started otherwise. Sub-agents are never attended unless they are started so: their end is a result for their
    parent, which goes on."""
    refuse_equal: int | None = None
    """Refuse the n-th proposal of an equal call, of any tool; None: never by count alone."""
    show_earlier: bool = True
    """Such a refusal shows the earlier result."""
    writers_alone: bool = False
    """A writing call runs alone, whatever it writes."""
    interval: float | None = None
    """Least seconds between two calls of one tool. Up to a second is waited, more is refused."""
    rates: dict[str, Rate] = {}
    """Rates of tools, by name or by a glob of names; those not named are held to ``interval``."""
    deny: tuple[str, ...] = ()
    """Tools that never run, by name; ``dangerous`` stands for all that are declared so."""
    rules: tuple[Rule, ...] = ()
    """What else the policy says of tools and their arguments. The strongest that fits a call counts: deny, then ask,
    then allow."""
    judged: tuple[str, ...] = ()
    """Tools whose calls the agent's judge sees, by name, beside those that are declared so."""
    otherwise: Ruling = "allow"
    """What becomes of calls that no rule speaks of. That a tool is handed to an agent is its permission, unless this
    says otherwise."""
    guard_seconds: float = 1.0
    """What a policy function or a third party's guard may take for one call. One that takes longer is asked no more in
    this run (``GuardOverran``), and ..."""
    on_overrun: Ruling = "deny"
    """... this is its answer from then on. What it said late still counts for that call."""
    mark_output: bool = True
    """Above each output of a tool the model reads that it is data and no instruction."""
    context: ContextLimits = ContextLimits()
    """When the model reads less of a long conversation, and how far that goes."""
    remind_at: float = 0.7
    """Share of a budget at which the model is reminded."""
    finish_at: float = 0.9
    """Share of a budget at which tools go off and the answer is asked for; 1.0: a plain stop at the limit."""
    on_stop: Literal["stop", "hand_over"] = "stop"
    """What becomes of a run that a limit, the watchdog or a pause without an end stops: it is ``stopped``, or with the
    same reason ``handed_over`` to a person, who can continue it. At its limit of calls such a run has no finish window:
    it is handed over when a call goes beyond. Sub-agents are always stopped: their end is a result for their parent."""
    on_limit: Literal["stop", "hand_over"] | None = None
    """An earlier name of ``on_stop``, which takes its value."""
    goal_rules: bool = True
    """The system prompt ends with a short section that states the rules of a run."""
    status_line: bool = True
    """Each request ends with one line: which turn it is, what is left of each budget, what is missing."""
    restate_goal: int | None = 5
    """Every so many turns the goal is said again before that line; 1: in each; None: never."""
    drift: int | None = 3
    """Turns in a row without a word of the goal or the current step, in thoughts and calls, at which the model is told
    the goal; None: never."""
    thought_alert: int | None = 2
    """Near-equal thoughts before calls, in a row, at which the model is told; None: not at all."""
    thought_force: int | None = 3
    """Such thoughts at which the calls of that reply are not run and the model has to decide; one more stops the run
    (reason ``stagnation``). None: never."""

    def __post_init__(self) -> None:
        if self.on_limit is not None:
            msgspec.structs.force_setattr(self, "on_stop", self.on_limit)
            msgspec.structs.force_setattr(self, "on_limit", None)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(),
        Profile(
            name="loopagent",
            refuse_equal=2,
            writers_alone=True,
            limits=Limits(finish_turns=3, pushbacks=2),
            thresholds=Thresholds(failing=Steps(None, None, 3), failing_in_any_way=True),
        ),
        Profile(
            name="demo",
            limits=Limits(max_turns=10, finish_turns=0),
            finish_at=1.0,
            thresholds=Thresholds(equal=Steps(6, None, 9), breaker=11, window=30),
        ),
        Profile(
            name="production",
            thresholds=Thresholds(equal=Steps(11, None, 21), breaker=31, window=31),
        ),
        Profile(
            name="safe-loop",
            limits=Limits(max_turns=15),
            interval=5.0,
            deny=("run_command", "delete_file"),
            remind_at=0.7,
        ),
        Profile(
            name="safe-runner",
            limits=Limits(max_calls=5),
            refuse_equal=3,
            show_earlier=False,
            on_stop="hand_over",
        ),
    )
}


def profile_named(profile: str | Profile) -> Profile:
    """The profile itself or the one of that name. Raises :class:`ConfigurationError` for a name that is not there."""
    if isinstance(profile, Profile):
        return profile
    found = PROFILES.get(profile)
    if found is None:
        raise ConfigurationError(f"there is no profile {profile!r}; the profiles are {', '.join(sorted(PROFILES))}")
    return found
