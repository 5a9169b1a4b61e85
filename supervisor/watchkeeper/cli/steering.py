"""``watchkeeper pause``, ``resume``, ``steer`` and ``budget``: what runs are told, and what is left."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec
from cyclopts import Parameter

from ..engine import AddBudget, AnyCommand, BudgetStanding, Pause, Resume, Steer
from .asking import asked
from .columns import Cell, print_rows
from .exits import COMPLETED, CommandError, complain
from .finding import Sources, through
from .objects import print_object, print_objects
from .printable import identifier, one_line
from .sending import TIMEOUT, sent, whoever
from .standing import budget as amounts_of

REFUSED_BY = 0.5
"""Seconds within which a message is refused, if it is; to read it a run may take much longer."""


class _Budgets(msgspec.Struct, frozen=True):
    """As ``GET /v1/budgets`` has it."""

    budgets: tuple[BudgetStanding, ...]


Run = Annotated[str, Parameter(help="The run: its id, the beginning of it, or @last.")]
Wait = Annotated[float, Parameter(help=f"Seconds that the run gets to take it ({TIMEOUT:g}).")]
Json = Annotated[bool, Parameter(help="The answer as a JSON object.")]


def pause(
    run: Run,
    /,
    *,
    seconds: Annotated[float | None, Parameter(name=["--for"], help="Stop it after so many seconds (an hour).")] = None,
    reason: Annotated[str, Parameter(help="Why, for the record.")] = "paused",
    timeout: Wait = TIMEOUT,
    json: Json = False,
) -> int:
    """Hold a run before its next request to the model; its clock stands still, the calls of its turn end."""
    if seconds is not None and not 0 < seconds < math.inf:
        raise CommandError(f"--for {seconds:g}: it is more than 0 seconds")
    return _send(run, Pause(reason=reason, seconds=seconds, by=whoever()), "pauses", timeout, json)


def resume(
    run: Run,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why, for the record.")] = "",
    timeout: Wait = TIMEOUT,
    json: Json = False,
) -> int:
    """Let a paused run go on."""
    return _send(run, Resume(reason=reason, by=whoever()), "goes on", timeout, json)


def steer(
    run: Run,
    text: Annotated[
        str,
        Parameter(allow_leading_hyphen=True, help="What it reads before its next turn; - takes it from the input."),
    ],
    /,
    *,
    timeout: Annotated[
        float | None, Parameter(help="Wait until it has read it, so many seconds at most; else it is only sent.")
    ] = None,
    json: Json = False,
) -> int:
    """Say something to a run, as its user."""
    if text.startswith("-") and text != "-":
        raise CommandError(f"unknown option {text}, or a message that begins with a hyphen: give it by -, as input")
    said = (sys.stdin.read() if text == "-" else text).strip()
    if not said:
        raise CommandError('there is nothing to say: watchkeeper steer RUN "What it is to read"')
    command = Steer(text=said, by=whoever())
    if timeout is None:
        return _send(run, command, "reads it before its next turn", REFUSED_BY, json, later=True)
    return _send(run, command, "has read it", timeout, json)


def budget(
    run: Annotated[str | None, Parameter(help="The run; without one, the shared budgets of the service.")] = None,
    /,
    *,
    add: Annotated[tuple[str, ...], Parameter(help="Raise a limit, such as turns=5, tokens=50000 or money=0.50.")] = (),
    timeout: Wait = TIMEOUT,
    json: Json = False,
) -> int:
    """What a run has spent and may spend, or more with --add; without a run, what is left of shared budgets."""
    amounts = amounts_in(add)
    if run is None:
        if amounts:
            raise CommandError("--add: say which run may spend more; a shared budget grows in the configuration")
        return _shared(json)
    if amounts:
        told = ", ".join(f"{amount:,g} more {name}" for name, amount in amounts.items())
        return _send(run, AddBudget(amounts=amounts, by=whoever()), f"may spend {told}", timeout, json)

    async def body(sources: Sources) -> int:
        status = (await sources.find(run)).status
        if json:
            print_object({"run": status.run, "spent": status.spent, "limits": status.limits})
        else:
            lines = [[(text, "plain") for text in row] for row in amounts_of(status.spent, status.limits)]
            print_rows(("WHAT", "SPENT", "LIMIT"), lines)  # type: ignore[arg-type]
        return COMPLETED

    return through(body)


def _shared(json: bool) -> int:
    found = asked("/v1/budgets", _Budgets).budgets
    if json:
        print_objects(found)
        return COMPLETED
    rows: list[list[Cell]] = [
        [(identifier(one.name), "head"), (name, "plain"), (f"{one.left.get(name, 0.0):,.10g}", "plain"), (of, "plain")]
        for one in found
        for name, of in ((one_line(name, 40), f"{amount:,.10g}") for name, amount in one.holds.items())
    ]
    if not rows:
        complain("the service has no shared budget; [budgets.NAME] of its configuration makes one")
        return COMPLETED
    print_rows(("BUDGET", "WHAT", "LEFT", "OF"), rows)
    return COMPLETED


def amounts_in(given: Sequence[str]) -> dict[str, float]:
    """Amounts by dimension as they are typed. Raises :class:`CommandError` for what is none."""
    amounts: dict[str, float] = {}
    for one in given:
        name, _, text = one.partition("=")
        try:
            amount = float(text.replace("_", ""))
        except ValueError:
            amount = math.nan
        if not name or not 0 < amount < math.inf:
            raise CommandError(f"--add {one}: it is WHAT=AMOUNT, above 0, such as tokens=50000")
        amounts[name] = amounts.get(name, 0.0) + amount
    return amounts


def _send(run: str, command: AnyCommand, done: str, timeout: float, json: bool, *, later: bool = False) -> int:
    if not timeout > 0:
        raise CommandError(f"--timeout {timeout:g}: it is more than 0 seconds")

    async def body(sources: Sources) -> int:
        return await sent(await sources.find(run), command, done, patience=timeout, json=json, later=later)

    return through(body)
