"""Whatever shape a command's processes take, none of them is left when the call is over."""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from watchkeeper import ToolOutput
from watchkeeper_tools import process, shell

pytestmark = pytest.mark.anyio

Run = Callable[..., Coroutine[None, None, ToolOutput]]

# @up tells the test that the innermost process is there; @sleep is one that can be recognised.
SHAPES = {
    "child": "@up; exec @sleep",
    "grandchild": "sh -c '@up; @sleep; true'; true",
    "background": "sh -c '@up; exec @sleep' & exec @sleep",
    "background alone": "sh -c '@up; exec @sleep' & wait",
    "nohup": "nohup sh -c '@up; exec @sleep' > /dev/null 2>&1 & exec @sleep",
    "setsid": "setsid sh -c '@up; exec @sleep' & exec @sleep",
    "double fork": "(setsid sh -c '(@up; exec @sleep) &' &); exec @sleep",
    "cleared environment": "(env -i PATH=$PATH setsid sh -c '(@up; exec @sleep) &' &); exec @sleep",
    "deaf": "trap '' TERM INT HUP; sh -c '@up; @sleep; @sleep'; exec @sleep",
    "stopped": "sh -c '@up; kill -STOP $$' & exec @sleep",
    "many": "for i in 1 2 3 4 5 6 7 8 9; do @sleep & done; @up; wait",
}


class Tree:
    """A command of one of the shapes, and what is left of it."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)
        self.handle = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)  # both, so that no opener waits for the other
        # A number of seconds that no other process on the machine sleeps for.
        self.token = f"600.{secrets.randbelow(10**12):012}"

    def argv(self, shape: str) -> list[str]:
        script = shape.replace("@sleep", f"sleep {self.token}").replace("@up", f"echo up > {self.fifo}")
        return ["sh", "-c", script]

    async def up(self) -> None:
        """Wait until the innermost process has said that it is there."""
        with anyio.fail_after(30):
            await anyio.wait_readable(self.handle)
        assert os.read(self.handle, 100) == b"up\n"

    def left(self) -> list[str]:
        """Processes, dead ones that nobody has collected included, that belong to it."""
        found = []
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if self.token.encode() in words and int(name) != os.getpid():
                found.append(f"{name}: {words!r}")
        return found


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    made = Tree(tmp_path)
    yield made
    os.close(made.handle)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(process, "GRACE", 0.2)
    (made,) = shell.tools(root=tmp_path)
    function: Run = made.function
    return function


@pytest.mark.parametrize("shape", SHAPES)
async def test_cancel_leaves_nothing(run: Run, tree: Tree, shape: str) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: run(argv=tree.argv(SHAPES[shape])))
        await tree.up()
        if shape != "stopped":
            assert tree.left()
        group.cancel_scope.cancel()
    assert tree.left() == []


@pytest.mark.parametrize("shape", ["grandchild", "double fork", "deaf"])
async def test_timeout_leaves_nothing(run: Run, tree: Tree, shape: str) -> None:
    answer = await run(argv=tree.argv(SHAPES[shape]), seconds=1)
    assert answer.error == "timeout"
    assert answer.content == "[ended after 1 seconds: it was not done]"
    assert tree.left() == []


async def test_what_a_command_leaves_running_is_ended_with_it(run: Run, tree: Tree) -> None:
    shape = "@sleep & nohup @sleep & setsid @sleep & (setsid sh -c '(@up; @sleep) &' &); head -n 1 FIFO"
    answer = await run(argv=tree.argv(shape.replace("FIFO", str(tree.fifo))), seconds=60)
    assert answer.error is None
    assert answer.content.startswith("up\n[")
    assert answer.content.endswith(" processes that it left running were ended]")
    assert tree.left() == []


async def test_a_command_that_kills_its_reaper_is_found_by_its_mark(run: Run, tree: Tree) -> None:
    answer = await run(argv=tree.argv("setsid @sleep & kill -KILL $PPID; @sleep"), seconds=60)
    assert answer.error == "stopped"
    assert "may still be running" in answer.content
    assert tree.left() == []


async def test_a_command_that_signals_its_own_group_or_its_reaper(run: Run, tree: Tree) -> None:
    assert (await run(argv=tree.argv("@sleep & kill 0; @sleep"))).error == "signal_15"
    assert (await run(argv=tree.argv("@sleep & kill $PPID; @sleep"))).error == "signal_15"
    assert tree.left() == []


async def test_a_cancel_before_the_start_starts_nothing_that_stays(run: Run, tree: Tree) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run(argv=tree.argv("@sleep"))
    assert scope.cancelled_caught
    assert tree.left() == []


async def test_cancel_of_one_leaves_the_others_alone(run: Run, tree: Tree, tmp_path: Path) -> None:
    answers = []

    async def other() -> None:
        answers.append(await run(argv=["cat", str(tmp_path / "go")]))

    os.mkfifo(tmp_path / "go")
    async with anyio.create_task_group() as group:
        group.start_soon(other)
        async with anyio.create_task_group() as inner:
            inner.start_soon(lambda: run(argv=tree.argv(SHAPES["setsid"])))
            await tree.up()
            inner.cancel_scope.cancel()
        await anyio.to_thread.run_sync((tmp_path / "go").write_text, "well\n")
    assert [answer.content for answer in answers] == ["well\n"]


HOST = """
import sys, anyio
from watchkeeper_tools import shell
(made,) = shell.tools(root=sys.argv[1])
anyio.run(lambda: made.function(argv=sys.argv[3:]), backend=sys.argv[2])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_when_the_host_is_killed_its_commands_end(tmp_path: Path, backend: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    handle = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    # The fifo stays open in the sleeping process: its end of file is the proof that the process is gone.
    script = f"exec 3> {fifo}; echo ready >&3; setsid sleep 600"
    try:
        with subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path), backend, "sh", "-c", script]) as host:
            assert read(handle) == b"ready\n"
            host.send_signal(signal.SIGKILL)
        assert read(handle) == b""
    finally:
        os.close(handle)


def read(handle: int) -> bytes:
    assert select.select([handle], [], [], 20)[0]
    return os.read(handle, 100)
