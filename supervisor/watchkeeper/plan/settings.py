"""How an agent plans: the settings of the outer loop, as data."""

from __future__ import annotations

import math

import msgspec

from ..errors import ConfigurationError

LEAST_TURNS = 2
"""Turns that a step needs to be of use: one for a call, and one to say what came of it."""
AROUND = 2
"""Turns of a planned run beside those of its steps: the plan itself, and the summing up."""


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a plan, for ``Agent(plan=…)``. Nothing in a plan raises a limit: each step is held to its own and to
    what the run has left.

    Raises :class:`ConfigurationError` for what cannot work.
    """

    steps: int = 12
    """The most steps that a plan may have, those included that are added later."""
    growth: float = 0.5
    """How many steps may be added to the first plan while it is carried out, as a share of its number of steps, rounded
    down; 0: it is never changed."""
    step_turns: int = 8
    """Turns of one step. It gets fewer where the run's limit of turns, shared out evenly over the steps that are left,
    allows fewer: the turns of a planned run are the sum of those of its steps, under its limit of turns."""
    step_seconds: float | None = None
    """Wall-clock time of one step, without pauses; looked at between its turns."""
    step_limits: dict[str, float] = {}
    """Further limits of one step, by dimension of the budget: ``{"calls": 20, "tokens": 50_000}``."""
    reasks: int = 2
    """How often an unusable plan is asked for again; then the run goes on without one."""
    finding: int = 800
    """Characters of a step's finding that are shown to the steps after it."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("step_turns", 1), ("reasks", 0), ("finding", 1)):
            if not getattr(self, name) >= least:
                raise ConfigurationError(f"plan: {name} must be at least {least}, not {getattr(self, name)}")
        if not 0 <= self.growth < math.inf:
            raise ConfigurationError(f"plan: growth must be 0 or more, not {self.growth}")
        if self.step_seconds is not None and not self.step_seconds > 0:
            raise ConfigurationError(
                f"plan: step_seconds must be more than 0, or None for no limit; not {self.step_seconds}"
            )
        for dimension, amount in self.step_limits.items():
            if dimension == "turns":
                raise ConfigurationError("plan: the turns of a step are limited by step_turns, not in step_limits")
            if not amount >= 0:
                raise ConfigurationError(f"plan: step_limits[{dimension!r}] must be 0 or more, not {amount}")


def planning(plan: bool | Planning, max_turns: int) -> Planning | None:
    """The settings that ``Agent(plan=…)`` stands for; None: without a plan.

    Raises :class:`ConfigurationError` if a run with so many turns has no room for a plan.
    """
    if plan is False:
        return None
    if not isinstance(plan, (bool, Planning)):
        raise ConfigurationError(f"plan must be True, False or Planning(…), not {plan!r}")
    if max_turns < AROUND + LEAST_TURNS:
        raise ConfigurationError(
            f"plan: with max_turns={max_turns} there is no room for a plan; it takes {AROUND + LEAST_TURNS} turns or "
            "more (the plan, a step of two, the summing up): raise max_turns, or leave plan out"
        )
    return Planning() if plan is True else plan
