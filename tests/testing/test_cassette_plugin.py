"""The fixture ``cassette``: records where it is told to, plays from then on, and costs nothing where it is not used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TEST = '''
import anyio, pytest
from watchkeeper import Agent, Message, OpenAIModel, Supervisor, tool
from watchkeeper.model import Request
from watchkeeper.testing import ChatServer, Say, ScriptedModel, call, say

ASKED = "{asked}"

async def reply(model):
    async with model.stream(Request((Message("user", ASKED),))) as chunks:
        return [chunk async for chunk in chunks]

def test_traffic(cassette):
    async def main():
        async with ChatServer([Say("hello")]) as server, cassette.client() as client:
            assert "hello" in str(await reply(OpenAIModel("m", base_url=server.base_url, http_client=client)))
            return len(server.requests)
    assert anyio.run(main) == {requests}

@tool(effect="reads")
async def look() -> str:
    """Look."""
    return "seen"

def test_run(cassette):
    async def main():
        async with Supervisor(seams=cassette.seams(), plugged=False) as supervisor:
            agent = Agent(ScriptedModel([call(("look", {{}})), say("Done.")]), [look])
            return (await (await supervisor.start(agent, ASKED)).wait()).status
    assert anyio.run(main) == "completed"
'''


def run_tests(folder: Path, *more: str, asked: str = "hi", requests: int = 0) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(TEST.format(asked=asked, requests=requests))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "watchkeeper.testing.plugin", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *more, str(folder)], capture_output=True, text=True, timeout=120, cwd=folder)


def test_it_records_once_and_plays_from_then_on(tmp_path: Path) -> None:
    missing = run_tests(tmp_path)
    assert "there is no cassette" in missing.stdout
    assert "record it with --cassettes=once" in missing.stdout
    assert run_tests(tmp_path, "--cassettes=once", requests=1).returncode == 0
    names = sorted(path.name for path in (tmp_path / "cassettes" / "test_it").iterdir())
    assert names == ["test_run.run.jsonl", "test_traffic.http.jsonl"]
    assert run_tests(tmp_path).returncode == 0
    assert run_tests(tmp_path, "--cassettes=once").returncode == 0
    changed = run_tests(tmp_path, asked="something else")
    assert changed.returncode == 1
    assert "no recording of POST" in changed.stdout
    assert '+   "content": "something else"' in changed.stdout
    assert run_tests(tmp_path, "--cassettes=anew", asked="something else", requests=1).returncode == 0


@pytest.mark.parametrize("slow", ["openai", "httpx2", "watchkeeper.cassette", "anyio"])
def test_loading_it_loads_nothing_slow(slow: str) -> None:
    code = f"import sys, watchkeeper.testing.plugin; sys.exit({slow!r} in sys.modules and 3)"
    before = f"import sys, pytest; sys.exit({slow!r} in sys.modules and 4)"
    if subprocess.run([sys.executable, "-c", before], timeout=60).returncode == 4:
        pytest.skip(f"pytest itself loads {slow}")
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
