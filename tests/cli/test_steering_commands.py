"""``watchkeeper pause``, ``resume``, ``steer``, ``budget`` and ``approvals``: what runs are told from outside."""

from __future__ import annotations

import io
import json

import pytest
from cli_stage import ARGUMENTS, Stage

from watchkeeper.cli import main
from watchkeeper.engine import AddBudget, Approve, Deny, Pause, Resume, Steer
from watchkeeper.fingerprint import arguments_hash
from watchkeeper.testing import BACKENDS

HASH = arguments_hash(ARGUMENTS.encode())


@pytest.fixture(params=BACKENDS)
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch, request.param)


async def one(stage: Stage) -> None:
    await stage.run("r1")


async def asking(stage: Stage) -> None:
    await stage.run("r1")
    await stage.ask("r1")


@pytest.mark.parametrize(
    ("arguments", "kind", "fields"),
    [
        (["pause", "r1", "--for", "60", "--reason", "lunch"], Pause, {"seconds": 60.0, "reason": "lunch"}),
        (["pause", "r1"], Pause, {"seconds": None, "reason": "paused"}),
        (["resume", "r1", "--reason", "fed"], Resume, {"reason": "fed"}),
        (["steer", "r1", "Look at b."], Steer, {"text": "Look at b."}),
        (
            ["budget", "r1", "--add", "tokens=5_000", "--add", "money=0.5"],
            AddBudget,
            {"amounts": {"tokens": 5000.0, "money": 0.5}},
        ),
    ],
)
def test_what_is_sent(
    stage: Stage, arguments: list[str], kind: type, fields: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    stage.set(one)
    assert main(arguments) == 0
    (sent,) = stage.commands
    assert isinstance(sent, kind)
    assert {name: getattr(sent, name) for name in fields} == fields
    assert sent.run == "r1"
    assert sent.by
    assert capsys.readouterr().out.startswith("r1: ")


def test_a_sub_agent_is_told_itself(stage: Stage) -> None:
    async def family(stage: Stage) -> None:
        await stage.run("r1")
        await stage.child("r1", "r1child")

    stage.set(family)
    assert main(["pause", "r1child"]) == 0
    assert [sent.run for sent in stage.commands] == ["r1child"]


def test_steering_from_standard_input(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Look at c.\n"))
    stage.set(one)
    assert main(["steer", "r1", "-"]) == 0
    assert [sent.text for sent in stage.commands if isinstance(sent, Steer)] == ["Look at c."]


def test_a_refusal_says_why(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.refuses = "it is about to end"
    stage.set(one)
    assert main(["pause", "r1"]) == 1
    assert "refused it: it is about to end" in capsys.readouterr().err
    assert main(["pause", "r1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["taken"] is False


def test_what_is_not_taken_in_time_is_kept(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.deaf = True
    stage.set(one)
    assert main(["pause", "r1", "--timeout", "0.1"]) == 124
    assert "it is kept" in capsys.readouterr().err


def test_a_message_may_be_read_later(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.deaf = True
    stage.set(one)
    assert main(["steer", "r1", "Look at b."]) == 0
    assert "reads it before its next turn" in capsys.readouterr().out
    assert main(["steer", "r1", "Look at b.", "--timeout", "0.1"]) == 124


def test_one_that_has_ended_takes_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def ended(stage: Stage) -> None:
        await stage.run("r1")
        await stage.end("r1")

    stage.set(ended)
    assert main(["pause", "r1"]) == 1
    assert "has ended (completed)" in capsys.readouterr().err
    assert stage.commands == []


def test_budget_alone_says_what_is_spent(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one)
    assert main(["budget", "r1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["WHAT", "SPENT", "LIMIT"], ["turns", "1", "20"], ["calls", "2", "-"], ["tokens", "1,200", "-"]]
    assert main(["budget", "r1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spent"] == {"tokens": 1200.0, "turns": 1.0, "calls": 2.0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["budget", "r1", "--add", "tokens"], "WHAT=AMOUNT"),
        (["budget", "r1", "--add", "tokens=-5"], "above 0"),
        (["budget", "r1", "--add", "tokens=nan"], "above 0"),
        (["budget", "r1", "--add", "=5"], "WHAT=AMOUNT"),
        (["budget", "--add", "tokens=5"], "say which run"),
        (["pause", "r1", "--for", "0"], "more than 0"),
        (["steer", "r1", "  "], "nothing to say"),
        (["steer", "r1", "--loud"], "unknown option --loud"),
        (["pause", "r1", "--timeout", "0"], "more than 0"),
    ],
)
def test_wrong_usage(stage: Stage, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
    assert stage.commands == []


# -- approvals ---------------------------------------------------------------------------------------------------------


def test_what_waits_is_listed_with_all_that_a_person_needs(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(asking)
    assert main(["approvals", "ls"]) == 0
    heads, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads[:3] == ["APPROVAL", "RUN", "AGENT"]
    assert row[:3] == ["a1", "r1", "clerk"]
    assert "write_file" in row
    assert main(["approvals", "ls", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["arguments"], found["arguments_hash"], found["whole"]) == (ARGUMENTS, HASH, True)
    assert found["expires"] - found["asked"] == 600


def test_in_a_pipe_no_argument_is_cut(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def long(stage: Stage) -> None:
        await stage.run("r1")
        await stage.ask("r1", arguments='{"text":"' + "word " * 50 + 'end"}')

    stage.set(long)
    assert main(["approvals", "ls"]) == 0
    assert capsys.readouterr().out.endswith('word end"\n')


def test_show_has_the_exact_arguments_and_the_hash(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(asking)
    assert main(["approvals", "show", "a1"]) == 0
    shown = capsys.readouterr().out
    assert ARGUMENTS in shown
    assert HASH[:16] in shown
    assert "secrets" not in shown


def test_where_a_secret_is_cut_out_that_is_said(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def secret(stage: Stage) -> None:
        await stage.run("r1")
        await stage.ask("r1", arguments='{"key":"***"}', secret="hunter2")

    stage.set(secret)
    assert main(["approvals", "show", "a1"]) == 0
    shown = capsys.readouterr().out
    assert "secrets are cut out" in shown
    assert "hunter2" not in shown


def test_arguments_that_would_deceive_are_shown_as_escapes(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def hidden(stage: Stage) -> None:
        await stage.run("r1")
        await stage.ask("r1", arguments='{"path":"\u202egpj.exe \x1b[31m"}')

    stage.set(hidden)
    assert main(["approvals", "show", "a1"]) == 0
    shown = capsys.readouterr().out
    assert "\\u202egpj.exe \\u001b[31m" in shown


@pytest.mark.parametrize(
    ("options", "scope", "pattern"),
    [
        (["--yes"], "once", None),
        (["--hash", HASH[:12]], "once", None),
        (["--hash", HASH.upper()], "once", None),
        (["--yes", "--scope", "run"], "run", None),
        (["--yes", "--scope", "always", "--pattern", "path=notes/*"], "always", {"path": "notes/*"}),
        (["--yes", "--scope", "run", "--pattern", "*"], "run", {}),
    ],
)
def test_a_yes_is_bound_to_the_hash(
    stage: Stage, options: list[str], scope: str, pattern: dict[str, str] | None
) -> None:
    stage.set(asking)
    assert main(["approvals", "approve", "a1", *options]) == 0
    (sent,) = stage.commands
    assert isinstance(sent, Approve)
    assert (sent.approval, sent.arguments_hash, sent.scope, sent.pattern) == ("a1", HASH, scope, pattern)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "--hash HASH"),
        (["--hash", "f" * 16], 1, "look at it again"),
        (["--hash", "abc"], 2, "at least 8"),
        (["--yes", "--pattern", "path=*"], 2, "--scope run"),
        (["--yes", "--scope", "run", "--pattern", "path"], 2, "NAME=GLOB"),
    ],
)
def test_a_yes_that_is_none(
    stage: Stage, options: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.set(asking)
    assert main(["approvals", "approve", "a1", *options]) == code
    assert said in capsys.readouterr().err
    assert stage.commands == []


def test_a_no_with_a_reason(stage: Stage) -> None:
    stage.set(asking)
    assert main(["approvals", "deny", "a1", "--reason", "not there"]) == 0
    (sent,) = stage.commands
    assert isinstance(sent, Deny)
    assert (sent.approval, sent.reason) == ("a1", "not there")


def test_one_that_is_answered_already_is_not_there(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.set(one)
    assert main(["approvals", "approve", "a1", "--yes"]) == 1
    assert "answered or over already" in capsys.readouterr().err
    assert main(["approvals", "ls"]) == 0
    assert "nothing waits" in capsys.readouterr().err


def test_one_of_a_sub_agent_is_found_and_answered(stage: Stage) -> None:
    async def family(stage: Stage) -> None:
        await stage.run("r1")
        await stage.child("r1", "r1child")
        await stage.ask("r1child")

    stage.set(family)
    assert main(["approvals", "approve", "a1", "--yes"]) == 0
    assert [sent.run for sent in stage.commands] == ["r1child"]


def test_which_of_several_must_be_clear(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    async def two(stage: Stage) -> None:
        await stage.run("r1")
        await stage.ask("r1", "a1")
        await stage.ask("r1", "a2")

    stage.set(two)
    assert main(["approvals", "approve", "a", "--yes"]) == 2
    assert "may be any of a1, a2" in capsys.readouterr().err
