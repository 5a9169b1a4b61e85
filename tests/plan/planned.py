"""What the tests of planned runs share: a plan as a model writes it, and models that carry one out."""

from __future__ import annotations

import json
from collections.abc import Callable

from watchkeeper.model import Request
from watchkeeper.testing import Step, call, say

FRUIT = ("apple", "pear", "plum", "cherry", "fig")


def plan(*goals: str, **more: object) -> Step:
    return say(json.dumps({"question": "what is asked", "steps": [{"goal": goal} for goal in goals], **more}))


def prompt(request: Request) -> str:
    """The last word of ours to the model."""
    return next(message.content for message in reversed(request.messages) if message.mark == "watchkeeper")


def asks_for(request: Request) -> str:
    """What the model is at, going by that word."""
    told = prompt(request)
    for words, what in (
        ("make a plan", "plan"),
        ("Your plan could not", "plan"),
        ("did not reach its goal", "change"),
        ("The steps of the plan are over", "sum"),
        ("This is the last turn of step", "last"),
        ("Step ", "step"),
    ):
        if words in told:
            return what
    return "other"


def diligent(*goals: str, calls: int = 1) -> Callable[[Request, int], Step]:
    """Plans, makes so many calls in each step, then says what it found; sums up at the end."""
    state = {"called": 0, "step": 0}

    def script(request: Request, n: int) -> Step:
        what = asks_for(request)
        if what == "plan":
            return plan(*goals)
        if what == "sum":
            return say("That is the whole answer.")
        if what != "last" and state["called"] < calls:
            state["called"] += 1
            return call(("look", {"what": f"thing {n}"}))
        state["called"], state["step"] = 0, state["step"] + 1
        return say(f"Step number {state['step']} found the {FRUIT[state['step'] % len(FRUIT)]}.")

    return script


def restless(*goals: str) -> Callable[[Request, int], Step]:
    """Plans, and then never stops looking at new things."""

    def script(request: Request, n: int) -> Step:
        return plan(*goals) if asks_for(request) == "plan" else call(("look", {"what": f"thing {n}"}))

    return script
