"""A worker process for the tests of the foreman: ``standin.py BACKEND BEHAVIOUR MARK``. It behaves so until the file
MARK is there, which it makes first, and is a good worker from its second start on; ``always-…`` never becomes good."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import anyio

from watchkeeper.errors import ConfigurationError
from watchkeeper.seams import Seams
from watchkeeper.service.harness import Duty, leave, work
from watchkeeper.service.wire import Bye, Hello, Reloaded

backend, behaviour, mark = sys.argv[1], sys.argv[2], Path(sys.argv[3])
if not behaviour.startswith("always-") and mark.exists():
    behaviour = "good"
behaviour = behaviour.removeprefix("always-")


def hold_the_loop() -> None:
    while True:
        time.sleep(0.01)


def hold_the_interpreter() -> None:
    re.match(r"(a|aa)+$", "a" * 60 + "b")


async def swallow() -> None:
    """It works on: else it would be found in the loop as often as here."""
    while True:
        with contextlib.suppress(BaseException):
            await anyio.sleep(3600)
        sum(range(100_000))


async def body(duty: Duty, seams: Seams) -> None:
    if behaviour == "refuses":
        raise ConfigurationError("the file is another's")
    stuck = ("c1 (slow)",) if behaviour == "stuck" else ()
    duty.heartbeat.bind(seams, duty.obey, lambda: 7, lambda: stuck)
    duty.on_reload = lambda: duty.heartbeat.say(Reloaded())
    mark.touch()
    duty.heartbeat.say(Hello(backend))
    if behaviour == "block":
        hold_the_loop()
    if behaviour == "interpreter":
        hold_the_interpreter()
    if behaviour == "die":
        os._exit(3)
    if behaviour == "leave":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        os._exit(3)
    async with anyio.create_task_group() as tasks:
        if behaviour == "swallow":
            tasks.start_soon(swallow)
        await duty.over.wait()
        if behaviour == "slow":
            await duty.at_once.wait()
        tasks.cancel_scope.cancel()
    duty.heartbeat.say(Bye())


leave(work(body, backend=backend, drain=30.0))  # type: ignore[arg-type]
