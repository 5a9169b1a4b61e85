"""``watchkeeper ps`` and ``show``: the runs that there are, in a pipe and as JSON."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from cli_stage import Leaving, Stage

from watchkeeper.cli import finding, main, watching
from watchkeeper.cli.columns import plain
from watchkeeper.cli.listed import FOREGROUND, SERVICE, Source
from watchkeeper.engine import EngineError, RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.service.client import Refused, Unreachable
from watchkeeper.service.places import Places
from watchkeeper.testing import BACKENDS


@pytest.fixture(params=BACKENDS)
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch, request.param)


async def two_runs(stage: Stage) -> None:
    await stage.run("r00000001", "Sum up\nthe notes", "writer", team="blue")
    await stage.run("r00000002")
    await stage.run("r00000003", "Over and done with")
    await stage.end("r00000003")


def table(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines()]


def test_what_runs_is_listed_newest_first(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(two_runs)
    assert main(["ps"]) == 0
    heads, *rows = table(capsys.readouterr().out)
    assert heads[:4] == ["RUN", "STATE", "AGENT", "DOING"]
    assert [row[:4] for row in rows] == [
        ["r00000002", "running", "clerk", "file"],
        ["r00000001", "running", "writer", "file"],
    ]
    assert "2/20" in rows[0]
    assert "1.2k" in rows[0]
    assert rows[1][-2:] == ["Sum", "up"] or "Sum up" in " ".join(rows[1])


def test_all_has_those_that_have_ended_with_their_outcome(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(two_runs)
    assert main(["ps", "-a"]) == 0
    assert table(capsys.readouterr().out)[1][:4] == ["r00000003", "completed", "clerk", "answer"]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (["--agent", "writer"], ["r00000001"]),
        (["--label", "team=blue"], ["r00000001"]),
        (["--label", "team=red"], []),
        (["--state", "completed"], ["r00000003"]),
        (["--state", "running,completed", "-n", "1"], ["r00000003"]),
        (["--state", "queued"], []),
    ],
)
def test_filters(stage: Stage, capsys: pytest.CaptureFixture[str], options: list[str], runs: list[str]) -> None:
    stage.set(two_runs)
    assert main(["ps", "--json", *options]) == 0
    assert [json.loads(line)["run"] for line in capsys.readouterr().out.splitlines()] == runs


def test_of_more_runs_than_are_shown_that_is_said(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(two_runs)
    for limit, said in ((1, "this is the newest run:"), (2, "these are the newest 2 runs:")):
        assert main(["ps", "-n", str(limit)]) == 0
        assert said in capsys.readouterr().err


def test_json_has_the_fields_of_a_status_and_where_it_is(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(two_runs)
    assert main(["ps", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found[0]["state"] == "running"
    assert found[0]["where"] == "service"
    assert found[0]["spec"]["agent"] == "clerk"
    assert "died" not in found[0]


def test_a_queued_run_says_so_in_json_too(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def queued(stage: Stage) -> None:
        await stage.queue("r1")

    stage.set(queued)
    assert main(["ps", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "queued"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--state", "lost"], "it is one of queued"),
        (["--label", "blue"], "NAME=VALUE"),
        (["--limit", "0"], "from 1"),
        (["--watch"], "terminal"),
    ],
)
def test_wrong_usage(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", *options]) == 2
    assert said in capsys.readouterr().err


def test_what_died_with_its_process_is_said_to_have_died(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def died(stage: Stage) -> None:
        await stage.run("r1")
        stage.sources = [Source(FOREGROUND, stage.engine, alive=False)]

    stage.set(died)
    assert main(["ps", "-a"]) == 0
    assert table(capsys.readouterr().out)[1][:2] == ["r1", "died"]
    assert main(["ps", "--json", "-a"]) == 0
    assert json.loads(capsys.readouterr().out)["died"] is True
    assert main(["show", "r1"]) == 0
    assert "its process has died" in capsys.readouterr().out


def test_a_service_that_is_lost_is_said_beside_what_there_is(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lost = {"service": Unreachable("the service does not answer: start it with watchkeeper serve")}
    stage.set(two_runs)
    assert main(["ps"]) == 69
    shown = capsys.readouterr()
    assert "r00000001" in shown.out
    assert "does not answer" in shown.err


@pytest.mark.parametrize("command", [["ps"], ["ps", "-a"], ["approvals", "ls"], ["cancel", "--all", "--yes"]])
def test_that_there_is_nothing_is_not_said_where_a_source_could_not_be_asked(
    stage: Stage, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    async def nothing(stage: Stage) -> None:
        stage.lost = {"service": Unreachable("it does not answer")}

    stage.set(nothing)
    assert main(command) == 69
    assert capsys.readouterr() == ("", "watchkeeper: it does not answer\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_of_a_service_that_is_not_up_are_counted(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(finding, "BACKEND", backend)
    monkeypatch.setenv("WATCHKEEPER_STATE", str(tmp_path))
    monkeypatch.delenv("WATCHKEEPER_URL", raising=False)
    folder = Places.of().service.make()

    async def submit() -> None:
        async with SqliteEngine(folder.path) as engine:
            for _ in range(2):
                await engine.submit(RunSpec(agent="clerk", task="File them"))

    anyio.run(submit, backend=backend)
    told = "watchkeeper: 2 runs are suspended; no service is up (watchkeeper serve goes on with them)\n"
    assert main(["ps"]) == 0
    assert capsys.readouterr() == ("", told)
    with folder.lives.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(["ps"]) == 69
    assert "suspended" not in capsys.readouterr().err


def test_a_service_without_a_socket_of_its_own_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WATCHKEEPER_STATE", str(tmp_path))
    monkeypatch.delenv("WATCHKEEPER_URL", raising=False)
    folder = Places.of().service.make()
    with folder.lives.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("4711\n")
        held.flush()
        for command in (
            ["ps"],
            ["ps", "-a", "--json"],
            ["cancel", "--all"],
            ["run", "--detach", "--agent", "a", "Do it"],
        ):
            assert main(command) == 69
            shown = capsys.readouterr()
            assert shown.out == ""
            assert "a service is up (process 4711) and has not opened" in shown.err
            assert "WATCHKEEPER_URL and WATCHKEEPER_TOKEN reach it there" in shown.err
    assert main(["ps"]) == 0


def test_nothing_from_a_run_steers_the_terminal(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def hostile(stage: Stage) -> None:
        await stage.run("r1", "\x1b]0;owned\x07\u202etxt", "ag\x1b[31ment")

    stage.set(hostile)
    for command in (["ps"], ["show", "r1"], ["tail", "r1"], ["show", "r1", "--tree"]):
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_columns_in_a_pipe_have_a_word_for_each_cell() -> None:
    assert plain(("A", "B", "C"), [("one", "", "x y"), ("", "two", "")]) == [
        "A    B    C",
        "one  -    x y",
        "-    two  -",
    ]


def test_watching_as_json_ends_when_the_service_has_gone_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def leaves(stage: Stage) -> None:
        await stage.run("r1")
        engine = Leaving(stage.engine, Unreachable("no service answers"))
        stage.sources = [Source(SERVICE, engine)]  # type: ignore[arg-type]

        async def leave() -> None:
            await anyio.sleep(0.1)
            engine.fails = ("list", "get")

        assert stage._tasks is not None
        stage._tasks.start_soon(leave)

    monkeypatch.setattr(watching, "EVERY", 0.02)
    monkeypatch.setattr(watching, "AWAY", 0.1)
    stage.set(leaves)
    assert main(["ps", "--watch", "--json"]) == 69
    shown = capsys.readouterr()
    assert [json.loads(line)["state"] for line in shown.out.splitlines()] == ["running"]
    assert shown.err == "watchkeeper: no service answers\n"


# -- show --------------------------------------------------------------------------------------------------------------


def test_show_tells_how_it_stands(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(two_runs)
    assert main(["show", "r00000001"]) == 0
    shown = capsys.readouterr().out
    for word in ("r00000001", "running", "writer", "Sum up", "team=blue", "does", "file", "1,200", "of 20"):
        assert word in shown


async def refused(stage: Stage) -> None:
    await stage.refuse("r1", "there is no agent 'clerk'\nin this service")


def test_of_a_run_that_nobody_executes_it_is_said_why(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(refused)
    assert main(["ps"]) == 0
    assert "refused: there is no agent" in capsys.readouterr().out
    assert main(["show", "r1"]) == 0
    shown = capsys.readouterr().out
    assert "there is no agent 'clerk' in this service" in " ".join(shown.split())
    assert main(["show", "r1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refused"].startswith("there is no agent")


def test_show_of_one_that_has_ended_has_the_answer(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(two_runs)
    assert main(["show", "@last"]) == 0
    shown = capsys.readouterr().out
    assert "completed (answer)" in shown
    assert "Filed." in shown


async def a_family(stage: Stage) -> None:
    await stage.run("r1")
    await stage.child("r1", "r1child1")
    await stage.child("r1child1", "r1grandchild")
    await stage.child("r1", "r1child2")


def test_a_tree_shows_who_has_started_whom(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(a_family)
    assert main(["show", "r1", "--tree"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[: line.index("r1")] for line in lines] == ["", "├─ ", "│  └─ ", "└─ "]
    assert "r1grandchild"[:8] in lines[2]


def test_a_tree_as_json(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    def names(tree: Any) -> Any:
        return [tree["run"]["run"], *map(names, tree["children"])]

    stage.set(a_family)
    assert main(["show", "r1", "--tree", "--json"]) == 0
    assert names(json.loads(capsys.readouterr().out)) == ["r1", ["r1child1", ["r1grandchild"]], ["r1child2"]]


@pytest.mark.parametrize("given", ["r00000001", "r0000000", "nothing", "", "@last"])
def test_ids(stage: Stage, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(two_runs)
    code = main(["show", given, "--json"])
    shown = capsys.readouterr()
    if given in ("r00000001", "@last"):
        assert code == 0
        assert json.loads(shown.out)["run"] == ("r00000001" if given == "r00000001" else "r00000003")
        return
    assert code == 2
    if given == "r0000000":
        assert all(name in shown.err for name in ("r00000001 (running", "r00000002", "r00000003 (completed"))
    else:
        assert "no run" in shown.err


def test_an_unknown_run_while_the_service_is_lost_is_no_wrong_usage(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.lost = {"service": Unreachable("the service does not answer")}
    stage.set(two_runs)
    assert main(["show", "nothing"]) == 69
    assert "does not answer" in capsys.readouterr().err


def test_the_last_run_is_not_known_while_the_service_is_lost(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lost = {"service": Unreachable("the service does not answer")}
    stage.set(two_runs)
    assert main(["show", "@last"]) == 69
    assert "does not answer" in capsys.readouterr().err
    stage.lost = {f"{FOREGROUND} r0": EngineError("its file is broken")}
    assert main(["show", "@last"]) == 0


def test_a_token_without_the_scope_is_refused_and_not_unreachable(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.lost = {"http://there": Refused("the token has not the scope read", 403, "scope")}
    stage.set(two_runs)
    assert main(["ps"]) == 1
    assert "has not the scope" in capsys.readouterr().err
