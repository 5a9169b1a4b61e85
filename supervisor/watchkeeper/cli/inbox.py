"""``watchkeeper approvals``: the calls, of all runs, that wait for a yes or a no."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import anyio
from cyclopts import Parameter

from ..approvals import Scope
from ..engine import Approve, Deny, EngineError, Query
from ..errors import ApprovalError
from ..fingerprint import arguments_hash
from ..messages import ApprovalRequested, ApprovalResolved
from .approving import pattern_of
from .columns import Cell, print_rows
from .exits import COMPLETED, FAILED, CommandError, complain
from .finding import Sources, through
from .following import up_to
from .ids import meant, shortened
from .listed import Listed
from .objects import print_object, print_objects
from .printable import arguments, exact, identifier, one_line
from .prompting import may
from .sending import sent, whoever
from .standing import span

HEADS = ("APPROVAL", "RUN", "AGENT", "LEFT", "TOOL", "WHY", "ARGUMENTS")
LEAST_HASH = 8
"""Characters of a hash that tell what was looked at."""

Which = Annotated[str, Parameter(help="The approval: its id, or the beginning of it.")]
Json = Annotated[bool, Parameter(help="A JSON object for each.")]


class Waiting:
    """An approval that is open: the fact that asked for it, and the run of it."""

    def __init__(self, asked: ApprovalRequested, listed: Listed) -> None:
        self.asked = asked
        self.listed = listed

    @property
    def id(self) -> str:
        return self.asked.approval

    @property
    def whole(self) -> bool:
        """What is shown is what will be run, byte by byte: no secret was cut out of it."""
        return arguments_hash(self.asked.arguments.encode("utf-8", "replace")) == self.asked.arguments_hash

    @property
    def expires(self) -> float:
        return self.asked.at + self.asked.seconds

    def plain(self) -> dict[str, Any]:
        asked, status = self.asked, self.listed.status
        return {
            "approval": asked.approval,
            "run": asked.run,
            "agent": status.spec.agent,
            "task": status.spec.task,
            "call": asked.call_id,
            "tool": asked.tool,
            "arguments": asked.arguments,
            "arguments_hash": asked.arguments_hash,
            "whole": self.whole,
            "why": asked.why,
            "by": list(asked.by),
            "asked": asked.at,
            "expires": self.expires,
        }

    def told(self) -> list[str]:
        """What a person reads who is to decide."""
        asked = self.asked
        what = exact(asked.tool) if asked.tool else "the answer"
        lines = [
            f"{what} is to {'be run' if asked.tool else 'count'}"
            + (f": {one_line(asked.why, 300)}" if asked.why else ""),
            exact(asked.arguments),
            f"(approval {identifier(asked.approval)} in run {identifier(asked.run)} of "
            f"{one_line(self.listed.status.spec.agent, 40)}, SHA-256 {asked.arguments_hash[:16]}…)",
        ]
        if not self.whole:
            lines.insert(2, "(secrets are cut out of what is shown here: what is run has them)")
        return lines


def ls(*, json: Json = False) -> int:
    """The calls that wait for a yes or a no, the oldest first."""

    async def body(sources: Sources) -> int:
        found = await waiting(sources)
        if json:
            print_objects(one.plain() for one in found)
        elif found:
            print_rows(HEADS, _rows(found, time.time()), ("WHY", "AGENT", "LEFT"))
        elif not sources.lost:
            complain("nothing waits for an approval")
        return sources.complain()

    return through(body)


def show(approval: Which, /, *, json: Json = False) -> int:
    """What is to be run, exactly, and why it is asked about."""

    async def body(sources: Sources) -> int:
        one = await find(sources, approval)
        if json:
            print_object(one.plain())
        else:
            print("\n".join([*one.told(), f"(without an answer it is a no in {_left(one, time.time())})"]))
        return COMPLETED

    return through(body)


def approve(
    approval: Which,
    /,
    *,
    hash_: Annotated[
        str, Parameter(name=["--hash"], help="Of the arguments that were looked at; its beginning is enough.")
    ] = "",
    scope: Annotated[Scope, Parameter(help="once, or such calls for this run, or always.")] = "once",
    pattern: Annotated[
        str | None, Parameter(help="With run and always: for which arguments, such as 'path=notes/*', or * for any.")
    ] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.")] = False,
    json: Json = False,
) -> int:
    """Permit a call that waits. At a terminal it is shown, and asked about once more; else give --hash or --yes."""
    if hash_ and len(hash_) < LEAST_HASH:
        raise CommandError(f"--hash {hash_}: give at least {LEAST_HASH} characters of it")
    if pattern is not None and scope == "once":
        raise CommandError("--pattern is for --scope run and --scope always; once is this one call")
    try:
        patterns = None if pattern is None else pattern_of(pattern)
    except ApprovalError as error:
        raise CommandError(f"--pattern {pattern}: {error}") from error

    async def body(sources: Sources) -> int:
        one = await find(sources, approval)
        asked = one.asked
        if hash_ and not asked.arguments_hash.startswith(hash_.lower()):
            raise CommandError(
                f"--hash {hash_}: what waits has the hash {asked.arguments_hash[:16]}…: look at it again "
                f"(watchkeeper approvals show {identifier(one.id)})",
                FAILED,
            )
        if not (hash_ or yes) and not await may(
            f"permit it ({scope})?", one.told(), remedy="--hash HASH (approvals show has it), or --yes"
        ):
            complain("nothing was answered")
            return FAILED
        command = Approve(
            approval=asked.approval,
            arguments_hash=asked.arguments_hash,
            scope=scope,
            pattern=None if patterns is None else dict(patterns),
            by=whoever(),
        )
        return await sent(one.listed, command, f"{identifier(one.id)} is permitted ({scope})", json=json)

    return through(body)


def deny(
    approval: Which,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why: the model reads it.")] = "",
    json: Json = False,
) -> int:
    """Say no to a call that waits."""

    async def body(sources: Sources) -> int:
        one = await find(sources, approval)
        command = Deny(approval=one.id, reason=reason, by=whoever())
        return await sent(one.listed, command, f"{identifier(one.id)} is denied", json=json)

    return through(body)


async def waiting(sources: Sources) -> list[Waiting]:
    """The open approvals of all runs that go on, the oldest first."""
    runs = await sources.runs(Query(parent="", states=("running", "pausing", "paused"), limit=1000))
    found: list[Waiting] = []

    async def look(one: Listed) -> None:
        found.extend(await open_in(one))

    async with anyio.create_task_group() as tasks:
        for one in runs:
            if one.status.approvals and not one.died:
                tasks.start_soon(look, one)
    return sorted(found, key=lambda one: (one.asked.at, one.id))


async def open_in(one: Listed) -> list[Waiting]:
    """Those of one run, out of its facts."""
    asked: dict[str, ApprovalRequested] = {}
    try:
        async for event in up_to(one.source.engine.watch(one.run), one.status.n):
            if isinstance(event, ApprovalRequested):
                asked[event.approval] = event
            elif isinstance(event, ApprovalResolved):
                asked.pop(event.approval, None)
    except EngineError as error:
        complain(f"{identifier(one.run)}: {one_line(str(error), 300)}")
    return [Waiting(event, one) for event in asked.values()]


async def find(sources: Sources, given: str) -> Waiting:
    """The one that is meant. Raises :class:`CommandError`."""
    found = {one.id: one for one in await waiting(sources)}
    wanted = meant(given, found) if given else []
    if len(wanted) == 1:
        return found[wanted[0]]
    if len(wanted) > 1:
        raise CommandError(
            f"{one_line(given, 80)} may be any of {', '.join(map(identifier, wanted[:8]))}: give more of the id"
        )
    code = sources.complain()
    raise CommandError(
        f"no approval {one_line(given, 80)} is waited for: it may be answered or over already "
        "(watchkeeper approvals ls lists those that wait)",
        code or FAILED,
    )


def _rows(found: Sequence[Waiting], now: float) -> list[list[Cell]]:
    fits = sys.stdout.isatty()  # in a pipe nothing is cut
    approvals = shortened(one.id for one in found)
    runs = shortened(one.asked.run for one in found)
    return [
        [
            (identifier(approvals[one.id]), "head"),
            (identifier(runs[one.asked.run]), "plain"),
            (one_line(one.listed.status.spec.agent, 24), "plain"),
            (_left(one, now), "warn"),
            (one_line(one.asked.tool, 40) or "(answer)", "plain"),
            (one_line(one.asked.why, 60 if fits else sys.maxsize), "plain"),
            (arguments(one.asked.arguments, 100 if fits else sys.maxsize), "dim"),
        ]
        for one in found
    ]


def _left(one: Waiting, now: float) -> str:
    return span(max(one.expires - now, 0.0))
