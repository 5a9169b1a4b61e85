"""``watchkeeper case``: make a failing test of a recorded run and what should have been done in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ..messages import CallProposed, Event, TurnStarted
from .casefile import Case, source_of, steps_in
from .complaints import Complaints
from .exits import COMPLETED, FAILED, CommandError, complain
from .options import split
from .policy import read_table
from .printable import count, identifier, one_line
from .recorded import RecordedRun, events_of
from .recordings import FILE, Problem, read
from .review import Judgement
from .settings import settings_of
from .verdicts import reviewed

Expect = Literal["nudge", "block", "stop", "nothing"]
RUNGS: tuple[Expect, ...] = ("nudge", "block", "stop")
NAMED = 5
"""Runs of a file that are named where one has to be chosen."""


def case(
    file: Annotated[Path, Parameter(help=FILE)],
    /,
    *,
    at: Annotated[int, Parameter(help="Index of the call, from 0, as replay tells it.")],
    run: Annotated[str | None, Parameter(help="Id of the run, where the file has several.")] = None,
    expect: Annotated[
        Expect | None,
        Parameter(help="What should be done: by that call at least this, or at it nothing (the opposite of today)."),
    ] = None,
    out: Annotated[Path | None, Parameter(help="File to write (standard output).")] = None,
    profile: Annotated[str | None, Parameter(help="Judge by this profile (that of the run, else default).")] = None,
    policy: Annotated[
        Path | None, Parameter(help="TOML file with the rules to ask instead; the test has them.")
    ] = None,
    poll: Annotated[tuple[str, ...], Parameter(help="Tools that are meant to be asked again (recorded runs).")] = (),
    stable: Annotated[tuple[str, ...], Parameter(help="Tools whose answers may be remembered (recorded runs).")] = (),
) -> int:
    """Make a failing test of a recorded run and what should have been done in it.

    The test is a file for pytest that holds the steps up to the call as they were recorded, judges them, and says what
    should come of it: that nothing is done at that call, or that the run is nudged, blocked or stopped by then. Without
    --expect it is the opposite of what happens today, so that the test fails until the rules are better. Look through
    the file for what is not to be shown before you pass it on.
    """
    if at < 0:
        raise CommandError(f"--at is the index of a call, from 0, not {at}")
    if out is not None and out.exists() and out.is_file():
        raise CommandError(f"--out {out}: the file is there already; name another, or remove it")
    complaints = Complaints()
    name, found = _found(file, run, complaints)
    polls, kept = split(poll), split(stable)
    settings = settings_of(profile, policy, polls, kept)
    if isinstance(found, RecordedRun):
        events = list(events_of(found, polls=settings.polls, stable=settings.stable, tools=settings.tools))
    else:
        events = found
        at = _end_of_turn(events, at)
    calls = sum(isinstance(event, CallProposed) for event in events)
    if at >= calls:
        raise CommandError(f"--at {at}: run {name} has {count(calls, 'call')}, so the last one is {calls - 1}")
    review = reviewed(events, settings, logged=not isinstance(found, RecordedRun))
    complaints.judged(name, review.failed.items())
    today = review.judgements
    wanted = expect or _opposite(today, at)
    try:
        steps = steps_in(found, at) if isinstance(found, RecordedRun) else []
    except ValueError as error:
        raise CommandError(f"--at {at}: {error}; name an earlier call") from error
    made = Case(
        run=name,
        at=at,
        expect=wanted,
        steps=steps,
        events=[] if isinstance(found, RecordedRun) else _until(found, at),
        profile=profile,
        policy=read_table(policy) if policy is not None else None,
        poll=polls,
        stable=kept,
    )
    _write(out, source_of(made))
    happens = ", ".join(f"{one.action} by {one.detector}" for one in today if one.position == at) or "nothing"
    complain(f"at call {at} of {one_line(name, 80)} today: {happens}; the test expects {_words(wanted, at)}")
    if holds(today, wanted, at):
        complain("that holds today, so the test passes; --expect says something else")
    complaints.end()
    return FAILED if complaints.any else COMPLETED


def holds(done: list[Judgement], expect: Expect, at: int) -> bool:
    """Whether what is done is what is expected, as the test will ask."""
    if expect == "nothing":
        return not any(one.position == at or (one.action == "stop" and one.position < at) for one in done)
    strong = RUNGS[RUNGS.index(expect) :]
    return any(one.action in strong and one.position <= at for one in done)


def _opposite(done: list[Judgement], at: int) -> Expect:
    """What happens not today: nothing where something is done at the call, else the next step of the ladder."""
    if any(one.position == at for one in done):
        return "nothing"
    before = [one.action for one in done if one.position < at]
    if "stop" in before:
        where = next(one.position for one in done if one.action == "stop")
        raise CommandError(f"--at {at}: the run is stopped at call {where} already; name that call or an earlier one")
    return next(rung for rung in RUNGS if rung not in before)


def _words(expect: Expect, at: int) -> str:
    return f"nothing at call {at}" if expect == "nothing" else f"at least a {expect} by call {at}"


def _found(file: Path, run: str | None, complaints: Complaints) -> tuple[str, RecordedRun | list[Event]]:
    """The run that is meant, from a file with one or more. Only that run is kept in memory."""
    names: dict[str, None] = {}
    recorded: RecordedRun | None = None
    events: list[Event] = []
    for item in read(file):
        if isinstance(item, Problem):
            complaints.tell(item)
            continue
        what = item.what
        name = what.id if isinstance(what, RecordedRun) else what.run
        if len(names) <= NAMED:
            names[name] = None
        if name != (run if run is not None else next(iter(names))):
            continue
        if isinstance(what, RecordedRun):
            if recorded is None:
                recorded = what
        else:
            events.append(what)
    complaints.file_ended(str(file))
    if not names:
        raise CommandError(f"{file}: no run could be read in it", FAILED)
    if run is None and len(names) > 1:
        some = ", ".join(identifier(name) for name in list(names)[:NAMED])
        raise CommandError(f"{file} has several runs; name one with --run: {some}{', …' if len(names) > NAMED else ''}")
    if recorded is None and not events:
        raise CommandError(f"--run {run}: there is no such run in {file}")
    return (run or next(iter(names))), recorded or events


def _end_of_turn(events: list[Event], at: int) -> int:
    """The last call of the turn that a call belongs to: the calls of a turn are judged as a whole."""
    proposed = [event for event in events if isinstance(event, CallProposed)]
    if at >= len(proposed):
        return at
    turn, context = proposed[at].turn, proposed[at].context
    return max(index for index, call in enumerate(proposed) if (call.turn, call.context) == (turn, context))


def _until(events: list[Event], at: int) -> list[Event]:
    """The events up to the end of the turn of a call."""
    calls = 0
    for index, event in enumerate(events):
        if isinstance(event, CallProposed):
            calls += 1
        elif isinstance(event, TurnStarted) and calls > at:
            return events[:index]
    return events


def _write(out: Path | None, text: str) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--out {out}: {os.strerror(error.errno) if error.errno else error}", FAILED) from error
