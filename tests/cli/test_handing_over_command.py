"""``watchkeeper run`` with ``--on-stop``, ``--report`` and ``--continue``: what is left behind, and what goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from serving import Program, environment, served

from watchkeeper import decode_event
from watchkeeper.cli import main
from watchkeeper.messages import CallStarted, RunEnded, RunStarted
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.server import CallTools, ChatServer, Say

FILES = ["continue.token", "events.jsonl", "report.html", "report.md"]
LOOKS = [CallTools(("read_file", {"path": name})) for name in ("a.txt", "b.txt", "c.txt")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, with files to read in a folder of it."""
    for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "WATCHKEEPER_TOKEN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root").mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / "root" / name).write_text(f"this is {name}\n")
    return tmp_path


def options(server: ChatServer, *more: str) -> list[str]:
    return ["--model", "m", "--base-url", server.base_url, "--tools", "files", "--root", "root", *more]


def stopped_at_two_turns(*more: str) -> int:
    with served(LOOKS) as server:
        return main(["run", "Read it all.", *options(server, "--max-turns", "2", "--profile", "demo", *more)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_is_handed_over_and_continued(backend: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopped_at_two_turns("--on-stop", "hand-over", "--backend", backend) == 6
    shown = capsys.readouterr().out
    (bundle,) = folder.glob("handover-r*")
    assert sorted(file.name for file in bundle.iterdir()) == FILES
    assert f"report: {bundle.name}/report.html" in shown
    assert f"to continue: watchkeeper run --continue {bundle.name}/continue.token" in shown
    assert "this is a.txt" in (bundle / "report.md").read_text("utf-8")
    token = str(bundle / "continue.token")
    events = folder / "events.jsonl"
    with served([LOOKS[2], Say("It says a, b and c.")]) as server:
        more = ["--continue", token, "--events", str(events), "--backend", backend]
        assert main(["run", *options(server, *more)]) == 0
        asked = server.requests[0].body["messages"]
        assert [message["role"] for message in asked[:2]] == ["system", "user"]
        assert asked[1]["content"] == "Read it all."
        assert [received.rejected for received in server.requests] == [None, None]
    assert "It says a, b and c." in capsys.readouterr().out
    found = [decode_event(line) for line in events.read_bytes().splitlines()]
    begun = found[0]
    assert isinstance(begun, RunStarted)
    assert f"handover-{begun.continues}" == bundle.name
    assert sum(isinstance(event, CallStarted) for event in found) == 1


def test_without_it_a_limit_stays_a_stop_and_leaves_nothing(folder: Path) -> None:
    assert stopped_at_two_turns() == 3
    assert [file.name for file in folder.iterdir()] == ["root"]
    assert stopped_at_two_turns("--on-stop", "never") == 2


@pytest.mark.parametrize("said", ['on_stop = "hand_over"', 'on_limit = "hand_over"'])
def test_a_policy_file_may_say_it(said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "policy.toml").write_text(f"{said}\nfinish_at = 1.0\n[limits]\nmax_turns = 2\nfinish_turns = 0\n")
    with served(LOOKS) as server:
        assert main(["run", "Read it all.", *options(server, "--policy", "policy.toml", "--report", "bundle")]) == 6
    assert main(["replay", "--policy", "policy.toml", "bundle/events.jsonl"]) == 0
    assert f"{said.split(' ')[0]}" in capsys.readouterr().err  # not tried: a recording has no limits


def test_a_profile_that_hands_over_can_be_told_not_to(folder: Path) -> None:
    with served(LOOKS * 3) as server:
        more = ["--profile", "safe-runner", "--on-stop", "stop"]
        assert main(["run", "Read it all.", *options(server, *more)]) == 3
    assert [file.name for file in folder.iterdir()] == ["root"]


def test_a_report_is_to_be_had_of_any_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served([LOOKS[0], Say("It is a.txt.")]) as server:
        assert main(["run", "Read a.", *options(server, "--report", "kept/here")]) == 0
    assert "Completed" in (folder / "kept/here/report.md").read_text("utf-8")
    assert main(["replay", "kept/here/events.jsonl"]) == 0
    capsys.readouterr()
    assert stopped_at_two_turns("--report", "stopped") == 3
    assert "Stopped" in (folder / "stopped/report.md").read_text("utf-8")


def test_with_json_the_events_alone_are_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert stopped_at_two_turns("--on-stop", "hand-over", "--json") == 6
    shown = capsys.readouterr()
    events = [decode_event(line) for line in shown.out.splitlines()]
    assert isinstance(events[-1], RunEnded)
    assert "report: handover-" in shown.err


def test_a_report_takes_the_place_of_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "old").mkdir()
    (folder / "old" / "report.md").write_text("mine")
    (folder / "file").write_text("mine")
    for name, said in (("old", "old/report.md is there already"), ("file", "is not a folder")):
        with served([Say("x")]) as server:
            assert main(["run", "x", *options(server, "--report", name)]) == 2
            assert server.requests == []
        assert said in capsys.readouterr().err
    assert (folder / "old" / "report.md").read_text("utf-8") == "mine"


def test_where_the_report_cannot_be_written_the_run_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "file").write_text("")
    with served([Say("x")]) as server:
        assert main(["run", "x", *options(server, "--report", "file/below")]) == 1
    assert "the report could not be written into file/below: Not a directory" in capsys.readouterr().err


def test_a_token_that_cannot_be_taken_is_said_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped_at_two_turns("--report", "bundle")
    token = (folder / "bundle/continue.token").read_text("utf-8")
    (folder / "changed").write_text(token[:-20] + "AAAA" + token[-16:])
    capsys.readouterr()
    with served([Say("x")]) as server:
        given = options(server)
        for arguments, said in (
            (["--continue", "nowhere", *given], "--continue nowhere: No such file or directory; name the file"),
            (["--continue", "changed", *given], "changed, cut off or damaged"),
            (["--continue", "root/a.txt", *given], "not one that watchkeeper has made"),
            (["--continue", "bundle/continue.token", *given, "--instructions", "Lie."], "--another-agent"),
            ([*given], 'the task is missing: watchkeeper run "What is to be done"'),
        ):
            assert main(["run", *arguments]) == 2
            shown = capsys.readouterr()
            assert said in shown.err
            assert shown.err.count("\n") == 1
        assert server.requests == []
        more = ["--instructions", "Be short.", "--another-agent", "--continue", "bundle/continue.token"]
        assert main(["run", "Go on.", *given, *more]) == 0
        last = server.requests[0].body["messages"][-1]
        assert (last["role"], last["content"].split("\n")[0]) == ("user", "Go on.")


def test_a_key_of_the_environment_signs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped_at_two_turns("--report", "unsigned")
    monkeypatch.setenv("WATCHKEEPER_TOKEN_KEY", "short")
    assert stopped_at_two_turns() == 2
    monkeypatch.setenv("WATCHKEEPER_TOKEN_KEY", "long enough for a key")
    stopped_at_two_turns("--report", "signed")
    with served([Say("x")]) as server:
        assert main(["run", *options(server, "--continue", "unsigned/continue.token")]) == 2
        assert "not signed" in capsys.readouterr().err
        assert main(["run", *options(server, "--continue", "signed/continue.token")]) == 0


@pytest.mark.parametrize(("number", "mode"), [(signal.SIGINT, "after_turn"), (signal.SIGTERM, "now")])
def test_a_signal_hands_over_what_is_not_to_be_stopped(number: signal.Signals, mode: str, folder: Path) -> None:
    script = [CallTools(("sleep", {"seconds": 1.0 if mode == "after_turn" else 300}))]
    with served(script) as server:
        given = ["--model", "m", "--base-url", server.base_url, "--tools", "clock", "--report", "bundle"]
        with Program("run", "Wait.", *given, "--on-stop", "hand-over", env=environment()) as program:
            program.until("call_started")
            program.signal(number)
            code, errors = program.end()
    assert code == 6
    last = program.events[-1]
    assert isinstance(last, RunEnded)
    assert last.outcome.status == "handed_over"
    assert last.outcome.reason in ("interrupted", "terminated")
    assert last.outcome.calls[0].kind == ("finished" if mode == "after_turn" else "cancelled")
    assert "report: bundle/report.html" in errors
    assert sorted(file.name for file in (folder / "bundle").iterdir()) == FILES
