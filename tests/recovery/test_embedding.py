"""The examples of docs/recovery.md, as somebody would embed them."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import BARE, scripted
from watchkeeper import Agent
from watchkeeper.engine import RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.testing import say

pytestmark = pytest.mark.anyio
PAGE = Path(__file__).parent.parent.parent / "docs" / "recovery.md"


def example(name: str) -> Any:
    """A function that the page defines."""
    for text in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if f"def {name}(" in text:
            names: dict[str, Any] = {}
            exec(compile(text, str(PAGE), "exec"), names)
            return names[name]
    raise AssertionError(f"the page has no example {name}")


def agent() -> Agent:
    return Agent(scripted(say("Done.")), profile=BARE)


async def test_submit_and_watch(tmp_path: Path) -> None:
    assert await example("work")(str(tmp_path), agent()) == "Done."


async def test_a_lifespan(tmp_path: Path) -> None:
    lifespan = example("lifespan_of")(str(tmp_path), agent())
    async with lifespan(None) as state:
        status = await state["supervisor"].submit(RunSpec(agent="researcher", task="Do it."))
        async for _ in state["supervisor"].engine.watch(status.run):
            pass
        status = await state["supervisor"].engine.get(status.run)
    assert status.outcome is not None
    assert status.outcome.answer == "Done."


async def test_a_worker_ends_at_a_signal(tmp_path: Path) -> None:
    async with SqliteEngine(str(tmp_path)) as outside:
        await outside.submit(RunSpec(agent="researcher", task="Do it."), run="r1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(example("worker"), str(tmp_path), agent())
            async for _ in outside.watch("r1"):
                pass
            os.kill(os.getpid(), signal.SIGTERM)
        assert (await outside.get("r1")).state == "ended"
