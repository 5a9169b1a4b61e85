"""``watchkeeper demo --real``: its two ways of running a model, the server it starts; opt-in, all of it for real."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from watchkeeper import Call, load_tools
from watchkeeper.arguments import BadArguments, parse
from watchkeeper.cli import main, real
from watchkeeper.cli.exits import CommandError
from watchkeeper.cli.modelserver import find_python, find_script, serve_model
from watchkeeper.cli.view import View
from watchkeeper.testing import ScriptedModel, call, fail, forever, say

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.anyio
NOT_THERE = call(("read_file", {"path": "no.txt"}))


def tools_of(folder: Path) -> dict[str, real.Tool]:
    return {tool.name: tool for tool in load_tools("files", root=folder) if tool.name in real.TOOLS}


async def test_a_bare_loop_goes_on_to_its_cap(tmp_path: Path) -> None:
    model = ScriptedModel(forever(NOT_THERE))
    tally = await real.loop(model, tools_of(tmp_path), "Read it.", View())
    assert (tally.calls, tally.repeated, tally.ended) == (real.STEPS, real.STEPS - 1, f"cap of {real.STEPS} steps")
    assert tally.tokens == 20 * real.STEPS


async def test_the_same_is_stopped_under_watchkeeper(tmp_path: Path) -> None:
    model = ScriptedModel(forever(NOT_THERE))
    tally = await real.supervise(model, tools_of(tmp_path), "Read it.", View())
    assert (tally.calls, tally.repeated, tally.ended) == (5, 4, "stopped: loop, 3 calls refused")
    assert tally.tokens == 20 * 8


async def test_both_take_an_answer(tmp_path: Path) -> None:
    for way in (real.loop, real.supervise):
        tally = await way(ScriptedModel([say("It says nothing.")]), tools_of(tmp_path), "Read it.", View())
        assert (tally.calls, tally.ended) == (0, "answer")


async def test_a_bare_loop_ends_at_an_error(tmp_path: Path) -> None:
    tally = await real.loop(ScriptedModel([fail("context_length")]), tools_of(tmp_path), "Read it.", View())
    assert tally.ended == "error: context_length"


def test_a_bare_loop_tells_the_model_of_anything(tmp_path: Path) -> None:
    tools = tools_of(tmp_path)
    for bad in (Call("1", "sing", "{}"), Call("1", "read_file", "{"), Call("1", "read_file", '{"volume": 11}')):
        assert real.execute(tools, bad).startswith("ERROR: ")


def test_no_ready_made_tool_states_a_bound_that_llama_cpp_makes_no_grammar_of() -> None:
    """Above 2,000 repetitions it silently stops to hold the model to valid calls; the bounds hold here all the same."""

    def bounds(part: Any) -> Iterator[int]:
        if isinstance(part, dict):
            yield from (part[name] for name in ("minLength", "maxLength", "minItems", "maxItems") if name in part)
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            yield from bounds(inner)

    tools = {tool.name: tool for tool in load_tools("files", "shell", "http", "clock", "calc")}
    assert all(bound <= 2000 for tool in tools.values() for bound in bounds(tool.schema))
    assert isinstance(parse(tools["read_file"], json.dumps({"path": "x" * 5000})), BadArguments)


def fake_server(folder: Path, text: str) -> Path:
    script = folder / "model_server.py"
    script.write_text(text)
    return script


async def test_the_server_is_ended_at_the_end(tmp_path: Path) -> None:
    script = fake_server(
        tmp_path,
        "import json, os, sys\n"
        "ready = json.dumps({'base_url': 'http://127.0.0.1:1/v1', 'model': str(os.getpid())})\n"
        "print(ready, 'and more', sep='\\n', flush=True)\n"
        "sys.stdin.read()\n",
    )
    async with serve_model(Path(sys.executable), script) as served:
        assert served.base_url == "http://127.0.0.1:1/v1"
        os.kill(int(served.model), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(served.model), 0)


async def test_a_server_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    script = fake_server(tmp_path, "import sys\nsys.exit('model_server: no weights here')")
    with anyio.fail_after(30), pytest.raises(CommandError, match="no weights here"):
        async with serve_model(Path(sys.executable), script):
            raise AssertionError("it did not start")


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_script() == ROOT / "scripts" / "model_server.py"
    assert find_python(Path(sys.executable)) == Path(sys.executable)
    assert main(["demo", "--real", "--model-python", str(tmp_path / "python")]) == 2
    shown = capsys.readouterr()
    assert "sh scripts/demo --real" in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.real_model
@pytest.mark.skipif(os.environ.get("WATCHKEEPER_REAL_MODEL") != "1", reason="opt-in: WATCHKEEPER_REAL_MODEL=1")
def test_a_real_model(capsys: pytest.CaptureFixture[str]) -> None:
    python = os.environ.get("WATCHKEEPER_MODEL_PYTHON", str(ROOT / ".venv-model" / "bin" / "python"))
    assert main(["demo", "--real", "--model-python", python]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "bare loop" in shown.out
    assert "ended by" in shown.out
