"""The status line of a request: which turn it is, what is left of each budget, what is missing. Under 60 tokens.

Large amounts are rounded to two digits: the line is short, and it seldom changes between two requests of one turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

SHOWN = 6
"""Budgets that are shown at most: those of which the largest share is used up."""
NAMED = 3
"""Names of tools, and characters of each, that are shown of what is missing."""
NAME = 40
STEP = 120
"""Characters of the current step."""

_NAMES = {
    "calls": "calls",
    "tokens": "tokens",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
}


class Left(msgspec.Struct, frozen=True):
    """A limited dimension, or ``time`` or ``working_time`` in seconds: how much is left, and the share that is used."""

    dimension: str
    amount: float
    share: float


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands as a turn begins."""

    turn: int
    """From 1."""
    more: int | None = None
    """Turns after this one; None: no limit."""
    tools_off: bool = False
    finishing: int | None = None
    """Replies that are left for the answer, this one included, once a limit is reached; None before that."""
    left: Sequence[Left] = ()
    required: Sequence[str] = ()
    """Tools that must still find something before an answer counts; ``any_of``: one of these must."""
    any_of: Sequence[str] = ()
    stale: Sequence[str] = ()
    """Tools that must be asked again, because something has changed since."""
    step: str = ""
    """The step of a plan that is being done, if there is one."""


def line(standing: Standing) -> str:
    """One line for the model."""
    parts = [_turn(standing)]
    if standing.step:
        parts.append(f"Step: {_cut(standing.step, STEP)}.")
    if standing.finishing is None and standing.left:
        shown = sorted(standing.left, key=lambda one: -one.share)[:SHOWN] if len(standing.left) > SHOWN else None
        parts.append(f"Left: {', '.join(map(_left, shown or standing.left))}.")
    if missing := _missing(standing):
        parts.append(f"Missing: {missing}.")
    return " ".join(parts)


def _turn(standing: Standing) -> str:
    if standing.finishing is not None:
        off = "; tools are off" if standing.tools_off else ""
        replies = "1 reply" if standing.finishing == 1 else f"{standing.finishing} replies"
        return f"Turn {standing.turn}{off}; {replies} left for the answer."
    if standing.more is None:
        return f"Turn {standing.turn}."
    return f"Turn {standing.turn} of {standing.turn + standing.more}."


def _left(one: Left) -> str:
    kind, _, tool = one.dimension.partition(":")
    if one.dimension == "time":
        return _seconds(one.amount)
    if one.dimension == "working_time":
        return f"{_seconds(one.amount)} of work"
    if tool:
        return f"{_amount(one.amount)} {kind} of {_cut(tool, NAME)}"
    return f"{_amount(one.amount)} {_NAMES.get(one.dimension) or _cut(one.dimension, NAME)}"


def _amount(amount: float) -> str:
    if amount < 100:
        return f"{amount:.0f}" if amount == int(amount) else f"{amount:.2g}"
    rounded = float(f"{amount:.2g}")
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if rounded >= size:
            unit = 1e3 if letter == "k" else size
            return f"{rounded / unit:.3g}{letter}"
    return f"{rounded:,.0f}"


def _seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{float(f'{seconds:.1g}'):.0f} s" if seconds >= 1 else "under 1 s"
    minutes = float(f"{seconds / 60:.1g}")
    return f"{minutes:.0f} min" if minutes < 120 else f"{float(f'{minutes / 60:.1g}'):.0f} h"


def _missing(standing: Standing) -> str:
    parts = []
    if standing.required:
        parts.append(f"a result of {_names(standing.required, 'and')}")
    if standing.any_of:
        parts.append(f"a result of {_names(standing.any_of, 'or')}")
    if standing.stale:
        parts.append(f"a new look with {_names(standing.stale, 'and')}")
    return "; ".join(parts)


def _names(names: Sequence[str], last: str) -> str:
    shown = [_cut(name, NAME) for name in names[:NAMED]]
    if len(names) > NAMED:
        shown.append(f"{len(names) - NAMED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def _cut(text: str, limit: int) -> str:
    whole = " ".join(text.split())
    return whole if len(whole) <= limit else f"{whole[:limit]}…"
