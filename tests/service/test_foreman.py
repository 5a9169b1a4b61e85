"""The foreman with real processes: what dies is started again, what hangs is named and killed, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from watchkeeper.service import foreman as foreman_module
from watchkeeper.service import leftovers
from watchkeeper.service.foreman import Foreman, TooManyDeaths
from watchkeeper.service.restarts import Restarts

pytestmark = pytest.mark.anyio

STANDIN = Path(__file__).with_name("standin.py")
PATIENCE = 30.0


class Told:
    """What a foreman has told its operator."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []
        self._changed = anyio.Event()

    def __call__(self, event: str, **fields: Any) -> None:
        self.all.append((event, fields))
        self._changed.set()
        self._changed = anyio.Event()

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.all if name == event]

    async def until(self, event: str, times: int = 1) -> dict[str, Any]:
        with anyio.fail_after(PATIENCE):
            while len(self.of(event)) < times:
                await self._changed.wait()
        return self.of(event)[times - 1]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def backend(anyio_backend_name: str) -> str:
    return anyio_backend_name


@asynccontextmanager
async def at_work(foreman: Foreman) -> AsyncIterator[None]:
    """A foreman whose workers have started; what is left of them at the end is killed."""
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(foreman.run)
            yield
            tasks.cancel_scope.cancel()


def made(
    tmp_path: Path,
    told: Told,
    grace: float = 0.5,
    backend: str = "asyncio",
    intensity: int = 3,
    **behaviours: str,
) -> Foreman:
    def argv(name: str) -> list[str]:
        return [sys.executable, str(STANDIN), backend, behaviours[name], str(tmp_path / name)]

    return Foreman(argv, list(behaviours), grace=grace, restarts=Restarts(intensity), tell=told)


def states(foreman: Foreman) -> dict[str, str]:
    return {worker.name: worker.state for worker in foreman.workers()}


async def test_workers_start_in_order_and_end_when_told(tmp_path: Path, backend: str, told: Told) -> None:
    foreman = made(tmp_path, told, backend=backend, a="good", b="good")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(foreman.run)
            assert [fields["worker"] for fields in told.of("worker_ready")] == ["a", "b"]
            assert {fields["level"] for fields in told.of("worker_ready")} == {"info"}
            assert states(foreman) == {"a": "running", "b": "running"}
            foreman.reload()
            await told.until("worker_reloaded", 2)
            stack = await foreman.stack("a")
            assert "(event loop)" in stack
            assert "standin.py" in stack
            assert "in body" in stack
            with pytest.raises(KeyError):
                await foreman.stack("z")
            foreman.drain(5)
    assert states(foreman) == {"a": "stopped", "b": "stopped"}
    assert foreman.unstopped == []
    assert [worker.pid for worker in foreman.workers()] == [None, None]


async def test_one_that_dies_is_started_again_and_the_other_is_left_alone(tmp_path: Path, told: Told) -> None:
    foreman = made(tmp_path, told, a="die", b="good")
    async with at_work(foreman):
        await told.until("worker_ready", 3)
        died = told.of("worker_died")
        assert [(one["worker"], one["how"], one["again_in"]) for one in died] == [("a", "exit code 3", 0.0)]
        assert [worker.restarts for worker in foreman.workers()] == [1, 0]
        before = {worker.name: worker.pid for worker in foreman.workers()}
        os.kill(before["b"] or 0, signal.SIGKILL)
        assert (await told.until("worker_died", 2))["how"] == "killed by signal 9"
        await told.until("worker_ready", 4)
        after = {worker.name: worker.pid for worker in foreman.workers()}
        assert after["a"] == before["a"]
        assert after["b"] != before["b"]


@pytest.mark.parametrize(
    ("behaviour", "state", "function"),
    [("block", "blocked", "hold_the_loop"), ("interpreter", "silent", "hold_the_interpreter")],
)
async def test_one_that_hangs_is_named_with_its_stack_and_killed_at_its_grace(
    behaviour: str, state: str, function: str, tmp_path: Path, told: Told
) -> None:
    foreman = made(tmp_path, told, a=behaviour)
    async with at_work(foreman):
        hung = anyio.current_time()
        named = await told.until("worker_in_trouble")
        assert anyio.current_time() - hung < 2.5
        assert function in named["stack"]
        assert states(foreman) == {"a": state}
        assert function in foreman.workers()[0].stack
        killed = await told.until("worker_killed")
        assert function in killed["stack"]
        assert not foreman.unstopped
        await told.until("worker_ready", 2)
        assert states(foreman) == {"a": "running"}
        assert foreman.workers()[0].stack == ""


async def test_one_that_does_not_end_is_named_with_its_stack_and_killed(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreman_module, "SHOWN", PATIENCE)  # its own answer is looked at, however busy the machine is
    foreman = made(tmp_path, told, grace=0.3, a="good", b="always-swallow")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(foreman.run)
            foreman.drain(0.1)
            named = await told.until("worker_in_trouble")
            assert "swallow" in named["stack"]
    assert foreman.unstopped == ["b"]
    assert "told to end" in told.of("worker_killed")[0]["why"]


async def test_a_stop_cuts_a_drain_short(tmp_path: Path, told: Told) -> None:
    foreman = made(tmp_path, told, a="always-slow")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(foreman.run)
            foreman.drain(600)
            assert states(foreman) == {"a": "draining"}
            foreman.stop()
            assert states(foreman) == {"a": "stopping"}
    assert foreman.unstopped == []


async def test_a_worker_may_be_told_by_signal(tmp_path: Path, told: Told) -> None:
    foreman = made(tmp_path, told, a="always-slow")
    async with at_work(foreman):
        pid = foreman.workers()[0].pid or 0
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGTERM)
        while told.of("worker_died") == []:
            os.kill(pid, signal.SIGTERM)  # two that come at once may be one
            await anyio.sleep(0.05)
        assert told.of("worker_died")[0]["how"] == "exit code 0"


async def test_calls_that_swallow_their_cancel_have_their_worker_replaced(tmp_path: Path, told: Told) -> None:
    foreman = made(tmp_path, told, grace=0.3, a="stuck")
    async with at_work(foreman):
        assert "c1 (slow)" in (await told.until("worker_recycled"))["why"]
        await told.until("worker_ready", 2)
        assert not told.of("worker_killed")


async def test_too_many_deaths_end_the_foreman_and_the_others(tmp_path: Path, told: Told) -> None:
    foreman = made(tmp_path, told, intensity=1, a="good", b="always-refuses")
    with anyio.fail_after(PATIENCE), pytest.raises(TooManyDeaths, match=r"worker b: .*the file is another's"):
        await foreman.run()
    assert states(foreman) == {"a": "stopped", "b": "failed"}
    assert len(told.of("worker_died")) == 2


async def test_a_worker_that_cannot_be_started_at_all_is_a_death_too(told: Told) -> None:
    foreman = Foreman(lambda name: ["/nowhere/to/be/found"], ["a"], restarts=Restarts(0), tell=told)
    with pytest.raises(TooManyDeaths, match="cannot be started"):
        await foreman.run()


async def test_what_a_dead_worker_has_started_is_gone_before_it_is_started_again(tmp_path: Path, told: Told) -> None:
    foreman = made(tmp_path, told, a="leave")
    async with at_work(foreman):
        await told.until("worker_died")
        assert not [pid for pid in _children_called("time.sleep(600)")]
        assert not told.of("processes_left")


def _children_called(text: str) -> list[str]:
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if text in line and "ps -eo" not in line]


CONTROL = """
import sys, anyio
from watchkeeper.service.foreman import Foreman
foreman = Foreman(lambda name: sys.argv[1:], ["a"])
async def main():
    async with anyio.create_task_group() as tasks:
        await tasks.start(foreman.run)
        print(foreman.workers()[0].pid, flush=True)
anyio.run(main)
"""


@pytest.mark.parametrize("behaviour", ["good", "interpreter"])
def test_a_worker_dies_with_its_control_process(behaviour: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CONTROL, sys.executable, str(STANDIN), "asyncio", behaviour, str(tmp_path / "a")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as control:
        assert control.stdout is not None
        worker = int(control.stdout.readline())
        descriptor = os.pidfd_open(worker)
        control.kill()
    import select

    assert select.select([descriptor], [], [], PATIENCE)[0], "the worker outlives its control process"
    os.close(descriptor)


def test_orphans_are_adopted_and_collected() -> None:
    code = """
import os, subprocess, sys, time
from watchkeeper.service import leftovers
assert leftovers.adopt()
known = subprocess.Popen(["sleep", "60"])
subprocess.run(["sh", "-c", "sleep 60 & "], check=True)
found = leftovers.adopted({known.pid})
assert len(found) == 1, found
os.kill(found.pop(), 9)
while leftovers.adopted({known.pid}):
    time.sleep(0.01)
assert leftovers.adopted(set()) == {known.pid}
known.kill()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_a_mark_is_found_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {**os.environ, leftovers.MARK: "here"}
    with subprocess.Popen(["cat"], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"there\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"there\n"  # before that the system may not have its environment yet
        assert leftovers.marked("here") == {process.pid}
        assert leftovers.marked("elsewhere") == set()
        process.kill()
