"""``watchkeeper tail``, ``wait`` and ``export``: what runs have done, and how they end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest
from cli_stage import Leaving, Prepare, Stage

from watchkeeper.cli import main
from watchkeeper.cli.listed import FOREGROUND, SERVICE, Source
from watchkeeper.cli.printable import safe_json
from watchkeeper.engine import EngineError
from watchkeeper.messages import CallEnded, Result, RunStarted, Status, decode_event
from watchkeeper.service.client import Unreachable
from watchkeeper.testing import BACKENDS


@pytest.fixture(params=BACKENDS)
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch, request.param)


async def one(stage: Stage) -> None:
    await stage.run("r1")


async def one_that_ends_later(stage: Stage) -> None:
    """It ends while somebody looks on."""
    await stage.run("r1")

    async def end() -> None:
        await anyio.sleep(0.05)
        await stage.end("r1")

    assert stage._tasks is not None
    stage._tasks.start_soon(end)


async def ended(stage: Stage) -> None:
    await stage.run("r1")
    await stage.end("r1")


def leaving(error: EngineError) -> Prepare:
    async def prepare(stage: Stage) -> None:
        await stage.run("r1")
        stage.sources = [Source(SERVICE, Leaving(stage.engine, error))]  # type: ignore[arg-type]

    return prepare


def test_tail_shows_what_was_and_does_not_wait(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one)
    assert main(["tail", "r1"]) == 0
    shown = capsys.readouterr().out
    assert "run r1" in shown
    assert "turn 1" in shown
    assert "completed" not in shown


def test_tail_of_the_last_lines(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one)
    assert main(["tail", "r1", "-n", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["tail", "r1", "-n", "0"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("lines", [[], ["-n", "0"]])
def test_following_goes_on_to_the_end_and_tells_the_outcome(
    stage: Stage, capsys: pytest.CaptureFixture[str], lines: list[str]
) -> None:
    stage.set(one_that_ends_later)
    assert main(["tail", "-f", "r1", *lines]) == 0
    shown = capsys.readouterr().out
    assert "completed (answer)" in shown
    assert "Filed." in shown
    assert ("run r1" in shown) == (not lines)


def test_facts_as_json_lines_come_without_gaps(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one_that_ends_later)
    assert main(["tail", "-f", "r1", "--json"]) == 0
    facts = [decode_event(line) for line in capsys.readouterr().out.splitlines()]
    assert [fact.n for fact in facts] == list(range(1, len(facts) + 1))
    assert type(facts[-1]).__name__ == "RunEnded"


@pytest.mark.parametrize(
    ("options", "numbers"), [(["-n", "2"], [8, 9]), (["--after", "7"], [8, 9]), (["--after", "99"], [])]
)
def test_some_of_the_facts(
    stage: Stage, capsys: pytest.CaptureFixture[str], options: list[str], numbers: list[int]
) -> None:
    stage.set(one)
    assert main(["tail", "r1", "--json", *options]) == 0
    assert [decode_event(line).n for line in capsys.readouterr().out.splitlines()] == numbers


def test_watch_in_a_pipe_is_a_tail_that_follows(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one_that_ends_later)
    assert main(["watch", "r1"]) == 0
    assert "completed (answer)" in capsys.readouterr().out


@pytest.mark.parametrize(("error", "code"), [(Unreachable("no service answers"), 69), (EngineError("it is broken"), 1)])
@pytest.mark.parametrize("command", [["tail", "-f"], ["tail", "-f", "--json"], ["watch"]])
def test_a_service_that_goes_away_ends_the_looking_with_one_line(
    stage: Stage, command: list[str], error: EngineError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.set(leaving(error))
    assert main([*command, "r1"]) == code
    assert capsys.readouterr().err == f"watchkeeper: {error}\n"


def test_what_died_is_not_waited_for(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def died(stage: Stage) -> None:
        await stage.run("r1")
        stage.sources = [Source(FOREGROUND, stage.engine, alive=False)]

    stage.set(died)
    assert main(["tail", "-f", "r1"]) == 0
    assert "died with its process" in capsys.readouterr().err
    assert main(["wait", "r1"]) == 1
    assert "has no outcome" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tail", "r1", "-n", "-1"], "0 or more"),
        (["tail", "r1", "--after", "3"], "--json"),
        (["watch"], "terminal"),
        (["wait"], "say which"),
        (["wait", "r1", "--timeout", "-1"], "more than 0"),
        (["export", "r1", "--format", "html", "--tree"], "report of its own"),
    ],
)
def test_wrong_usage(stage: Stage, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


# -- wait --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        ("completed", "answer", 0),
        ("failed", "crash", 1),
        ("stopped", "loop", 3),
        ("cancelled", "enough", 4),
        ("stopped", "approval_denied", 5),
        ("stopped", "approval_expired", 5),
        ("failed", "approval_denied", 1),
        ("handed_over", "asked", 6),
    ],
)
def test_the_exit_code_is_the_outcome(stage: Stage, status: Status, reason: str, code: int) -> None:
    async def prepare(stage: Stage) -> None:
        await stage.run("r1")
        await stage.end("r1", status, reason)

    stage.set(prepare)
    assert main(["wait", "r1"]) == code


def test_waiting_for_an_end_that_comes(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one_that_ends_later)
    assert main(["wait", "r1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "Filed."
    assert main(["wait", "r1", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_of_several_the_first_that_is_not_0_counts(stage: Stage) -> None:
    async def several(stage: Stage) -> None:
        for run, status in (("r1", "completed"), ("r2", "stopped"), ("r3", "failed")):
            await stage.run(run)
            await stage.end(run, status, "x")  # type: ignore[arg-type]

    stage.set(several)
    assert main(["wait", "r1", "r2", "r3"]) == 3
    assert main(["wait", "r3", "r2", "r1"]) == 1


def test_waiting_has_an_end_too(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one)
    assert main(["wait", "r1", "--timeout", "0.1"]) == 124
    assert "has not ended within 0.1 s" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(Unreachable("no service answers"), 69), (EngineError("it is broken"), 1)])
@pytest.mark.parametrize("command", [["wait"], ["cancel", "--wait"]])
def test_waiting_for_a_service_that_goes_away(
    stage: Stage, command: list[str], error: EngineError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.set(leaving(error))
    assert main([*command, "r1"]) == code
    assert str(error) in capsys.readouterr().err


# -- export ------------------------------------------------------------------------------------------------------------


def test_a_run_as_json_lines_is_what_replay_reads(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.set(ended)
    file = tmp_path / "r1.jsonl"
    assert main(["export", "r1", "--out", str(file)]) == 0
    assert "12 facts of 1 run" in capsys.readouterr().err
    assert [decode_event(line).n for line in file.read_bytes().splitlines()] == list(range(1, 13))
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert main(["replay", str(file)]) == 0


def test_a_tree_has_the_facts_of_its_sub_agents(stage: Stage, tmp_path: Path) -> None:
    async def family(stage: Stage) -> None:
        await stage.run("r1")
        await stage.child("r1", "r1child")

    stage.set(family)
    file = tmp_path / "r1.jsonl"
    assert main(["export", "r1", "--tree", "--out", str(file)]) == 0
    begun = [fact for fact in map(decode_event, file.read_bytes().splitlines()) if isinstance(fact, RunStarted)]
    assert [fact.run for fact in begun] == ["r1", "r1child"]


def test_a_report_is_one_page_and_what_a_tool_said_is_harmless_in_it(stage: Stage, tmp_path: Path) -> None:
    async def hostile(stage: Stage) -> None:
        facts = await stage.run("r1", "<script>alert(1)</script>")
        bad = Result("c1.9", "file", "finished", "<img src=x onerror=alert(1)>", productive=True)
        await stage.more("r1", facts.make(CallEnded, turn=2, result=bad))
        await stage.end("r1")

    stage.set(hostile)
    file = tmp_path / "r1.html"
    assert main(["export", "r1", "--format", "html", "--out", str(file)]) == 0
    page = file.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "<img" not in page


def test_a_report_of_a_run_that_goes_on_is_refused_with_the_remedy(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.set(one)
    assert main(["export", "r1", "--format", "html", "--out", str(tmp_path / "x")]) == 1
    assert "take --format jsonl" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_no_file_is_written_over(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "there"
    file.write_text("mine")
    stage.set(ended)
    assert main(["export", "r1", "--out", str(file)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert file.read_text("utf-8") == "mine"


def test_json_at_a_terminal_cannot_steer_it() -> None:
    assert safe_json('{"text":"\x9b31m"}'.encode()) == b'{"text":"\\u009b31m"}'
