"""The bundle on disk: what it is made of, who may read it, what it never overwrites."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from support import facts, of, scripted, supervised
from watchkeeper import Agent, Bundle, Limits, Run, decode_event, tool
from watchkeeper.cli import main
from watchkeeper.continuing import decoded
from watchkeeper.messages import CallEnded, RunStarted
from watchkeeper.testing import ScriptedModel, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FILES = ["continue.token", "events.jsonl", "report.html", "report.md"]


@tool(effect="reads")
async def look(what: str = "") -> str:
    """Look at something."""
    return f"saw {what}"


async def ended(model: Any, **settings: Any) -> tuple[Run, Bundle]:
    async with supervised(**settings) as supervisor:
        run = await supervisor.start(Agent(model, [look], limits=Limits(max_turns=80, finish_turns=0)), "Look at it.")
        await run.wait()
        return run, Bundle.of(run)


async def test_four_files_for_their_owner_only(tmp_path: Path) -> None:
    run, bundle = await ended(scripted(call(("look", {"what": "a"})), say("Done.")))
    folder = bundle.write(tmp_path / "new" / "folder")
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "continue.token").read_text("utf-8") == f"{bundle.token}\n"
    assert (folder / "report.md").read_text("utf-8") == bundle.markdown()
    assert (folder / "report.html").read_text("utf-8") == bundle.html()
    lines = (folder / "events.jsonl").read_bytes().splitlines()
    assert [decode_event(line) for line in lines] == await facts(run)
    assert repr(bundle) == f"<Bundle of run {run.id}: completed>"


async def test_replay_reads_its_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, bundle = await ended(ScriptedModel(lambda request, n: call(("look", {"what": "a"}))))
    folder = bundle.write(tmp_path / "bundle")
    assert main(["replay", str(folder / "events.jsonl")]) == 0
    assert "equal" in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
async def test_nothing_is_overwritten(name: str, tmp_path: Path) -> None:
    _, bundle = await ended(scripted(say("Done.")))
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match=f"{name} is there already"):
        bundle.write(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text("utf-8") == "mine"


async def test_where_writing_fails_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, bundle = await ended(scripted(say("Done.")))

    def full(self: Bundle) -> Any:
        yield b"{}\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Bundle, "lines", full)
    with pytest.raises(OSError, match="No space left"):
        bundle.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_is_there_is_used(tmp_path: Path) -> None:
    _, bundle = await ended(scripted(say("Done.")))
    (tmp_path / "other.txt").write_text("stays")
    bundle.write(str(tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*FILES, "other.txt"])


async def test_of_a_log_that_was_cut_the_totals_are_whole(tmp_path: Path) -> None:
    run, bundle = await ended(ScriptedModel(lambda request, n: call(("look", {"what": str(n)}))), keep=50)
    report = bundle.report
    assert run.log.first > 1
    assert (report.first, len(bundle.events)) == (run.log.first, run.log.n - run.log.first + 1)
    assert of(list(bundle.events), RunStarted) == []
    assert len(of(list(bundle.events), CallEnded)) < 15
    assert (report.goal, report.agent, report.uses[0].calls, report.calls) == ("Look at it.", "agent", 80, 80)
    assert next(line for line in report.spend if line.name == "turns").spent == 80
    assert next(line for line in report.spend if line.name == "turns").limit == 80
    assert f"begins with fact {report.first:,}" in bundle.html()
    assert f"begins with fact {report.first:,}" in bundle.markdown()
    again = run.outcome
    assert again is not None
    assert decoded(bundle.token).history == again.history  # the conversation is whole
