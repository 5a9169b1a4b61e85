"""``watchkeeper run --detach``: a task goes to the service."""

from __future__ import annotations

import json

import pytest
from cli_stage import Stage

from watchkeeper.cli import main
from watchkeeper.cli.listed import FOREGROUND, Source
from watchkeeper.testing import BACKENDS


@pytest.fixture(params=BACKENDS)
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch, request.param)


async def nothing(stage: Stage) -> None:
    pass


async def no_service(stage: Stage) -> None:
    stage.sources = [Source(FOREGROUND, stage.engine)]


def test_it_prints_the_id_and_goes_away(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(nothing)
    assert main(["run", "Sort it", "--detach", "--agent", "clerk"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("r")
    assert len(shown.out.split()) == 1
    assert "tail -f" in shown.err


def test_what_is_submitted(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(nothing)
    options = ["--agent", "clerk", "--label", "team=blue", "--max-turns", "5", "--money", "0.5", "--attended", "--json"]
    assert main(["run", "Sort it", "--detach", *options]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["state"] == "queued"
    assert {name: status["spec"][name] for name in ("agent", "task", "labels", "limits", "attended")} == {
        "agent": "clerk",
        "task": "Sort it",
        "labels": {"team": "blue"},
        "limits": {"max_turns": 5, "money": 0.5},
        "attended": True,
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--detach"], "needs --agent"),
        (["--detach", "--agent", "a", "--model", "m"], "--model is not for --detach"),
        (["--detach", "--agent", "a", "--continue", "t"], "--continue is not for --detach"),
        (["--detach", "--agent", "a", "--label", "blue"], "NAME=VALUE"),
        (["--agent", "a"], "--agent is for --detach"),
        (["--label", "a=b"], "--label is for --detach"),
        (["--detach", "--agent", "a", "--max-turns", "0"], "max_turns must be at least 1"),
        (["--attended"], "--attended is for --detach"),
        (["--shared-budget", "team"], "--shared-budget is for --detach"),
        (["--detach", "--agent", "a", "--shared-budget", "team"], "--shared-budget: there is no shared budget 'team'"),
    ],
)
def test_wrong_usage(stage: Stage, options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(nothing)
    assert main(["run", "Sort it", *options]) == 2
    assert said in capsys.readouterr().err


def test_without_a_service_it_says_how_to_get_one(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(no_service)
    assert main(["run", "Sort it", "--detach", "--agent", "clerk"]) == 69
    assert "watchkeeper serve" in capsys.readouterr().err
