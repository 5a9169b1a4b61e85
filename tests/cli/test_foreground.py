"""A run in the foreground of one terminal, seen and stopped from others: real processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import PROGRAM, TIMEOUT, Program, environment, run_program, served

from watchkeeper.cli import main
from watchkeeper.cli.foreground import forget_old
from watchkeeper.messages import CallEnded, RunEnded
from watchkeeper.service.places import Places
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.server import CallTools, Say, Turn

OPTIONS = ("--tools", "clock", "--model", "any")


def slow(body: dict[str, Any], n: int) -> Turn:
    return CallTools(("sleep", {"seconds": 60}), ("now", {})) if n == 1 else Say("Done.")


class Elsewhere:
    """Another terminal, of the same user: this process, as the run is in one of its own."""

    def __init__(self, state: Path, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> None:
        self.env = environment(WATCHKEEPER_STATE=str(state), OPENAI_API_KEY="none")
        self._captured = captured
        patch.setenv("WATCHKEEPER_STATE", str(state))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and error of a command."""
        self._captured.readouterr()
        code = main(arguments)
        return code, *self._captured.readouterr()

    def runs(self, *options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("ps", "--json", *options)[1].splitlines()]

    @contextlib.contextmanager
    def at_work(self, *options: str) -> Iterator[Program]:
        """A run whose call is at work, and durable."""
        with served(slow) as server:
            task = ("run", "Wait", "--base-url", server.base_url, *OPTIONS, *options)
            with Program(*task, env=self.env) as program:
                program.until("call_started")
                deadline = time.monotonic() + TIMEOUT
                while [one.get("doing") for one in self.runs()] != ["sleep"]:
                    assert time.monotonic() < deadline, self.runs()
                yield program


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Elsewhere:
    return Elsewhere(tmp_path / "state", monkeypatch, capsys)


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_listed_and_cancelled_from_another_process(elsewhere: Elsewhere, backend: str) -> None:
    with elsewhere.at_work("--backend", backend) as program:
        (found,) = elsewhere.runs()
        assert (found["where"], found["state"], found["spec"]["task"]) == ("foreground", "running", "Wait")
        follower = subprocess.Popen(
            [*PROGRAM, "tail", "-f", "@last", "--json"], env=elsewhere.env, stdout=subprocess.PIPE, text=True
        )
        assert follower.stdout is not None
        seen = [json.loads(follower.stdout.readline())]
        code, shown, _ = elsewhere("cancel", found["run"][:12], "--wait", "--json", "--reason", "from elsewhere")
        assert code == 0
        proof = json.loads(shown)
        assert [one["tool"] for one in proof["in_flight"]] == ["sleep"]
        assert [(one["tool"], one["kind"]) for one in proof["ended"]] == [("sleep", "cancelled")]
        assert proof["run"]["outcome"]["reason"] == "from elsewhere"
        code, _ = program.end()
        assert code == 4
        assert isinstance(program.events[-1], RunEnded)
        assert program.events[-1].outcome.reason == "from elsewhere"
        assert {one.result.tool: one.result.kind for one in program.events if isinstance(one, CallEnded)} == {
            "sleep": "cancelled",
            "now": "finished",
        }
        seen += [json.loads(line) for line in follower.stdout]
        assert follower.wait(TIMEOUT) == 0
        follower.stdout.close()
        assert [fact["n"] for fact in seen] == list(range(1, len(program.events) + 1))
    assert elsewhere.runs() == []
    assert [one["outcome"]["status"] for one in elsewhere.runs("-a")] == ["cancelled"]


def test_what_is_left_of_a_process_that_was_killed_has_died(elsewhere: Elsewhere) -> None:
    with elsewhere.at_work() as program:
        os.kill(program.process.pid, signal.SIGKILL)
        program.process.wait(TIMEOUT)
    assert elsewhere.runs() == []
    (found,) = elsewhere.runs("-a")
    assert found["died"] is True
    _, shown, _ = elsewhere("ps", "-a")
    assert "died" in shown
    assert "its process is gone" in shown
    assert "its process has died" in elsewhere("show", "@last")[1]
    code, shown, said = elsewhere("tail", "-f", found["run"][:8])
    assert (code, "run r" in shown) == (0, True)
    assert "died with its process" in said
    code, _, said = elsewhere("cancel", found["run"], "--wait")
    assert (code, "nothing of it is going on" in said) == (0, True)
    assert elsewhere("pause", "@last")[0] == 1


def test_where_the_state_folder_cannot_be_written_the_run_goes_on_unseen(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with served([Say("Done.")]) as server:
        task = ("run", "Say so", "--base-url", server.base_url, *OPTIONS)
        done = run_program(*task, env=environment(WATCHKEEPER_STATE=str(tmp_path / "file"), OPENAI_API_KEY="none"))
    assert done.returncode == 0, done.stderr
    assert "Done." in done.stdout
    (line,) = done.stderr.splitlines()
    assert "other terminals do not see this run" in line
    assert "WATCHKEEPER_STATE" in line


def test_pause_steer_and_budget_reach_it(elsewhere: Elsewhere) -> None:
    paused = threading.Event()

    def waits(body: dict[str, Any], n: int) -> Turn:
        if n == 2:
            assert paused.wait(TIMEOUT)
        return CallTools(("now", {})) if n < 3 else Say("Done.")

    with served(waits) as server:
        task = ("run", "Wait", "--base-url", server.base_url, *OPTIONS)
        with Program(*task, env=elsewhere.env) as program:
            program.until("call_ended")
            assert elsewhere("pause", "@last", "--reason", "lunch", "--timeout", "30")[0] == 0
            paused.set()
            assert program.until("paused")["reason"] == "lunch"
            assert elsewhere("steer", "@last", "Be brief.")[0] == 0
            assert elsewhere("budget", "@last", "--add", "turns=3", "--timeout", "30")[0] == 0
            assert elsewhere("resume", "@last", "--timeout", "30")[0] == 0
            assert program.until("user_message")["text"] == "Be brief."
            assert program.end()[0] == 0


def test_its_files_are_for_its_owner_alone(elsewhere: Elsewhere, tmp_path: Path) -> None:
    with elsewhere.at_work():
        made = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
        assert len(made) > 5
        open_to_others = [path for path in made if path.is_dir() and path.stat().st_mode & 0o077]
        assert not open_to_others


def test_old_folders_are_removed_and_never_one_that_is_held(tmp_path: Path) -> None:
    places = Places(tmp_path)
    for run in ("r1", "r2", "r3", "r4"):
        places.foreground(run).make()
        places.foreground(run).lock().touch()
    long_ago = time.time() - 15 * 86_400
    os.utime(places.foreground("r4").path, (long_ago, long_ago))
    with places.foreground("r1").lock().open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        forget_old(places, kept=2)
    assert [folder.name for folder in places.foregrounds()] == ["r3", "r1"]


@pytest.mark.parametrize("name", ["WATCHKEEPER_STATE", "XDG_STATE_HOME"])
def test_the_state_folder_is_where_the_environment_says(tmp_path: Path, name: str) -> None:
    folder = tmp_path if name == "WATCHKEEPER_STATE" else tmp_path / "watchkeeper"
    assert Places.of({name: str(tmp_path)}).state == folder
    assert Places.of({"XDG_STATE_HOME": "not/absolute"}).state == Path.home() / ".local/state/watchkeeper"


def test_looking_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHKEEPER_STATE", str(tmp_path / "state"))
    assert main(["ps", "-a"]) == 0
    assert not (tmp_path / "state").exists()


def test_a_service_that_does_not_answer_is_said_and_what_there_is_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = Places(tmp_path)
    places.service.make()
    monkeypatch.setenv("WATCHKEEPER_STATE", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(places.service.api_socket))  # nobody listens, as after a crash
    assert main(["ps"]) == 69
    assert str(places.service.api_socket) in capsys.readouterr().err


@pytest.mark.parametrize("url", ["ftp://there", "nonsense"])
def test_an_address_that_is_none_is_bad_configuration(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WATCHKEEPER_URL", url)
    assert main(["ps"]) == 78
    assert "WATCHKEEPER_URL" in capsys.readouterr().err
