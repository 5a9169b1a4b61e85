"""What comes to an engine from outside, looked at before it is kept. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from ..engine import PAGE, AnyCommand, EngineError, Query, RunSpec
from ..messages import Event, mended

LONGEST_NAME = 200
"""Characters of an id or a name."""
MOST_LABELS = 64
LONGEST_LABEL = 256

T = TypeVar("T")


def check_name(what: str, name: object) -> str:
    """An id or a name: printable, without spaces and slashes, so that it can stand in a path and on a line."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise EngineError(f"{what} must be 1 to {LONGEST_NAME} printable characters, not {_shown(name)}")
    if not _sound(name) or any(character in " /\\" for character in name) or name in (".", ".."):
        raise EngineError(f"{what} may hold no spaces and no slashes: {_shown(name)}")
    return name


def check_spec(spec: RunSpec) -> None:
    if not spec.agent:
        raise EngineError("a run names its agent; RunSpec.agent is empty")
    if len(spec.labels) > MOST_LABELS:
        raise EngineError(f"a run has at most {MOST_LABELS} labels, not {len(spec.labels)}")
    for key, value in spec.labels.items():
        if not key or len(key) > LONGEST_LABEL or len(value) > LONGEST_LABEL:
            raise EngineError(f"a label and its value have up to {LONGEST_LABEL} characters: {_shown(key)}")


def limit_of(query: Query) -> int:
    """How many runs a page has."""
    if query.limit < 1:
        raise EngineError(f"a page has at least 1 run, not {query.limit}")
    return min(query.limit, PAGE * 10)


def fitting(query: Query, agent: str, labels: Mapping[str, str], state: str, parent: str, worker: str) -> bool:
    """Whether a run is one of those that are asked for, its place in the list aside."""
    if query.states and state not in query.states:
        return False
    if query.agent and agent != query.agent:
        return False
    if query.worker and worker != query.worker:
        return False
    if query.parent != "" and parent != (query.parent or ""):
        return False
    return all(labels.get(key) == value for key, value in query.labels.items())


def new_runs(events: Sequence[Event], known: Collection[str], root: str) -> list[str]:
    """Of a batch the runs that are not known yet. Raises :class:`EngineError` if one is no sub-agent of those that are,
    in the tree of ``root``."""
    new: dict[str, None] = {}
    for event in events:
        if event.run in known or event.run in new:
            continue
        if event.parent not in known and event.parent not in new:
            raise EngineError(f"run {event.run} is not of the tree of {root}")
        new[event.run] = None
    return list(new)


def new_facts(events: Sequence[Event], last: Callable[[str], int]) -> list[Event]:
    """Of a batch the facts that are not there yet, where ``last`` gives the number of the last one of a run that is.

    Raises :class:`EngineError` where numbers are left out.
    """
    at: dict[str, int] = {}
    found = []
    for event in events:
        before = at.get(event.run)
        if before is None:
            before = last(event.run)
        if event.n <= before:
            continue
        if event.n != before + 1:
            raise EngineError(
                f"facts {before + 1} to {event.n - 1} of run {event.run} are missing: facts are appended in order"
            )
        at[event.run] = event.n
        found.append(event)
    return found


def check_amounts(amounts: Mapping[str, float]) -> None:
    for name, amount in amounts.items():
        if not isinstance(amount, int | float) or not 0 <= amount < math.inf:
            raise EngineError(f"an amount must be a number of 0 or more: {_shown(name)} is {amount!r}")


def check_charges(charges: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """By budget and dimension."""
    for charge, amount in charges.items():
        if not isinstance(amount, int | float) or not math.isfinite(amount):
            raise EngineError(f"a charge must be a number: {_shown(charge)} is {amount!r}")
    return {budget_of(charge): amount for charge, amount in charges.items()}


def check_command(command: AnyCommand) -> None:
    if command.id:
        check_name("the id of a command", command.id)


def budget_of(charge: str) -> tuple[str, str]:
    """Budget and dimension of a charge, ``BUDGET/DIMENSION``."""
    budget, slash, dimension = charge.partition("/")
    if not (budget and slash and dimension):
        raise EngineError(f"a charge names BUDGET/DIMENSION, not {_shown(charge)}")
    return budget, dimension


def without_halves(value: T) -> T:
    """A spec or a command with U+FFFD in the place of each half of a character, as facts are kept."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(mended(msgspec.to_builtins(value)), type(value))
    return value


def _sound(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(value: object) -> str:
    return ascii(value)[:100]
