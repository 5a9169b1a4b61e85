"""The seams of a run that is played back: whatever came from outside comes from its cassette."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.lowlevel
import msgspec

from ..agent import Agent
from ..errors import ApprovalError, CassetteError, CassetteMiss, ConfigurationError, RunEndedError
from ..messages import CallEnded, Event, LoopBlocked, RunEnded, decode_event
from ..redaction import Redaction
from ..seams import Seams
from .beside import played_beside
from .consent import play_consent
from .entries import TICKS, HostDid, Input
from .facts import encoded
from .fault import Fault, Faults
from .match import difference, shown
from .order import Order
from .playing import PlayedModel, played_tool
from .recorder import ALL
from .score import RunScore, Score
from .site import site_of
from .tape import Recorded, read

if TYPE_CHECKING:
    from ..run import Run

Tools = Literal["played", "real"]
STEERING = (
    ("steer", "text", ""),
    ("pause", "reason", "paused"),
    ("resume", "reason", ""),
    ("cancel", "reason", "cancelled"),
    ("hand_over", "reason", "asked"),
)
"""What a host does to a run, with the name of its first parameter and what that is by default."""


class Player(Seams):
    """``Supervisor(seams=Player("run.cassette"))`` plays a recorded run back when it is started again there.

    The model is not asked and no tool is run: what they gave comes from the file, in the order in which it came then,
    as do clock, ids and chances, and what the host did. So the run, on whichever event loop, has the events that were
    recorded, byte for byte; where one differs, the run ends as ``failed`` with the difference, and :meth:`check` raises
    it. In virtual time (``watchkeeper.testing.backend``) nothing is waited for and timeouts fall as they did; in real
    time recorded times are not waited for, and a timer is.

    - ``take``: which recording of the file, from 1; by default the first with this ``task``, or the first.
    - ``tools``: ``real`` runs them, for their effects or to see what has changed. Then, and with ``faults``, the run
      may be another one: its facts are its own, on its own clock, and only requests to the model must be recorded ones.

    Raises :class:`CassetteError` for a file that cannot be read or holds no such run.
    """

    paced = False  # how busy the machine was must not be in the order of the facts

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        take: int | None = None,
        task: str | None = None,
        tools: Tools = "played",
        faults: Iterable[Fault] = (),
    ) -> None:
        super().__init__()
        self.virtual = True  # nobody is to look whether the loop is blocked: that it was, if it was, is recorded
        if tools not in ("played", "real"):
            raise ConfigurationError(f"tools are 'played' or 'real', not {tools!r}")
        contents = read(path)
        self.path = str(path)
        self.cut = contents.cut
        """What was left out at the end of the file; empty if nothing was."""
        self._score = _chosen(self.path, _scores(self.path, contents.of("run")), take, task)
        given = list(faults)
        self.faults = Faults(given)
        self.tools: Tools = tools
        self.exact = tools == "played" and not given
        """Every fact is compared with the recorded one."""
        self.missed: CassetteMiss | None = None
        """The first thing that was not as recorded."""
        self._asked = False
        self.facts: dict[str, int] = {}
        self._base = 0.0

    def bind(self) -> None:
        self._inner = _inner()
        self._inner.bind()
        self._jump = _jumping() if self._inner.virtual else None
        self.thread = self._inner.thread
        self._base = int(self._inner.clock() * TICKS) / TICKS
        self.clock = self._inner.clock
        self.wall = self._inner.wall
        self.order = Order(self._score.inputs, self.facts, self._due if self._jump is not None else None)
        if not self.exact:
            self.order.open()

    def time(self, ticks: int) -> float:
        """The recorded time on the clock of this loop."""
        return self._base + ticks / TICKS

    def reached(self, time: float) -> float:
        """The clock says so: virtual time, and with it each timer that is set now, goes along."""
        if self._jump is not None and (seconds := time - self._inner.clock()) > 0:
            self._jump(seconds)
        return time

    def post(self, function: Callable[[], Any]) -> bool:
        return self._inner.post(function)

    def random(self) -> float:
        return self._inner.random()

    def new_id(self, prefix: str = "") -> str:
        left = self._score.ids.get(prefix)
        if left:
            return left.popleft()
        if self.exact:
            raise self.miss(f"{self.path} holds no further run: one more is started than when it was recorded")
        return self._inner.new_id(prefix)

    @contextlib.contextmanager
    def outside_work(self) -> Iterator[None]:
        with self._inner.outside_work():
            yield

    def for_run(self, run_id: str, agent: Agent, task: str, parent: Run | None) -> tuple[Agent, Seams]:
        score = self._score.runs.get(run_id)
        if score is None:
            raise self.miss(f"{self.path} holds no further run: one more is started than when it was recorded")
        copied = copy.copy(agent)
        try:
            played = Played(self, score)
            copied.model = PlayedModel(played)
        except (ValueError, msgspec.MsgspecError) as error:  # a line of the right type that holds the wrong things
            raise CassetteError(_unreadable(self.path, error)) from error
        if self.tools == "played":
            copied.tools = {name: played_tool(tool, played) for name, tool in agent.tools.items()}
        played_beside(copied, played, store=self.tools == "played")
        return copied, played

    def miss(self, message: str, lines: str = "") -> CassetteMiss:
        """Note that something is not as recorded. From then on nothing is held to the recorded order."""
        error = CassetteMiss(message, lines)
        self.noted(error, asked=False)
        return error

    def noted(self, error: CassetteMiss, *, asked: bool = True) -> None:
        """The first counts; but what was ``asked`` of a model or a tool says more than the facts it shows in."""
        if self.missed is None or (asked and not self._asked):
            self.missed, self._asked = error, asked
        self.exact = False
        self.order.open()

    def check(self) -> None:
        """Raise the :class:`CassetteMiss` of what was not as recorded, if anything was."""
        if self.missed is not None:
            raise self.missed

    def _due(self, found: Input) -> float:
        return self.time(found.at)


def _scores(path: str, takes: Iterable[Recorded]) -> list[Score]:
    try:
        return [Score(one.lines) for one in takes]
    except (ValueError, CassetteError) as error:
        raise CassetteError(_unreadable(path, error)) from error


def _unreadable(path: str, error: Exception) -> str:
    return f"{path} does not hold what a recording of a run holds: {str(error)[:200]}; record it anew"


def _chosen(path: str, scores: list[Score], take: int | None, task: str | None) -> Score:
    if take is not None:
        if not 1 <= take <= len(scores):
            raise CassetteError(f"{path} holds {len(scores)} recordings of runs, and no number {take}")
        return scores[take - 1]
    if task is None:
        return scores[0]
    found = next((score for score in scores if score.task == task), None)
    if found is None:
        held = "; ".join(repr(score.task[:80]) for score in scores[:5])
        raise CassetteError(f"{path} holds no run with the task {task[:80]!r}; it holds {held}")
    return found


def _inner() -> Seams:
    """Those of the loop that runs: virtual ones in virtual time."""
    from ..testing.virtual import VirtualSeams

    return VirtualSeams() if _jumping() is not None else Seams()


def _jumping() -> Callable[[float], None] | None:
    """How virtual time is moved on by so many seconds; None in real time."""
    if anyio.get_cancelled_exc_class().__module__.startswith("trio"):
        import trio

        clock: Any = trio.lowlevel.current_clock()
        return clock.jump if hasattr(clock, "autojump_threshold") else None
    import asyncio

    from ..testing.virtual import VirtualLoop

    loop = asyncio.get_running_loop()
    return loop.jump if isinstance(loop, VirtualLoop) else None


def _shown(line: bytes) -> list[str]:
    return shown(msgspec.json.decode(line))


class Played(Seams):
    """The seams of one run that is played back, and a fold that compares its facts."""

    def __init__(self, root: Player, score: RunScore) -> None:
        super().__init__()
        self.root = root
        self.score = score
        self.virtual = root.virtual
        self.thread = root.thread
        self.id = score.line.run
        self.redaction = Redaction(patterns=())
        self._last = root.clock()
        self._exact = root.exact
        self._reads: dict[str, deque[int]] = {}
        self._turn_to(0)
        self._details = _details(score) if root.exact else {}
        self.run: Run | None = None
        self._acts: dict[str, Callable[..., Any]] = {}
        """How the host acts on the run, by name."""
        self.says: Callable[[HostDid], None] = lambda line: None
        """Gives a recorded answer to an approval."""
        if self._exact:
            self.clock = self._look
            self.wall = self._look_up
        else:
            self.clock = root.clock
            self.wall = root.wall

    async def enter(self) -> None:
        """Runs that are started at once begin one after the other: who asks first may take what the others lack."""
        if self._exact and self.score.began is not None:
            await self.root.order.turn(self.score.began, held=True)

    def begun(self) -> None:
        """It has sent its first request, or has ended: the next one may begin."""
        if self._exact and self.score.began is not None:
            self.root.order.over(self.score.began)
            self.score.began = None

    def follow(self, run: Run) -> None:
        self.redaction = run.log.redaction
        self.run = run
        if self._exact:
            run.log.attach(self)
            play_consent(run, self)
            if run.parent is None:
                self._expect(run)
            if self.score.host:
                tasks = run.supervisor._tasks
                assert tasks is not None
                tasks.start_soon(self._act, run, name="watchkeeper cassette")

    @property
    def folds(self) -> Mapping[type[Event], Callable[[Any], None]]:
        return dict.fromkeys(ALL, self._fact)

    def post(self, function: Callable[[], Any]) -> bool:
        return self.root.post(function)

    @contextlib.contextmanager
    def outside_work(self) -> Iterator[None]:
        with self.root.outside_work():
            yield

    def random(self) -> float:
        return self.score.chances.popleft() if self._exact and self.score.chances else self.root.random()

    def new_id(self, prefix: str = "") -> str:
        return self.root.new_id(prefix)

    def detail(self, call: str) -> str:
        """The full text of the error with which the call ended then."""
        return self._details.get(call, "")

    def _look(self) -> float:
        left = self._reads.get(site_of(sys._getframe(1)) or "") if self.root.exact else None
        if left:
            self._last = self.root.reached(self.root.time(left.popleft()))
        else:
            self._last = max(self._last, self.root.clock())
        return self._last

    def _look_up(self) -> float:
        return self.score.walls.popleft() if self.score.walls else self.root.wall()

    def _turn_to(self, number: int) -> None:
        """What the clock says from here to fact number ``number`` (from 0)."""
        facts = self.score.facts
        reads = facts[number].reads if number < len(facts) else {}
        self._reads = {site: deque(ticks) for site, ticks in reads.items()}

    def _also(self, number: int) -> None:
        """The same, after what the clock has yet to say from before."""
        before = self._reads
        self._turn_to(number)
        for site, left in self._reads.items():
            left.extendleft(reversed(before.pop(site, ())))
        self._reads.update(before)

    def _blocked_next(self, number: int) -> None:
        """If the next fact is that the loop was blocked, it comes now: it may fall anywhere between two others."""
        facts = self.score.facts
        if number < len(facts) and b'"loop_blocked"' in bytes(facts[number].event) and self.run is not None:
            event = decode_event(bytes(facts[number].event))
            if isinstance(event, LoopBlocked):
                self.run.log.append(LoopBlocked, seconds=event.seconds, frame=event.frame)

    def _fact(self, event: Event) -> None:
        root, facts = self.root, self.score.facts
        if root.exact:
            got = encoded(event)
            recorded = bytes(facts[event.n - 1].event) if event.n <= len(facts) else b"{}"
            if got != recorded:
                lines = difference(_shown(recorded), _shown(got))
                name = type(event).__struct_config__.tag
                error = root.miss(
                    f"fact {event.n} ({name}) of run {self.id} is not the one that was recorded in {root.path}:", lines
                )
                root.post(lambda: self._end(error))
        if isinstance(event, RunEnded):
            self.begun()
        (self._also if isinstance(event, LoopBlocked) else self._turn_to)(event.n)
        root.facts[self.id] = event.n
        root.order.look()
        if root.exact:
            self._blocked_next(event.n)

    def _end(self, error: CassetteMiss) -> None:
        if self.run is not None and self.run.outcome is None:
            self.run.crashed(error)

    # -- the host ----------------------------------------------------------------------------------------------------

    def _expect(self, run: Run) -> None:
        """What the host did is done by the cassette: if the host does it, too, it is not done twice."""
        expected: list[tuple[str, str]] = [(line.do, line.text) for _, line in self.score.host]

        def expecting(name: str, parameter: str, default: str) -> None:
            act = self._acts[name] = getattr(run, name)

            def called(*args: Any, **kwargs: Any) -> Any:
                said = str(args[0] if args else kwargs.get(parameter, default))
                known = (name, self.redaction.text(said))
                if self.root.exact and known in expected:
                    expected.remove(known)
                    return True
                return act(*args, **kwargs)

            setattr(run, name, called)

        for name, parameter, default in STEERING:
            expecting(name, parameter, default)

    async def _act(self, run: Run) -> None:
        for place, line in self.score.host:
            await self.root.order.turn(place, at_once=True)
            if not self.root.exact or run.outcome is not None:
                return
            with contextlib.suppress(RunEndedError, ConfigurationError, ApprovalError):
                self._do(run, line)

    def _do(self, run: Run, line: HostDid) -> None:
        act = self._acts.get(line.do)
        if line.do in ("approve", "deny"):
            self.says(line)
        elif act is not None and line.do in ("cancel", "hand_over"):
            act(line.text, line.mode, deadline=line.seconds)
        elif act is not None and line.do == "pause":
            act(line.text, seconds=line.seconds)
        elif act is not None:
            act(line.text)


def _details(score: RunScore) -> dict[str, str]:
    found = {}
    for fact in score.facts:
        raw = bytes(fact.event)
        if b'"call_ended"' in raw:
            event = decode_event(raw)
            if isinstance(event, CallEnded) and event.detail:
                found[event.result.call_id] = event.detail
    return found
