"""A worker process: ``python -m watchkeeper.service.worker ASSIGNMENT``. It alone loads agents, and executes runs.

It takes its file, goes on with what an earlier process of its name has left there, and takes runs from the queue. Told
to drain, it takes no more, lets turns finish and suspends what is left; another process of its name goes on with it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec

from ..configuration import Configuration, Retention
from ..configuration.agents import agents_of, detectors_of, prices_of
from ..engine import EngineError, Unavailable
from ..errors import ConfigurationError
from ..journal import SqliteEngine
from ..observe.configured import observers_of
from ..observers import Observer
from ..plugins import load_guards
from ..reports import report
from ..seams import Seams
from ..supervisor import Supervisor
from .assignment import Assignment
from .harness import Duty, leave, work
from .wire import Bye, Hello, Reloaded

AGAIN = 1.0
"""Seconds after which files that cannot be used now are tried again."""
TIDY = 600.0
"""Seconds between two looks for ended runs that are not kept any longer."""
LOOK = 1.0
"""Seconds between two looks whether its file is there."""


class WorkerProcess:
    """What one worker does from its start to its end."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    async def run(self, duty: Duty, seams: Seams) -> None:
        """Execute runs until the duty is over. Raises :class:`.WatchkeeperError` if it cannot begin, or go on."""
        configuration = self._assignment.given.load()
        with observers_of(configuration, os.environ) as observers:
            async with contextlib.AsyncExitStack() as stack:
                engine = await self._opened(duty, stack)
                if engine is None:
                    return
                supervisor = self._supervisor(configuration, engine, observers)
                async with supervisor:
                    duty.heartbeat.bind(
                        seams, duty.obey, lambda: len(supervisor.runs), lambda: tuple(supervisor.stuck())
                    )
                    duty.on_reload = lambda: duty.heartbeat.say(Reloaded(self._reloaded(supervisor)))
                    duty.heartbeat.say(Hello(self._assignment.backend))
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._tidy, engine, configuration.service.retention)
                        tasks.start_soon(_look_after, engine)
                        await duty.over.wait()
                        tasks.cancel_scope.cancel()
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_until_at_once, duty, tasks.cancel_scope)
                        await supervisor.drain(duty.seconds)
                        tasks.cancel_scope.cancel()
                duty.heartbeat.say(Bye())

    async def _opened(self, duty: Duty, stack: contextlib.AsyncExitStack) -> SqliteEngine | None:
        """The engine, as soon as its files can be used: a full disk is no reason to die again and again. None: the
        duty is over before that."""
        told = ""
        while not duty.over.is_set():
            engine = SqliteEngine(Path(self._assignment.folder), worker=self._assignment.name)
            try:
                return await stack.enter_async_context(engine)
            except Unavailable as error:
                if str(error) != told:
                    told = str(error)
                    report("worker_waits", worker=self._assignment.name, why=told)
            with anyio.move_on_after(AGAIN):
                await duty.over.wait()
        return None

    def _supervisor(
        self, configuration: Configuration, engine: SqliteEngine, observers: Sequence[Observer]
    ) -> Supervisor:
        return Supervisor(
            engine=engine,
            agents=agents_of(configuration, os.environ),
            worker=self._assignment.name,
            max_runs=self._assignment.max_runs,
            prices=prices_of(configuration),
            detectors=detectors_of(configuration),
            guards=load_guards(),
            plugged=False,
            observers=observers,
            drain=0.0,  # the foreman's drain comes before
        )

    async def _tidy(self, engine: SqliteEngine, retention: Retention) -> None:
        """Delete what is not to be kept any longer, now and every ten minutes."""
        days, megabytes = retention.days, retention.megabytes
        while days is not None or megabytes is not None:
            try:
                await engine.prune(
                    older_than=None if days is None else days * 86400,
                    larger_than=None if megabytes is None else int(megabytes * 1_000_000 * self._assignment.share),
                )
            except EngineError as error:
                report("not_pruned", worker=self._assignment.name, why=str(error))
            await anyio.sleep(TIDY)

    def _reloaded(self, supervisor: Supervisor) -> str:
        """Read the configuration anew, for runs that begin from now on; why the old one is kept, or empty."""
        try:
            agents = agents_of(self._assignment.given.load(), os.environ)
        except ConfigurationError as error:
            return str(error)
        assert supervisor.worker is not None
        supervisor.worker.offer(agents)
        return ""


async def _look_after(engine: SqliteEngine) -> None:
    """A process whose file is gone ends: the next one of its name says what has become of the runs in it."""
    while True:
        await anyio.sleep(LOOK)
        engine.check_files()


async def _until_at_once(duty: Duty, scope: anyio.CancelScope) -> None:
    await duty.at_once.wait()
    scope.cancel()


def main(given: str) -> int:
    assignment = msgspec.json.decode(given, type=Assignment)
    return work(WorkerProcess(assignment).run, backend=assignment.backend, drain=assignment.drain)


if __name__ == "__main__":
    leave(main(sys.argv[1]))
