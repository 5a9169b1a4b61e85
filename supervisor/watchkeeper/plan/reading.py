"""From what a model wrote to a plan: JSON in whatever wrapping, or else a list. Pure, bounded, never raises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..history import MARK
from ..jsontext import NotJSON, decode_first
from ..messages import PlanStep

READ = 20_000
"""Characters of a reply that are read."""
GOAL = 300
"""Characters of a goal, of what it is done by and of the question that are kept."""
TRIED = 12
"""Places of a reply at which JSON is looked for."""
EXAMPLE = (
    '{"question": "what is asked, in one sentence", '
    '"steps": [{"goal": "what to do in this step", "done_when": "how you see that it is done"}]}'
)
"""The form of a plan, as the model is shown it. Who sends it back has made no plan."""

_NO_GOALS = frozenset({"what to do in this step", "how you see that it is done", "goal", "step"})
_QUESTION = ("question", "understanding", "task", "goal")
_STEPS = ("steps", "plan", "tasks", "todo", "subtasks", "actions")
_GOAL = ("goal", "step", "task", "title", "name", "action", "description", "what", "instruction", "text")
_DONE = ("done_when", "done when", "done", "success", "criteria", "criterion", "expected", "result", "outcome")
_NUMBER = re.compile(r"[\s*#>_(]{0,12}(?:step\s{1,3})?\d{1,3}\s{0,3}[.):\-]{1,3}[*_]{0,3}\s+", re.IGNORECASE)
_NUMBERED = re.compile(
    r"[ \t>#*_]*(?:step[ \t]+\d{1,3}[ \t]*[.):\-]*|\(?\d{1,3}[ \t]*[.):])[*_]*[ \t]+(\S.*)", re.IGNORECASE
)
_BULLET = re.compile(r"[ \t>]*[-*•+][ \t]+(\S.*)")
_DONE_WHEN = re.compile(r"\bdone[ _]when\b[*_]{0,3}\s{0,3}[:=]?[*_]{0,3}", re.IGNORECASE)
_BEFORE_DONE = " \t;,.(–—-*_"


class Draft(msgspec.Struct, frozen=True):
    """A plan as a model gave it: ``steps`` is empty only if it said so itself."""

    steps: tuple[PlanStep, ...]
    question: str = ""


class Unread(msgspec.Struct, frozen=True):
    """Why a reply is no plan, in words for the model."""

    problem: str


def read_plan(text: str) -> Draft | Unread:
    """The plan in a reply. JSON goes before a list; steps that come twice are one, and the example is none."""
    text = text[:READ]
    written = False
    loose: list[Any] = []
    for value in _values(text):
        found = _draft(value)
        if found is not None:
            if found.steps or _says_nothing(value):
                return found
            written = True
        elif isinstance(value, dict):
            loose.append(value)
    if apart := _steps(map(_written, loose)):
        return Draft(apart)
    listed = _steps(_listed(text))
    if len(listed) > 1:
        return Draft(listed)
    if written:
        return Unread("its steps have no goal in words of your own")
    if not text.strip():
        return Unread("it was empty")
    if "{" in text or "[" in text:
        return Unread("its JSON could not be read, or has no list of steps")
    return Unread("there is neither JSON nor a numbered list in it")


def within(steps: tuple[PlanStep, ...], most: int) -> tuple[PlanStep, ...]:
    """At most so many steps: those beyond are done together with the last."""
    if len(steps) <= most:
        return steps
    if most < 1:
        return ()
    rest = steps[most - 1 :]
    goal = _line("; then ".join(step.goal for step in rest))
    return (*steps[: most - 1], PlanStep(goal, rest[-1].done_when))


def _values(text: str) -> Iterator[Any]:
    """The JSON values in a text: the whole of it, or what begins with a bracket somewhere."""
    end = 0
    places = [match.start() for match in re.finditer(r"[{\[]", text)]
    for place in [*(p for p in places if text[p] == "{"), *(p for p in places if text[p] == "[")][:TRIED]:
        if place < end and text[place] == "{":
            continue
        try:
            value, length = decode_first(text[place:])
        except NotJSON:
            continue
        end = place + length
        yield value


def _draft(value: Any) -> Draft | None:
    """A JSON value as a plan, under any of the names in use; None if it is none at all."""
    question = ""
    for _ in range(3):
        if not isinstance(value, dict):
            break
        question = question or next((_line(value[key]) for key in _QUESTION if isinstance(value.get(key), str)), "")
        inner = next((value[key] for key in _STEPS if isinstance(value.get(key), (list, dict))), None)
        if inner is None:
            break
        value = inner
    if isinstance(value, dict):
        numbered = [key for key in value if re.fullmatch(r"(?:step[ _]?)?\d{1,3}", str(key), re.IGNORECASE)]
        if not numbered:
            return None
        value = [value[key] for key in numbered]
    if not isinstance(value, list):
        return None
    return Draft(_steps(_written(entry) for entry in value), question)


def _says_nothing(value: Any) -> bool:
    """A plan without steps, plainly."""
    return isinstance(value, dict) and any(value.get(key) == [] for key in _STEPS)


def _written(entry: Any) -> PlanStep:
    if isinstance(entry, str):
        return _split(entry)
    if not isinstance(entry, dict):
        return PlanStep("")
    goal = next((entry[key] for key in _GOAL if isinstance(entry.get(key), str)), "")
    done = next((entry[key] for key in _DONE if isinstance(entry.get(key), str)), "")
    step = _split(goal)
    return PlanStep(step.goal, _line(done)) if done else step


def _split(text: str) -> PlanStep:
    """A goal without its number, and what it is done by where that stands in the same line."""
    line = " ".join(text[: 4 * GOAL].split())
    number = _NUMBER.match(line)
    goal, *rest = _DONE_WHEN.split(line[number.end() :] if number else line, maxsplit=1)
    return PlanStep(_line(goal.rstrip(_BEFORE_DONE)), _line(rest[0].rstrip(")"))) if rest else PlanStep(_line(goal))


def _listed(text: str) -> list[PlanStep]:
    """The lines of a list, numbered or not; a line that says when a step is done belongs to it."""
    lines = text.splitlines()
    marker = _NUMBERED if any(_NUMBERED.match(line) for line in lines) else _BULLET
    found: list[PlanStep] = []
    for line in lines:
        plain = line.strip(" \t-*•+>")
        done = _DONE_WHEN.match(plain)
        entry = marker.match(line)
        if done is not None and found:
            found[-1] = PlanStep(found[-1].goal, _line(plain[done.end() :]))
        elif entry is not None:
            found.append(_split(entry[1]))
    return found


def _steps(found: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """Those that say something, each once."""
    kept: dict[str, PlanStep] = {}
    for step in found:
        if any(letter.isalnum() for letter in step.goal) and step.goal.casefold() not in _NO_GOALS:
            kept.setdefault(step.goal.casefold(), step)
    return tuple(kept.values())


def _line(text: str) -> str:
    """One bounded line that imitates no mark of ours."""
    line = " ".join(text[: 4 * GOAL].replace(MARK, MARK[1:-1]).split()).strip("*_` ")
    return line if len(line) <= GOAL else f"{line[: GOAL - 1]}…"
