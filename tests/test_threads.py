"""Plain functions in threads, on the real clock: a thread cannot be killed, only left behind and counted."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from support import scripted
from watchkeeper import Agent, Effect, Supervisor, tool
from watchkeeper.messages import CallEnded, LoopBlocked
from watchkeeper.testing import call, say
from watchkeeper.threads import MAX_ABANDONED

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def gate() -> AsyncIterator[threading.Event]:
    """Stuck threads are let go at the end, whatever the test finds."""
    event = threading.Event()
    try:
        yield event
    finally:
        event.set()


async def test_timeout_abandons_the_thread_and_what_conflicts_is_refused() -> None:
    async with gate() as release, Supervisor(plugged=False) as supervisor:

        @tool(effect=Effect(writes=("x",)), timeout=0.1)
        def stuck() -> str:
            release.wait(20)
            return "at last"

        @tool(effect=Effect(writes=("x",)))
        async def same() -> str:
            return "same"

        @tool(effect=Effect(writes=("y",)))
        def other() -> str:
            return "other"

        steps = [call(("stuck", {})), call(("same", {}), ("other", {})), say("done")]
        began = time.monotonic()
        run = await supervisor.start(Agent(scripted(*steps), [stuck, same, other]), "task")
        outcome = await run.wait()
        assert time.monotonic() - began < 10  # nobody waited for the thread
        ended = [event async for event in run.events() if isinstance(event, CallEnded)]
        assert [event.result.kind for event in ended] == ["timed_out", "refused", "finished"]
        assert ended[1].result.error == "in_the_way"
        assert "stuck" in ended[1].result.content
        assert outcome.status == "completed"


async def test_the_way_is_free_again_when_the_thread_has_ended() -> None:
    async with gate() as release, Supervisor(plugged=False) as supervisor:

        @tool(effect=Effect(writes=("x",)), timeout=0.1)
        def stuck() -> str:
            release.wait(20)
            return "at last"

        @tool
        async def let_go() -> str:
            release.set()
            while supervisor._threads.abandoned:
                await anyio.sleep(0.001)
            return "let go"

        @tool(effect=Effect(writes=("x",)))
        async def same() -> str:
            return "same"

        steps = [call(("stuck", {})), call(("same", {})), call(("let_go", {})), call(("same", {})), say("done")]
        # let_go writes everything by declaration; it is what frees the way, so it declares less here
        let_go.effect = Effect(writes=("y",))
        run = await supervisor.start(Agent(scripted(*steps), [stuck, same, let_go]), "task")
        outcome = await run.wait()
        assert [record.kind for record in outcome.calls] == ["timed_out", "refused", "finished", "finished"]


async def test_cancel_returns_at_once_and_names_the_frame() -> None:
    async with gate() as release, Supervisor(plugged=False) as supervisor:
        inside = threading.Event()

        @tool
        def stuck_here() -> str:
            inside.set()
            release.wait(20)
            return "at last"

        run = await supervisor.start(Agent(scripted(call(("stuck_here", {}))), [stuck_here]), "task")
        while not inside.is_set():
            await anyio.sleep(0.001)
        run.cancel()
        outcome = await run.wait()
        assert outcome.cancel_seconds is not None
        assert outcome.cancel_seconds < 1
        assert outcome.calls[0].kind == "abandoned"
        assert "wait" in (outcome.calls[0].frame or "")


async def test_abandoned_threads_are_capped() -> None:
    async with gate() as release, Supervisor(plugged=False) as supervisor:

        @tool(effect="nothing", timeout=0.05)
        def stuck(n: int) -> str:
            release.wait(20)
            return "at last"

        calls = [("stuck", {"n": n}) for n in range(MAX_ABANDONED)]
        steps = [call(*calls), call(("stuck", {"n": 99})), say("done")]
        run = await supervisor.start(Agent(scripted(*steps), [stuck]), "task")
        outcome = await run.wait()
        kinds = [record.kind for record in outcome.calls]
        assert kinds == ["timed_out"] * MAX_ABANDONED + ["not_run"]


async def test_a_blocked_loop_is_noticed_with_the_guilty_function() -> None:
    @tool(effect="reads")
    async def block_the_loop() -> str:
        time.sleep(0.6)
        await anyio.sleep(0.2)  # the fact is written while the call still runs
        return "done"

    async with Supervisor(plugged=False) as supervisor:
        run = await supervisor.start(
            Agent(scripted(call(("block_the_loop", {})), say("done")), [block_the_loop]), "task"
        )
        await run.wait()
        blocked = [event async for event in run.events() if isinstance(event, LoopBlocked)]
    assert blocked
    assert blocked[0].seconds > 0.3
    assert "block_the_loop" in blocked[0].frame


SCRIPT = """
import sys, time, anyio
from watchkeeper import Agent, Supervisor, tool
from watchkeeper.testing import ScriptedModel, call, say

@tool(timeout=0.1)
def sleepy() -> None:
    time.sleep(60)

async def main() -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(Agent(ScriptedModel([call(("sleepy", {})), say("done")]), [sleepy]), "task")
        print((await run.wait()).calls[0].kind)

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_a_hanging_thread_does_not_hold_up_the_end_of_the_process(library: str) -> None:
    done: Any = subprocess.run(
        [sys.executable, "-c", SCRIPT, library], capture_output=True, text=True, timeout=40, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "timed_out"), done.stderr
