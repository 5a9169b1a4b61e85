"""A worker process: ``python -m watchkeeper.service.worker ASSIGNMENT``. It alone loads agents, and executes runs.

It takes its file, goes on with what an earlier process of its name has left there, and takes runs from the queue. Told
to drain, it takes no more, lets turns finish and suspends what is left; another process of its name goes on with it.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import anyio
import msgspec

from ..configuration import Configuration
from ..errors import WatchkeeperError
from ..seams import Seams
from ..supervisor import Supervisor
from .assignment import Assignment
from .harness import Duty, leave, work
from .wire import Bye, Hello, Reloaded


async def execute(assignment: Assignment, duty: Duty, seams: Seams) -> None:
    """Execute runs until the duty is over."""
    from ..journal import SqliteEngine

    configuration = assignment.given.load()
    async with SqliteEngine(Path(assignment.folder), worker=assignment.name) as engine:
        supervisor = _supervisor(assignment, configuration, engine, seams)
        async with supervisor:
            duty.heartbeat.bind(seams, duty.obey, lambda: len(supervisor.runs), lambda: tuple(supervisor.stuck()))
            duty.on_reload = partial(_reload, assignment, duty, supervisor)
            duty.heartbeat.say(Hello(assignment.backend))
            await duty.over.wait()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_at_once, duty, tasks.cancel_scope)
                await supervisor.drain(duty.seconds)
                tasks.cancel_scope.cancel()
    duty.heartbeat.say(Bye())


async def _at_once(duty: Duty, scope: anyio.CancelScope) -> None:
    await duty.at_once.wait()
    scope.cancel()
