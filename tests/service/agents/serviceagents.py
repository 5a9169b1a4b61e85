"""Agents for the tests of the service, as a distribution that is installed brings them. Each effect is a line in the
file that SERVICE_EFFECTS names; ``tick`` waits for a file GO-N beside it where the task says ``by hand``."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import anyio

from watchkeeper import Agent, current_call, tool
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call, say

EFFECTS = Path(os.environ["SERVICE_EFFECTS"])


def note(text: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(f"{text}\n")


@tool(effect="writes", after_crash="retry")
async def tick(n: int) -> str:
    """Leave a mark, once the file GO-N is there."""
    note(f"begin {n} {current_call().idempotency_key}")
    go = EFFECTS.with_name(f"GO-{n}")
    while not await anyio.Path(go).exists():
        await anyio.sleep(0.02)
    note(f"end {n}")
    return f"tick {n}"


@tool(effect="reads")
async def block(n: int) -> str:
    """Hold the loop, if nobody has before."""
    first = not (held := EFFECTS.with_name("HELD")).exists()
    held.touch()
    while first:
        time.sleep(0.01)
    return "over"


@tool(effect="reads")
async def swallow(n: int) -> str:
    """Swallow its cancel."""
    note("swallowing")
    while True:
        with contextlib.suppress(BaseException):
            await anyio.sleep(3600)


@tool(effect="reads", timeout=7200)
async def idle_away(n: int) -> str:
    """Wait."""
    await anyio.sleep(3600)
    return "waited"


def model(tool: str, turns: int) -> ScriptedModel:
    def step(request: Request, number: int) -> Step:
        done = sum(message.role == "tool" for message in request.messages)
        return say("all done") if done >= turns else call((tool, {"n": done + 1}))

    return ScriptedModel(step, keep_requests=False)


steady = Agent(model("tick", 4), [tick], name="steady")
blocker = Agent(model("block", 1), [block], name="blocker")
swallower = Agent(model("swallow", 1), [swallow], name="swallower")
idle = Agent(model("idle_away", 1), [idle_away], name="idle")
