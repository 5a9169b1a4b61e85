"""Logs of runs that a person attended, and of modes that were said where a run was started: judged as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from recording import write

from support import facts, supervised
from watchkeeper import Agent, Limits, Profile, tool
from watchkeeper.cli import main
from watchkeeper.messages import Event, Paused, encode_event
from watchkeeper.testing import ScriptedModel, call

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@tool(effect="reads")
async def look(n: int = 0) -> str:
    """Look."""
    return "as ever"


async def log_of(resumes: int, **start: Any) -> list[Event]:
    """The log of a run that makes the same call for ever and is let go on so many times."""
    model = ScriptedModel(lambda request, n: call(("look", {}), delay=1.0))
    agent = Agent(model, [look], profile=Profile(limits=Limits(max_turns=40, pause=600.0)))
    async with supervised(keep=10_000) as supervisor:
        run = await supervisor.start(agent, "task", **start)
        async for event in run.events():
            if isinstance(event, Paused) and resumes:
                resumes -= 1
                await anyio.sleep(1)
                run.resume()
        await run.wait()
        return await facts(run)


def row_of(events: list[Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    file = write(tmp_path / "log.jsonl", [encode_event(event) + b"\n" for event in events])
    capsys.readouterr()
    assert main(["replay", "--json", str(file)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[0])
    assert main(["replay", str(file), "--report", str(tmp_path / "page.html")]) == 0
    return found


@pytest.mark.parametrize("resumes", [0, 1, 3])
async def test_pauses(resumes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = await log_of(resumes, attended=True)
    row = row_of(events, tmp_path, capsys)
    assert "differs" not in row
    assert (row["nudged_at"], row["blocked_at"], row["paused_at"]) == (2, 4, 7)
    assert "paused at call 7" in capsys.readouterr().out
    assert sum(isinstance(event, Paused) for event in events) == resumes + 1


@pytest.mark.parametrize("mode", ["observe", "nudge"])
async def test_modes(mode: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = row_of(await log_of(0, mode=mode), tmp_path, capsys)
    assert "differs" not in row
    assert (row["nudged_at"], row["blocked_at"]) == (2 if mode == "nudge" else None, None)
