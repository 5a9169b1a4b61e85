"""The seams of a run that is recorded: model, tools, clock, ids and chance go through, and are written down."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.lowlevel
import msgspec

from .. import messages
from ..agent import Agent
from ..current import current_call
from ..messages import CallEnded, CallStarted, ChildStarted, Event, RunEnded
from ..model import Request
from ..redaction import Redaction
from ..seams import Seams
from ..tools import Tool
from . import chunks, scrub
from .beside import recorded_beside
from .consent import record_consent
from .entries import TICKS, Action, Began, Drawn, Happened, HostDid, Line, RunLine, ToolEnded
from .facts import encoded
from .order import ROUNDS
from .outcome import arguments_of
from .recording import Attempt, RecordedModel, recorded_tool
from .site import site_of
from .tape import Adding, Tape

if TYPE_CHECKING:
    from ..run import Run

ALL = tuple(kind for kind in messages.AnyEvent.__args__ if kind is not messages.Unknown)
LONGEST = 0.5
"""Seconds for which a thread waits with its result until the loop has dealt with what came before."""
ABOUT = ("provider", "base_url", "context_window")


class Recorder(Seams):
    """``Supervisor(seams=Recorder("run.cassette"))`` records every run that is started there, sub-agents too.

    What comes from outside is written with its time and the fact behind which it came: the pieces of each reply, what
    each call gave, what verifier, judge and long-term store said, and what the host did (steer, pause, resume, cancel,
    hand over, a yes or a no to an approval). So are the facts, what the clock said, ids and
    chances. Everything passes the redaction of the supervisor first; a reply is written when it is over. The clock
    counts in whole ticks of 2⁻²⁰ s. Nothing of it changes what the run does.

    ``adding``: ``once`` refuses a file that is there, ``add`` adds one more recording to it. ``seams``: those that are
    used underneath. Raises :class:`CassetteError` for a file that cannot be written.
    """

    paced = False  # how busy the machine was must not be in the order of the facts

    def __init__(self, path: str | os.PathLike[str], *, adding: Adding = "once", seams: Seams | None = None) -> None:
        super().__init__()
        self._inner = seams or Seams()
        self.virtual = self._inner.virtual
        self.tape = Tape(path, "run", adding=adding)
        self._inputs = itertools.count(1)
        self._origin = 0.0
        self.facts = 0
        """Of all runs together."""
        self.live = 0
        """Runs that have begun and not ended."""
        self._one = anyio.Lock()
        self._beginning: anyio.Event | None = None

    def bind(self) -> None:
        self._inner.bind()
        self.thread = self._inner.thread
        self._origin = _on_grid(self._inner.clock())
        self.clock = self.now
        self.wall = self._inner.wall

    def now(self) -> float:
        """The clock, in whole ticks."""
        return _on_grid(self._inner.clock())

    def ticks(self, now: float) -> int:
        return int((now - self._origin) * TICKS)

    def input(self) -> int:
        return next(self._inputs)

    async def settled(self, *, alone: bool = False) -> None:
        """Let what came before come to its end: what comes next has a clear place. Where one run is at work, only what
        comes beside something else of it, ``alone``, needs that."""
        if self.live > 1 or alone:
            with anyio.CancelScope(shield=True):  # what has come is not to be lost; it is a few rounds of the loop
                async with self._one:
                    for _ in range(ROUNDS):
                        await anyio.lowlevel.checkpoint()

    def settled_from_thread(self) -> None:
        """The same for what a thread gives; bounded, for its loop may be blocked."""
        if threading.get_ident() == self.thread:
            return
        done = threading.Event()

        def another(left: int) -> None:
            if not left or not self.post(lambda: another(left - 1)):
                done.set()

        another(ROUNDS)
        done.wait(LONGEST)

    async def enter(self) -> None:
        """The run may begin: those before it have asked their models, and what came before has come to its end."""
        while self._beginning is not None:
            await self._beginning.wait()
        self._beginning = anyio.Event()
        self.live += 1
        await self.settled()

    def begun(self) -> None:
        if self._beginning is not None:
            self._beginning.set()
            self._beginning = None

    def post(self, function: Callable[[], Any]) -> bool:
        return self._inner.post(function)

    def random(self) -> float:
        return self._inner.random()

    def new_id(self, prefix: str = "") -> str:
        value = self._inner.new_id(prefix)
        self.tape.write(Drawn(what="id", prefix=prefix, value=value))
        return value

    @contextlib.contextmanager
    def outside_work(self) -> Iterator[None]:
        with self._inner.outside_work():
            yield

    def for_run(self, run_id: str, agent: Agent, task: str, parent: Run | None) -> tuple[Agent, Seams]:
        taken = Taken(self, run_id, parent.id if parent is not None else None, task)
        recorded = copy.copy(agent)
        recorded.model = RecordedModel(agent.model, taken)
        recorded.tools = {name: recorded_tool(tool, taken) for name, tool in agent.tools.items()}
        recorded_beside(recorded, taken)
        return recorded, taken

    def close(self) -> None:
        """Nothing more is recorded."""
        self.tape.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Taken(Seams):
    """The seams of one run that is recorded, and a fold over its facts."""

    def __init__(self, root: Recorder, run_id: str, parent: str | None, task: str) -> None:
        super().__init__()
        self.root = root
        self.virtual = root.virtual
        self.thread = root.thread
        self.id = run_id
        self._parent = parent
        self._task = task
        self.n = 0
        """Facts so far."""
        self.redaction = Redaction(patterns=())
        self._reads: dict[str, list[int]] = {}
        self._asks = 0
        self._beginning = self._entered = False
        self._before: Request | None = None
        self._open: dict[str, Attempt] = {}
        self._stash: dict[str, dict[str, Any]] = {}
        self._parents: set[str] = set()
        """Calls within which a sub-agent was started."""
        self._wall = root.wall
        self.clock = self._look
        self.wall = self._look_up

    def follow(self, run: Run) -> None:
        self.redaction = run.log.redaction
        model = run.agent.model
        about = {name: value for name in ABOUT if (value := getattr(model, name, None)) is not None}
        if "base_url" in about:
            about["base_url"] = scrub.url_of(str(about["base_url"]), self.redaction)
        if (timeouts := getattr(model, "timeouts", None)) is not None:
            about["timeouts"] = msgspec.to_builtins(timeouts)
        self.write(
            RunLine(
                run=self.id,
                parent=self._parent,
                task=run.task,
                agent=run.agent.name,
                model=model.name,
                about=self.redaction.anything(about),
            )
        )
        run.log.attach(self)
        record_consent(run, self)
        if run.parent is None:
            self._listen(run)

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]:
        return dict.fromkeys(ALL, self._fact)

    def write(self, *lines: Line) -> None:
        self.root.tape.write(*lines)

    def place(self, after: int | None = None) -> dict[str, Any]:
        """The fields of an input that comes now."""
        at = self.root.ticks(self.root.now())
        before = 0 if after is None else self.n - after
        return {
            "i": self.root.input(),
            "run": self.id,
            "after": self.n - before,
            "all": self.root.facts - before,
            "at": at,
        }

    def post(self, function: Callable[[], Any]) -> bool:
        return self.root.post(function)

    @contextlib.contextmanager
    def outside_work(self) -> Iterator[None]:
        with self.root.outside_work():
            yield

    def random(self) -> float:
        value = self.root.random()
        self.write(Drawn(run=self.id, what="chance", value=value))
        return value

    def new_id(self, prefix: str = "") -> str:
        return self.root.new_id(prefix)

    def asked(self, request: Request) -> int:
        """A request goes out; its number."""
        self._begun()
        self._asks += 1
        clean = chunks.clean_request(request, self.redaction)
        self.write(chunks.request_lines(self.id, self._asks, clean, self._before))
        self._before = clean
        return self._asks

    async def enter(self) -> None:
        await self.root.enter()
        self._beginning = self._entered = True
        self.write(Began(**self.place()))

    def _begun(self) -> None:
        if self._beginning:
            self._beginning = False
            self.root.begun()

    def begun(self, tool: Tool, values: dict[str, Any]) -> Attempt:
        """An attempt at a call begins; maybe in a thread."""
        here = current_call()
        attempt = Attempt(tool.name, arguments_of(values, self.redaction), here.call_id, here.attempt)
        self._open[here.call_id] = attempt
        return attempt

    async def settled(self, attempt: Attempt) -> None:
        """Before the result of a call is taken up. That of a sub-agent follows from what came to the sub-agent."""
        if attempt.call not in self._parents:
            await self.root.settled(alone=True)

    def ended(self, attempt: Attempt, gave: dict[str, Any], *, within: bool, at_once: bool = False) -> None:
        """An attempt is over. What a thread gave counts when the run takes it up."""
        if within:
            self._end(attempt, {**gave, "at_once": at_once}, self.n)
        else:
            self._stash[attempt.call] = gave

    def _end(self, attempt: Attempt, gave: dict[str, Any], after: int) -> None:
        if self._open.get(attempt.call) is attempt:  # what comes after its result is of no interest
            del self._open[attempt.call]
            fields = msgspec.structs.asdict(attempt)
            self.write(ToolEnded(**self.place(after), **fields, real=attempt.call in self._parents, **gave))

    def _look(self) -> float:
        now = self.root.now()
        site = site_of(sys._getframe(1))
        if site is not None:
            self._reads.setdefault(site, []).append(self.root.ticks(now))
        return now

    def _look_up(self) -> float:
        value = self._wall()
        self.write(Drawn(run=self.id, what="wall", value=value))
        return value

    def _fact(self, event: Event) -> None:
        self.n, self.root.facts = event.n, self.root.facts + 1
        if isinstance(event, CallEnded):
            self._take_up(event.result.call_id, event.n - 1)
        elif isinstance(event, CallStarted) and event.attempt > 1:
            self._take_up(event.call_id, event.n - 1)
        elif isinstance(event, ChildStarted):
            self._parents.add(event.call_id)
        if isinstance(event, RunEnded):
            self.root.live -= self._entered
            self._begun()
        reads, self._reads = self._reads, {}
        self.write(Happened(run=self.id, reads=reads, event=msgspec.Raw(encoded(event))))

    def _take_up(self, call_id: str, after: int) -> None:
        """The run goes on with what a thread gave, or without it."""
        attempt = self._open.get(call_id)
        if attempt is not None:
            self._end(attempt, self._stash.pop(call_id, {"hung": True}), after)

    def _listen(self, run: Run) -> None:
        """Write down what the host does to the run, whichever way it comes."""

        def heard(name: Action, fields: Callable[..., dict[str, Any]]) -> None:
            act = getattr(run, name)

            def listening(*args: Any, **kwargs: Any) -> Any:
                place = self.place()
                done = act(*args, **kwargs)
                self.write(HostDid(**place, do=name, **fields(*args, **kwargs)))
                return done

            setattr(run, name, listening)

        text = self.redaction.text
        heard("steer", lambda said: {"text": text(said)})
        heard("pause", lambda reason="paused", *, seconds=None: {"text": text(reason), "seconds": seconds})
        heard("resume", lambda reason="": {"text": text(reason)})

        def ended(reason: str, mode: str, deadline: float | None) -> dict[str, Any]:
            return {"text": text(reason), "mode": mode, "seconds": deadline}

        heard("cancel", lambda reason="cancelled", mode="now", *, deadline=None: ended(reason, mode, deadline))
        heard("hand_over", lambda reason="asked", mode="after_turn", *, deadline=None: ended(reason, mode, deadline))


def _on_grid(seconds: float) -> float:
    return math.floor(seconds * TICKS) / TICKS
