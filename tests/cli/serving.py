"""What the tests of the command line share: a model's server beside them, and the program as a process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from watchkeeper import Event, decode_event
from watchkeeper.testing.server import ChatServer, Script

PROGRAM = [sys.executable, "-c", "import sys; from watchkeeper.cli import main; sys.exit(main())"]
TIMEOUT = 60
STUBBORN = '''
import sys, time
import anyio
from watchkeeper import tool

@tool(effect="reads", timeout=None)
async def cling() -> str:
    """Swallow every cancel for ever."""
    while True:
        try:
            await anyio.sleep(0.1)
        except BaseException:
            pass

@tool(effect="reads", timeout=None)
async def block() -> str:
    """Hold the event loop itself, in short sleeps: a signal that comes just before a long one waits for its end."""
    print("blocking", file=sys.stderr, flush=True)
    for _ in range(2_400):
        time.sleep(0.05)

def tools(**options):
    return [cling, block]
'''


@contextlib.contextmanager
def served(script: Script | Mapping[str, Script], **settings: Any) -> Iterator[ChatServer]:
    """A model's server in an event loop of its own, while the test is not in one."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(ChatServer(script, **settings)) as server:
        yield server


def environment(**more: str) -> dict[str, str]:
    """That of the tests without what would tell the program where its model is. A path for modules comes before the
    one that the tests themselves are run with: the program is the one that they test."""
    path = os.environ.get("PYTHONPATH")
    if path and "PYTHONPATH" in more:
        more["PYTHONPATH"] = os.pathsep.join((more["PYTHONPATH"], path))
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")} | more


def run_program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    options.setdefault("env", environment())
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=TIMEOUT, **options)


def install_stubborn_tools(folder: Path) -> str:
    """A tool set ``stubborn`` as a third party would bring it; the value of PYTHONPATH with which it is installed."""
    (folder / "stubborn_tools.py").write_text(STUBBORN)
    info = folder / "stubborn_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stubborn-tools\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[watchkeeper.tools]\nstubborn = stubborn_tools:tools\n")
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


class Program:
    """A run as a process, followed by the events that it prints."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        self.events: list[Event] = []

    def until(self, kind: str) -> dict[str, Any]:
        """Read events up to the next of this type; it as plain data."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(decode_event(line))
            found: dict[str, Any] = json.loads(line)
            if found["type"] == kind:
                return found
        assert self.process.stderr is not None
        raise AssertionError(f"no {kind} came; standard error: {self.process.stderr.read()}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Read to the end; exit code and what was said on standard error."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.events += [decode_event(line) for line in self.process.stdout]
        errors = self.process.stderr.read()
        return self.process.wait(TIMEOUT), errors

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
