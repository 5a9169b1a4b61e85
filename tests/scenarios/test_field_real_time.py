"""What only the real clock shows: blocked loops, threads, processes, and the processor time of waiting."""

from __future__ import annotations

import gc
import os
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from stage import Ran, ended

from support import facts, of, scripted
from watchkeeper import Agent, Limits, Run, Supervisor, load_tools, tool
from watchkeeper.messages import CallStarted, LoopBlocked
from watchkeeper.profiles import Profile
from watchkeeper.testing import call, say
from watchkeeper.thresholds import Thresholds

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


async def finish(agent: Agent) -> Ran:
    async with Supervisor(plugged=False) as supervisor:
        run = await supervisor.start(agent, "task")
        await run.wait()
        return await ended(run)


async def started(run: Run, calls: int) -> None:
    """Wait until so many calls have been started."""
    async for event in run.events():
        calls -= isinstance(event, CallStarted)
        if not calls:
            return
    raise AssertionError("the run ended before that")


async def test_canc_05_waiting_for_a_shielded_tool_costs_no_processor_time() -> None:
    @tool(effect="reads")
    async def clean_up() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
        return ""

    async with Supervisor(plugged=False, monitor=False) as supervisor:
        run = await supervisor.start(Agent(scripted(call(("clean_up", {}))), [clean_up]), "task")
        await started(run, 1)
        await anyio.wait_all_tasks_blocked()
        gc.disable()  # what other tests have left costs a fifth of a second to look through
        try:
            began, used = time.monotonic(), time.process_time()
            run.cancel()
            await run.wait()
            seconds, used = time.monotonic() - began, time.process_time() - used
        finally:
            gc.enable()
        ran = await ended(run)
    assert ran.kinds == ["cancelled"]
    assert seconds >= 1
    assert used / seconds < 0.05


class Blocking:
    """Plain functions that wait until they are let go, and how many are in there."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.entered = 0

    def tools(self, timeout: float) -> list[Any]:
        @tool(effect="nothing", timeout=timeout)
        def receive(n: int) -> str:
            """Wait on a socket, say."""
            self.entered += 1
            self.let_go.wait(600)
            return "received"

        return [receive]


async def test_thrd_01_a_thread_that_hangs_is_left_behind_counted_and_capped() -> None:
    blocking = Blocking()
    steps = [call(*[("receive", {"n": n + 10 * turn}) for n in range(4)]) for turn in range(3)]
    try:
        ran = await finish(Agent(scripted(*steps, say("done")), blocking.tools(0.2)))
    finally:
        blocking.let_go.set()
    assert ran.end == ("completed", "answer")
    assert ran.kinds == ["timed_out"] * 8 + ["not_run"] * 4
    assert [result.error for result in ran.results] == ["timeout"] * 8 + ["no_thread"] * 4
    assert blocking.entered == 8
    assert all(0.2 <= record.ran < 1.0 for record in ran.outcome.calls[:8])
    assert "8 earlier calls never ended" in ran.seen[-1]


async def test_thrd_01_a_cancel_comes_back_at_once() -> None:
    blocking = Blocking()
    try:
        async with Supervisor(plugged=False) as supervisor:
            run = await supervisor.start(Agent(scripted(call(("receive", {"n": 1}))), blocking.tools(60)), "task")
            while not blocking.entered:
                await anyio.sleep(0.001)
            run.cancel()
            outcome = await run.wait()
    finally:
        blocking.let_go.set()
    assert [record.kind for record in outcome.calls] == ["abandoned"]
    assert (outcome.calls[0].frame or "").endswith("in wait")
    assert (outcome.cancel_seconds or 0) < 0.5


async def test_thrd_02_control_returns_at_the_timeout() -> None:
    blocking = Blocking()
    began = time.monotonic()
    try:
        ran = await finish(Agent(scripted(call(("receive", {"n": 1})), say("done")), blocking.tools(0.1)))
        seconds = time.monotonic() - began
    finally:
        blocking.let_go.set()
    assert ran.kinds == ["timed_out"]
    assert ran.outcome.calls[0].ran < 0.3
    assert seconds < 1.0


def test_thrd_02_the_interpreter_does_not_wait_for_the_thread() -> None:
    code = """
import sys, time, anyio
from watchkeeper import Agent, Supervisor, tool
from watchkeeper.testing import ScriptedModel, call, say

@tool(effect="reads", timeout=0.1)
def sleepy() -> str:
    "Sleep."
    time.sleep(60)

async def main():
    async with Supervisor(plugged=False) as supervisor:
        run = await supervisor.start(Agent(ScriptedModel([call(("sleepy", {})), say("done")]), [sleepy]), "task")
        print((await run.wait()).status)

anyio.run(main, backend=sys.argv[1])
"""
    for name in ("asyncio", "trio"):
        done = subprocess.run(
            [sys.executable, "-c", code, name], capture_output=True, text=True, timeout=15, check=True
        )
        assert done.stdout.strip() == "completed"


def spin(seconds: float) -> None:
    """Hold the loop, as a defect would."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def test_blck_01_a_tool_that_blocks_the_loop_is_named_by_a_thread() -> None:
    @tool(effect="reads")
    async def rude() -> str:
        time.sleep(0.5)
        return "done"

    @tool(effect="reads")
    def polite() -> str:
        time.sleep(0.5)
        return "done"

    blocked = await finish(Agent(scripted(call(("rude", {})), say("done", delay=0.3)), [rude]))
    (fact,) = [fact for fact in blocked.of(LoopBlocked) if fact.frame.endswith("in rude")]
    assert 0.1 < fact.seconds < 2
    assert blocked.end == ("completed", "answer")
    # Plain functions are off the loop by default: another run goes on meanwhile.
    async with Supervisor(plugged=False) as supervisor:
        slow = await supervisor.start(Agent(scripted(call(("polite", {})), say("done")), [polite]), "slow")
        await started(slow, 1)
        other = await supervisor.start(Agent(scripted(call(("look", {"what": "a"})), say("done")), [look]), "other")
        await other.wait()
        assert slow.outcome is None
        await slow.wait()
        assert of(await facts(slow), LoopBlocked) == []


@pytest.mark.parametrize("where", ["tool", "bystander"])
async def test_blck_02_a_loop_that_was_blocked_is_no_silence(where: str) -> None:
    """The watchdog sees that it is late itself; nothing is started twice."""

    @tool(effect="reads")
    async def work(n: int) -> str:
        if where == "tool":
            spin(0.7)
        await anyio.sleep(0.05)
        return f"worked {n}"

    profile = Profile(thresholds=Thresholds(silence=0.2))
    steps = [call(("work", {"n": 1})), call(("work", {"n": 2})), say("done")]
    async with Supervisor(plugged=False, monitor=False) as supervisor:
        run = await supervisor.start(Agent(scripted(*steps), [work], profile=profile), "task")
        await started(run, 1)
        if where == "bystander":
            spin(0.7)
        await run.wait()
        ran = await ended(run)
    assert ran.end == ("completed", "answer")
    assert ran.kinds == ["finished", "finished"]
    assert ran.executed == 2


SHAPES = {
    "a child in the background": "sleep {token} & sleep {token}",
    "setsid": "setsid sleep {token} & sleep {token}",
    "a double fork": "(setsid sh -c 'sleep {token} &' &); sleep {token}",
}


def left(token: str) -> list[str]:
    """Processes of a command, by the number that only they sleep for."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sleep" and token.encode() in words:
            found.append(name)
    return found


@pytest.mark.parametrize("shape", SHAPES)
async def test_proc_01_proc_02_a_cancel_ends_the_whole_tree_of_a_command(shape: str, tmp_path: Path) -> None:
    token = f"600.{secrets.randbelow(10**12):012}"
    tools = load_tools("shell", root=tmp_path)
    argv = {"argv": ["sh", "-c", SHAPES[shape].format(token=token)]}
    async with Supervisor(plugged=False) as supervisor:
        agent = Agent(scripted(call(("run_command", argv))), tools, limits=Limits(grace=10))
        run = await supervisor.start(agent, "task")
        with anyio.fail_after(10):
            while len(left(token)) < 2:
                await anyio.sleep(0.01)
        run.cancel("enough")
        await run.wait()
        ran = await ended(run)
    assert left(token) == []
    assert ran.end == ("cancelled", "enough")
    assert ran.kinds == ["cancelled"]


async def test_outp_01_a_command_that_writes_for_ever(tmp_path: Path) -> None:
    tools = load_tools("shell", root=tmp_path)
    argv = {"argv": ["sh", "-c", "yes | head -c 30000000; yes"], "seconds": 1}
    ran = await finish(Agent(scripted(call(("run_command", argv)), say("done")), tools))
    (result,) = ran.results
    assert len(result.content) < 23_000
    assert result.error in ("timeout", "too_much_output")
    assert ran.end == ("completed", "answer")
