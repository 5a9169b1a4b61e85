"""One recorded run, put together from the lines of its cassette: what is to be played, and what is to come of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec

from ..errors import CassetteError, CassetteMiss
from ..fingerprint import digest
from .chunks import whole_request
from .entries import (
    Asked,
    Began,
    ChunkCame,
    Drawn,
    Happened,
    HostDid,
    Input,
    Line,
    Remembered,
    ReplyEnded,
    RunLine,
    ToolEnded,
)
from .exchange import asked_most_like
from .match import shown, without_amounts

_encode = msgspec.json.Encoder(order="deterministic").encode


class Reply:
    """A recorded request and what came for it: places of inputs in the order of all, with the inputs."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.key = digest(_encode(request))
        self.pieces: list[tuple[int, ChunkCame]] = []
        self.end: tuple[int, ReplyEnded] | None = None


class RunScore:
    """What was recorded of one run."""

    def __init__(self, line: RunLine) -> None:
        self.line = line
        self.replies: list[Reply] = []
        self.facts: list[Happened] = []
        self.walls: deque[float] = deque()
        self.chances: deque[float] = deque()
        self.tools: dict[tuple[str, str], deque[tuple[int, ToolEnded]]] = {}
        self.host: list[tuple[int, HostDid]] = []
        self.notes: deque[tuple[int, Remembered]] = deque()
        self.began: int | None = None
        """The place at which it began."""

    def reply(self, request: dict[str, Any], *, exact: bool = True) -> Reply:
        """The next recorded reply to this request; unless ``exact`` also one that differs in what is left, as the
        status line says it. Raises :class:`CassetteMiss` with the difference to the next one that is left."""
        key = digest(_encode(request))
        for number, reply in enumerate(self.replies):
            if reply.key == key:
                return self.replies.pop(number)
        if not exact:
            key = digest(_encode(without_amounts(request)))
            for number, reply in enumerate(self.replies):
                if digest(_encode(without_amounts(reply.request))) == key:
                    return self.replies.pop(number)
        what = f"the model was not asked this when the run {self.line.run} was recorded"
        if not self.replies:
            raise CassetteMiss(f"{what}: it was asked no more than it has been by now")
        difference = asked_most_like(shown(request), [shown(self.replies[0].request)])
        raise CassetteMiss(f"{what}; its next request differs so:", difference)

    def peek(self, request: dict[str, Any], *, exact: bool = True) -> Reply:
        """The same, and it is left where it is."""
        reply = self.reply(request, exact=exact)
        self.replies.insert(0, reply)
        return reply

    def tool(self, name: str, arguments: str) -> tuple[int, ToolEnded]:
        """What the next equal call gave. Raises :class:`CassetteMiss`."""
        return next_result(self.tools, name, arguments)


class Score:
    """One recording of whole runs."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.runs: dict[str, RunScore] = {}
        self.ids: dict[str, deque[str]] = {}
        self.inputs: list[Input] = []
        rest: list[Line] = []
        for line in lines:
            if isinstance(line, Input):
                self.inputs.append(line)
            else:
                rest.append(line)
        self.inputs.sort(key=lambda line: line.i)
        for one, other in pairwise(self.inputs):
            if other.i == one.i or other.all < one.all:  # nothing could wait for its turn in such an order
                raise CassetteError(f"the inputs {one.i} and {other.i} of the recording are not in order")
        replies: dict[tuple[str, int], Reply] = {}
        before: dict[str, dict[str, Any]] = {}
        for line in rest:
            if isinstance(line, Drawn):
                self._draw(line)
            elif isinstance(line, RunLine):
                self._run(line.run, line)
            elif isinstance(line, Asked):
                whole = before[line.run] = whole_request(line, before.get(line.run))
                replies[line.run, line.ask] = reply = Reply(whole)
                self._run(line.run).replies.append(reply)
            elif isinstance(line, Happened):
                self._run(line.run).facts.append(line)
        for place, found in enumerate(self.inputs):
            run = self._run(found.run)
            if isinstance(found, ToolEnded):
                run.tools.setdefault((found.tool, found.arguments), deque()).append((place, found))
            elif isinstance(found, Began):
                run.began = place
            elif isinstance(found, HostDid):
                run.host.append((place, found))
            elif isinstance(found, Remembered):
                run.notes.append((place, found))
            elif isinstance(found, ChunkCame | ReplyEnded):
                reply = replies.setdefault((found.run, found.ask), Reply({}))
                if isinstance(found, ChunkCame):
                    reply.pieces.append((place, found))
                else:
                    reply.end = (place, found)

    @property
    def task(self) -> str:
        """That of the run which was started first."""
        return next((run.line.task for run in self.runs.values()), "")

    def _draw(self, line: Drawn) -> None:
        if line.what == "id":
            self.ids.setdefault(line.prefix, deque()).append(str(line.value))
        elif line.what == "wall":
            self._run(line.run).walls.append(float(line.value))
        else:
            self._run(line.run).chances.append(float(line.value))

    def _run(self, run: str, line: RunLine | None = None) -> RunScore:
        """The run; the wall clock is looked at before there is a line of it."""
        found = self.runs.get(run)
        if found is None:
            found = self.runs[run] = RunScore(line or RunLine(run=run, task="", agent="", model=""))
        elif line is not None:
            found.line = line
        return found


def next_result(
    results: dict[tuple[str, str], deque[tuple[int, ToolEnded]]], name: str, arguments: str
) -> tuple[int, ToolEnded]:
    """What the next equal call of a tool gave. Raises :class:`CassetteMiss` with the nearest of its other calls."""
    found = results.get((name, arguments))
    if found:
        return found.popleft()
    if found is not None:
        raise CassetteMiss(f"the call {name} {arguments[:200]} was recorded less often than it is made now")
    others = [_lines(other) for tool, other in results if tool == name]
    difference = asked_most_like(_lines(arguments), others)
    what = f"no call of {name} with these arguments was recorded"
    raise CassetteMiss(f"{what}; the nearest differs so:" if difference else f"{what}: {arguments[:200]}", difference)


def _lines(arguments: str) -> list[str]:
    try:
        return shown(msgspec.json.decode(arguments))
    except (ValueError, RecursionError):
        return shown(arguments)
