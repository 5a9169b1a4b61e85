"""The control process of ``watchkeeper serve``: what is started in which order, the signals, and the end in reverse.

It watches and forwards, and runs no agent: workers do. Sockets are bound first, for that can fail; then the journal is
opened, the API answers, and workers are started one after the other. The end is the reverse: no more runs are admitted,
workers drain, the API closes, the journal does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from socket import socket

import anyio
import anyio.abc
import msgspec

from ..configuration import Configuration, ConfigurationProblems
from ..engine import Engine, EngineError, Query
from ..errors import ConfigurationError
from ..profiles import shared_amounts
from ..reports import report
from ..states import State
from . import health, leftovers, metrics, stacks
from .app import Service
from .assignment import Assignment, Given
from .control import Report, WorkerStatus
from .foreman import Foreman, TooManyDeaths
from .listening import Bind, Server, bound_to, door_of, listener
from .notify import Notifier
from .places import Folder
from .restarts import Restarts
from .rulebook import AgentRules, rulebook
from .tokenfile import TokenFile

LOOK = 2.0
"""Seconds that the journal has to answer before it counts as not ready."""
OPEN: tuple[State, ...] = ("running", "pausing", "paused", "cancelling", "ending")
SETTLED, ESCALATED = 0, 1
"""Exit codes: it was told to end, and has; workers died too often."""


class ControlProcess:
    """One service of one state folder; also what its API asks about it (:class:`.control.Control`).

    ``engine`` and ``argv`` (the command of a worker by its name) are SQLite's in the folder and our own unless given.
    Raises :class:`ConfigurationError` from :meth:`run` if it cannot begin: another service has the folder, or an
    address is taken.
    """

    def __init__(
        self,
        given: Given,
        configuration: Configuration,
        folder: Folder,
        *,
        engine: Engine | None = None,
        argv: Callable[[str], Sequence[str]] | None = None,
        restarts: Restarts | None = None,
    ) -> None:
        self._restarts = restarts
        self._given_engine = engine
        self._argv = argv or self._own_argv
        self._given = given
        self._configuration = configuration
        self._folder = folder
        self._notifier = Notifier(os.environ)
        self._engine: Engine | None = None
        self._foreman: Foreman | None = None
        self._ending = False
        self._rules: Sequence[AgentRules] = ()

    async def run(self) -> int:
        """Serve until a signal ends it, or workers die too often; the exit code."""
        settings = self._configuration.service
        with contextlib.ExitStack() as stack:
            stack.enter_context(_owned(self._folder))
            binds = [Bind.parse(place, self._folder.api_socket) for place in settings.bind]
            listening = [(bind, stack.enter_context(listener(bind))) for bind in binds]
            adopts = leftovers.adopt()
            self._rules = rulebook(self._configuration, os.environ)
            async with self._given_engine or _engine(self._folder) as engine:
                self._engine = engine
                await self._share_out(self._configuration)
                names = await self._names(engine, settings.workers)
                counts = metrics.place(self._folder.path)
                stack.callback(metrics.end, counts)
                metrics.begin(counts)
                self._foreman = Foreman(
                    self._argv,
                    names,
                    grace=settings.grace,
                    restarts=self._restarts,
                    adopts=adopts,
                    environ={metrics.FOLDER: str(counts)},
                    gone=lambda pid: metrics.process_ended(counts, pid),
                )
                page = Path(__file__).with_name("page")
                async with Service(
                    engine,
                    control=self,
                    tokens=stack.enter_context(contextlib.closing(TokenFile(self._folder.path))),
                    page=page if (page / "index.html").is_file() else None,
                    exposition=lambda engine: metrics.exposition(counts),
                ) as service:
                    return await self._serve(self._foreman, service, listening)

    async def _serve(self, foreman: Foreman, service: Service, listening: Sequence[tuple[Bind, socket]]) -> int:
        bound = [bound_to(bind, made) for bind, made in listening]
        doors = [door_of(bind, self._configuration.service.hosts) for bind in bound]
        servers = [Server(service.door(door), made) for door, (_, made) in zip(doors, listening, strict=True)]
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._signals, foreman)
            tasks.start_soon(self._watchdog)
            async with anyio.create_task_group() as open_doors:
                try:
                    for server in servers:
                        await open_doors.start(server.run)
                    code = await self._work(foreman, ", ".join(map(str, bound)))
                finally:
                    service.close()
                    for server in servers:
                        server.close()
            tasks.cancel_scope.cancel()
        return code

    async def _work(self, foreman: Foreman, where: str) -> int:
        """Keep workers until they have ended."""
        code = SETTLED
        try:
            async with anyio.create_task_group() as crew:
                await crew.start(foreman.run)
                if not self._ending:
                    report("serving", level="info", listening=where, workers=len(foreman.workers()), pid=os.getpid())
                    self._notifier.ready(f"serving at {where}")
        except* TooManyDeaths as errors:
            report("service_failed", why=str(errors.exceptions[0]))
            code = ESCALATED
        self._end()
        if foreman.unstopped:
            report("not_stopped_in_time", workers=foreman.unstopped)
        return code

    # -- what the API asks (control.Control) ---------------------------------------------------------------------------

    @property
    def admitting(self) -> bool:
        return not self._ending

    def workers(self) -> Sequence[WorkerStatus]:
        return self._foreman.workers() if self._foreman is not None else ()

    def rules(self) -> Sequence[AgentRules]:
        return self._rules

    async def stack(self, worker: str) -> str:
        if self._foreman is None:
            raise KeyError(worker)
        return await self._foreman.stack(worker)

    async def live(self) -> Report:
        foreman = self._foreman
        return health.live(working=foreman is not None and not foreman.over, ending=self._ending)

    async def ready(self) -> Report:
        trouble = "it does not answer"
        try:
            with anyio.move_on_after(LOOK):
                assert self._engine is not None
                await self._engine.list(Query(limit=1))
                trouble = ""
        except EngineError as error:
            trouble = str(error)
        free: int | None = None
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self._folder.path).free
        return health.ready(admitting=self.admitting, workers=self.workers(), engine=trouble, free=free)

    # -- signals -------------------------------------------------------------------------------------------------------

    async def _signals(self, foreman: Foreman, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        with anyio.open_signal_receiver(*numbers) as received:
            task_status.started()
            async for number in received:
                if number == signal.SIGHUP:
                    await self._reload(foreman)
                elif number == signal.SIGUSR1:
                    await self._dump(foreman)
                elif self._ending:
                    report("stopping", why=f"a second {signal.Signals(number).name}")
                    foreman.stop()
                else:
                    self._end()
                    seconds = self._configuration.service.drain
                    report("draining", seconds=seconds, how_to_stop_at_once="the same signal again")
                    foreman.drain(seconds)

    def _end(self) -> None:
        if not self._ending:
            self._ending = True
            self._notifier.stopping("draining")

    async def _reload(self, foreman: Foreman) -> None:
        self._notifier.reloading(time.monotonic_ns() // 1000)
        try:
            configuration = self._given.load()
        except ConfigurationProblems as error:
            report("configuration_kept", why="the new one cannot be taken", problems=error.problems)
        else:
            if configuration.service != self._configuration.service:
                report("restart_needed", why="[service] has changed, and is read at the start only")
            rules = rulebook(configuration, os.environ)
            if not any(one.problem for one in rules):  # else workers keep what they have, too
                self._rules = rules
            try:
                await self._share_out(configuration)
            except EngineError as error:
                report("budgets_kept", why=str(error))
            report("configuration_reloaded", level="info")
            foreman.reload()
        self._notifier.ready("serving")

    async def _share_out(self, configuration: Configuration) -> None:
        """Say what the shared budgets hold. One that is no longer named stays as it was, for the runs that have it."""
        assert self._engine is not None
        for name, limits in configuration.budgets.items():
            await self._engine.limits.define(name, shared_amounts(limits))

    async def _dump(self, foreman: Foreman) -> None:
        report("stack", process="control", stack=stacks.text(threading.get_ident(), stacks.tasks_here()))
        for worker in foreman.workers():
            report("stack", process=worker.name, stack=await foreman.stack(worker.name))

    async def _watchdog(self) -> None:
        """From the loop itself: a loop that does not come to it is what systemd has to see."""
        if self._notifier.watchdog is None:
            return
        while True:
            if (await self.live()).ok:
                self._notifier.alive()
            await anyio.sleep(self._notifier.watchdog / 3)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _own_argv(self, name: str) -> list[str]:
        settings = self._configuration.service
        assignment = Assignment(
            name=name,
            folder=str(self._folder.path),
            given=self._given,
            backend=settings.backend,
            max_runs=settings.max_runs,
            drain=settings.drain,
            share=1 / max(settings.workers, 1),
        )
        return [sys.executable, "-m", "watchkeeper.service.worker", msgspec.json.encode(assignment).decode()]

    async def _names(self, engine: Engine, count: int) -> list[str]:
        """The workers to start: those that are configured, and those of earlier times with runs to go on with."""
        names = [f"w{number}" for number in range(1, count + 1)]
        for path in sorted(self._folder.workers.glob("*.db")):
            if path.stem not in names:
                page = await engine.list(Query(worker=path.stem, parent="", states=OPEN, limit=1))
                if page.runs:
                    report("worker_added", worker=path.stem, why="its file has runs that have not ended")
                    names.append(path.stem)
        return names


def _engine(folder: Folder) -> Engine:
    """The journal in its role of control: it executes nothing."""
    from ..journal import SqliteEngine

    return SqliteEngine(folder.path)


@contextlib.contextmanager
def _owned(folder: Folder) -> Iterator[None]:
    """Hold the folder as its one service. Raises :class:`ConfigurationError`."""
    try:
        folder.make()
        lock = os.open(folder.lives, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or folder.path}: {error.strerror or error}; the state folder must be writable "
            "(WATCHKEEPER_STATE names another)"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"{folder.path} is served already, by process {folder.owner()}; end that one, or name another "
                "state folder (WATCHKEEPER_STATE)"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)
