"""How runs stand, in the words of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..engine import RunStatus
from .columns import Cell
from .ids import shortened
from .listed import Listed
from .printable import first_line, identifier, one_line

if TYPE_CHECKING:
    from .narrator import Style

HEADS = ("RUN", "STATE", "AGENT", "DOING", "TURN", "CALLS", "TOKENS", "SPENT", "PROGRESS", "AGE", "TASK")
SPARE = ("CALLS", "TOKENS", "AGE", "SPENT", "AGENT", "PROGRESS")
"""What a narrow terminal does not need, the first first."""
STYLES: dict[str, Style] = {
    "running": "good",
    "completed": "plain",
    "failed": "bad",
    "died": "bad",
    "stopped": "warn",
    "cancelled": "warn",
    "handed_over": "warn",
    "cancelling": "warn",
    "pausing": "warn",
    "paused": "warn",
}
TIMES = ("seconds", "working_seconds")
STALE = 120.0
"""Seconds without progress from which on they are marked."""
UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))
TASK = 60


def rows(runs: Iterable[Listed], now: float) -> Iterator[list[Cell]]:
    listed = list(runs)
    short = shortened(one.run for one in listed)
    for one in listed:
        yield row(one, short[one.run], now)


def row(one: Listed, short: str, now: float) -> list[Cell]:
    status = one.status
    style = STYLES.get(one.state, "plain")
    progress, stale = since_progress(one, now)
    return [
        (identifier(short), "head"),
        (one.state, style),
        (one_line(status.spec.agent, 24), "plain"),
        (doing(one), "warn" if (status.approvals or status.refused) and not one.ended else "plain"),
        (of(status.turn, status.limits.get("turns")), "plain"),
        (f"{status.calls:,}", "plain"),
        (of(status.spent.get("tokens", 0), status.limits.get("tokens")), "plain"),
        (money(status), "plain"),
        (progress, "warn" if stale else "plain"),
        (age(one, now), "plain"),
        (first_line(status.spec.task, TASK), "dim"),
    ]


def doing(one: Listed) -> str:
    """What it does now; once it has ended, why that was."""
    status = one.status
    if one.ended:
        return one_line(status.outcome.reason, 32) if status.outcome is not None else ""
    if one.died:
        return "its process is gone"
    if status.approvals:
        return f"{status.approvals:,} to approve"
    return one_line(f"refused: {status.refused}" if status.refused else status.doing, 32)


def since_progress(one: Listed, now: float) -> tuple[str, bool]:
    """How long ago it last got on, and whether that is long."""
    status = one.status
    if one.ended or one.died or status.started is None:
        return "", False
    seconds = max(now - (status.progress if status.progress is not None else status.started), 0.0)
    return span(seconds), seconds >= STALE and status.state == "running"


def age(one: Listed, now: float) -> str:
    return span(max(now - one.status.submitted, 0.0)) if one.status.submitted else ""


def span(seconds: float) -> str:
    """A time in one word: ``4s``, ``3m12s``, ``2h5m``, ``3d4h``."""
    whole = int(seconds)
    for place, (size, unit) in enumerate(UNITS):
        if whole >= size:
            less, mark = UNITS[place + 1] if place + 1 < len(UNITS) else (1, "s")
            rest = whole % size // less
            return f"{whole // size}{unit}{rest}{mark}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def of(amount: float, limit: float | None) -> str:
    """``3/20``, ``12.4k/2M``."""
    return short_number(amount) + (f"/{short_number(limit)}" if limit is not None else "")


def short_number(amount: float) -> str:
    """At most three digits and a letter."""
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(amount) >= size:
            return f"{amount / size:.3g}{mark}"
    return f"{amount:.3g}"


def money(status: RunStatus) -> str:
    spent, limit = status.spent.get("money"), status.limits.get("money")
    if spent is None and limit is None:
        return ""
    return f"{spent or 0:.4g}" + (f"/{limit:g}" if limit is not None else "")


def budget(spent: Mapping[str, float], limits: Mapping[str, float | None]) -> Iterator[tuple[str, str, str]]:
    """Each dimension in which something is spent or limited: its name, what is spent, the limit. Time is a limit alone:
    what went by of it stands elsewhere."""
    for name in dict.fromkeys([*limits, *spent]):
        amount, limit = spent.get(name, 0.0), limits.get(name)
        if amount or limit is not None:
            spent_of = "" if name in TIMES and not amount else f"{amount:,.10g}"
            yield one_line(name, 40), spent_of, f"{limit:,.10g}" if limit is not None else ""
