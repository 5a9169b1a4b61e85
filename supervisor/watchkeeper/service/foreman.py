"""The foreman: keeps worker processes at work, and ends them in bounded time. It decides in vitals and restarts.

A worker that dies is started again, with back-off; it takes its file over and recovers the runs in it. One whose loop
is blocked, that is silent or does not end when told is named with its stack, and killed after its grace; only when all
that it has started is gone is it started again. Too many deaths end the foreman: whoever runs it decides then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import anyio.abc

from ..errors import WatchkeeperError
from ..reports import report
from .child import Child
from .control import Standing, WorkerStatus
from .restarts import Restarts
from .vitals import Vitals
from .wire import AnyOrder, AnySign, Blocked, Bye, Drain, Hello, Reload, Reloaded, ShowStack, Stack, Stop

TICK = 0.1
"""Seconds between two looks at a worker."""
GRACE = 5.0
"""Seconds that a worker may be in trouble, or late, before it is killed; a run's grace period."""
DRAIN = 30.0
"""Seconds that turns get to finish when workers drain."""
SHOWN = 0.5
"""Seconds within which a worker says where it stands; after that it is asked by signal."""


class TooManyDeaths(WatchkeeperError):
    """Raised when workers die again and again; the message names the last one and how it died."""


class Post:
    """The place of one worker: processes come and go, it stays."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.child: Child | None = None
        self.vitals: Vitals | None = None
        self.standing: Standing = "stopped"
        """While there is no process."""
        self.since = time.time()
        self.deaths = 0
        self.stack = ""
        self.problem = ""
        self.settled = anyio.Event()
        """Its first process works, or has died."""
        self.over = anyio.Event()
        self.shown = anyio.Event()

    def enter(self, standing: Standing) -> None:
        self.standing, self.since = standing, time.time()


class Foreman:
    """Starts one worker after the other and keeps them at work until it is told to end.

    ``argv`` gives the command of a worker by its name. ``adopts``: this process is the parent of orphans
    (:func:`.leftovers.adopt`) and starts no other processes. ``environ``: variables for workers beside this process's
    own; ``gone`` is told the id of each worker's process that has ended. Cancelling :meth:`run` kills all workers.
    """

    def __init__(
        self,
        argv: Callable[[str], Sequence[str]],
        names: Sequence[str],
        *,
        grace: float = GRACE,
        restarts: Restarts | None = None,
        adopts: bool = False,
        environ: Mapping[str, str] | None = None,
        gone: Callable[[int], None] = lambda pid: None,
        tell: Callable[..., Any] = report,
    ) -> None:
        self._argv = argv
        self._posts = {name: Post(name) for name in names}
        self._grace = grace
        self._restarts = restarts or Restarts()
        self._adopts = adopts
        self._environ = environ or {}
        self._gone = gone
        self._tell = tell
        self._told: Drain | Stop | None = None
        self._ending = anyio.Event()
        self._pids: set[int] = set()
        self.unstopped: list[str] = []
        """Workers that did not end in time when they were told to, and were killed."""
        self.over = False
        """It has ended, and keeps no workers any more."""

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep all workers at work; return when :meth:`drain` or :meth:`stop` has ended them.

        Ready when each has started once. Raises :class:`TooManyDeaths`, with all workers ended.
        """
        try:
            await self._run(task_status)
        finally:
            self.over = True

    async def _run(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        escalated: list[str] = []
        async with anyio.create_task_group() as tasks:
            for post in self._posts.values():
                if self._told is not None or escalated:
                    break
                tasks.start_soon(self._keep, post, escalated, name=f"worker {post.name}")
                await post.settled.wait()
            task_status.started()
        if escalated:
            raise TooManyDeaths(escalated[0])

    def drain(self, seconds: float = DRAIN) -> None:
        """Have all workers end: no new runs, turns finish, what is left after so many seconds is suspended."""
        self._end(Drain(seconds))

    def stop(self) -> None:
        """Have all workers suspend their runs and end at once."""
        self._end(Stop())

    def reload(self) -> None:
        for post in self._posts.values():
            _tell(post, Reload())

    def workers(self) -> tuple[WorkerStatus, ...]:
        return tuple(_status(post) for post in self._posts.values())

    async def stack(self, worker: str) -> str:
        """Where a worker stands right now; empty if it has no process. Raises ``KeyError`` for an unknown name."""
        post = self._posts[worker]
        if post.child is None:
            return ""
        return await self._ask_stack(post, post.child)

    # -- one worker --------------------------------------------------------------------------------------------------

    async def _keep(self, post: Post, escalated: list[str]) -> None:
        try:
            while self._told is None:
                died = await self._live(post)
                post.settled.set()
                if self._told is not None:
                    break
                post.deaths += 1
                wait = self._restarts.died(post.name, anyio.current_time())
                self._tell("worker_died", worker=post.name, how=died, again_in=wait)
                if wait is None:
                    escalated.append(f"worker {post.name}: {died}; too many have died in a short time")
                    post.enter("failed")
                    self._end(Drain(DRAIN))
                    return
                post.enter("waiting")
                with anyio.move_on_after(wait):
                    await self._ending.wait()
            post.enter("stopped")
        finally:
            post.settled.set()
            post.over.set()

    async def _live(self, post: Post) -> str:
        """One process from its start until nothing of it is left; how it ended, for a person."""
        try:
            child = Child(self._argv(post.name), self._environ)
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        post.child, post.problem = child, ""
        self._pids.add(child.pid)
        vitals = post.vitals = Vitals(self._grace, anyio.current_time())
        post.since = time.time()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen, post, child, vitals)
                tasks.start_soon(self._attend, post, child, vitals)
                status = await child.ended()
                tasks.cancel_scope.cancel()
        finally:
            post.enter("waiting")
            post.child = post.vitals = None
            left = await child.end(self._pids if self._adopts else None)
            self._pids.discard(child.pid)
            self._gone(child.pid)
            if left:
                self._tell("processes_left", worker=post.name, pids=left)
        post.stack = ""
        how = f"killed by signal {-status}" if status < 0 else f"exit code {status}"
        return "; ".join(filter(None, (how, vitals.why, post.problem)))

    async def _listen(self, post: Post, child: Child, vitals: Vitals) -> None:
        async with aclosing(child.signs()) as signs:
            async for sign in signs:
                before = vitals.state
                vitals.hear(sign, anyio.current_time())
                self._take(post, sign)
                if vitals.state != before:
                    post.since = time.time()
                if before in ("blocked", "silent") and vitals.state == "running":
                    self._tell("worker_recovered", worker=post.name)
                    post.stack = ""

    def _take(self, post: Post, sign: AnySign) -> None:
        match sign:
            case Hello():
                post.settled.set()
                self._tell("worker_ready", level="info", worker=post.name, backend=sign.backend)
            case Blocked(stack=stack):
                post.stack = stack
            case Stack(text=text):
                post.stack = text
                post.shown.set()
            case Reloaded(problem=problem):
                self._tell("worker_reloaded", worker=post.name, problem=problem)
            case Bye(problem=problem):
                post.problem = problem
            case _:
                pass

    async def _attend(self, post: Post, child: Child, vitals: Vitals) -> None:
        if self._told is not None:
            self._order(post, self._told)
        while True:
            match vitals.act(anyio.current_time()):
                case "name":
                    post.since, why = time.time(), vitals.why
                    if vitals.state != "blocked":  # that one comes with its stack
                        await self._ask_stack(post, child)
                    self._tell("worker_in_trouble", worker=post.name, why=why, stack=post.stack)
                case "recycle":
                    self._tell("worker_recycled", worker=post.name, why=vitals.why)
                    self._order(post, Drain(self._grace))
                case "kill":
                    if vitals.ending and self._told is not None:
                        self.unstopped.append(post.name)
                    if vitals.state == "silent":  # what holds it may be a thread other than the loop's
                        post.stack = await child.native_stack(whole=True) or post.stack
                    self._tell("worker_killed", worker=post.name, why=vitals.why, stack=post.stack)
                    child.kill()
                    await anyio.sleep_forever()
                case None:
                    before = anyio.current_time()
                    await anyio.sleep(TICK)
                    late = (now := anyio.current_time()) - before - TICK
                    if late > TICK:
                        vitals.away(late, now)

    async def _ask_stack(self, post: Post, child: Child) -> str:
        post.shown = anyio.Event()
        child.tell(ShowStack())
        with anyio.move_on_after(SHOWN) as timer:
            await post.shown.wait()
        if timer.cancelled_caught and post.child is child:
            post.stack = await child.native_stack() or post.stack
        return post.stack

    # -- ending ------------------------------------------------------------------------------------------------------

    def _end(self, order: Drain | Stop) -> None:
        if isinstance(self._told, Stop):
            return
        self._told = order
        self._ending.set()
        for post in reversed(self._posts.values()):
            self._order(post, order)

    def _order(self, post: Post, order: Drain | Stop) -> None:
        if post.child is not None and post.vitals is not None:
            post.vitals.told(order.seconds if isinstance(order, Drain) else 0.0, anyio.current_time())
            post.since = time.time()
            post.child.tell(order)


def _tell(post: Post, order: AnyOrder) -> None:
    if post.child is not None:
        post.child.tell(order)


def _status(post: Post) -> WorkerStatus:
    vitals = post.vitals
    return WorkerStatus(
        name=post.name,
        pid=post.child.pid if post.child is not None else None,
        state=vitals.state if vitals is not None else post.standing,
        runs=vitals.runs if vitals is not None else 0,
        since=post.since,
        restarts=post.deaths,
        stack=post.stack,
    )
