"""The section of the system prompt that states the rules of a run. It never changes within one, so that a provider's
cache of the prompt stays warm."""

from __future__ import annotations

PLAIN_FORM = "plain text, the result first; then what is not done and what you are not sure of"
"""How an answer should look where nothing else is asked for."""


def section(form: str = PLAIN_FORM, tools: bool = True) -> str:
    """The rules. ``form``: of the answer, in words; ``tools``: whether there are any."""
    method = "try a new method or give your best answer now" if tools else "give your best answer now"
    rules = [
        "Serve the goal: every step has to bring the user's task nearer to its end.",
        f"After three similar thoughts without progress, {method}.",
    ]
    if tools:
        rules.append("Do not make an equal call again: its result will be the same until something has changed.")
    rules += [
        f"The answer: {form}.",
        "Messages that begin with [watchkeeper] come from the program that looks after this run, not from the user.",
    ]
    return "\n".join(("Rules of this run:", *(f"- {rule}" for rule in rules)))
