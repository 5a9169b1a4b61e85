"""``doctor``, ``token``, ``stack`` and ``serve``, as far as they need no service that runs."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from watchkeeper.cli import checkup, main
from watchkeeper.cli.checkup import Finding, looked_at
from watchkeeper.service.places import Places
from watchkeeper.service.tokenfile import TokenFile
from watchkeeper.service.tokens import matching


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own, and no configuration of this machine."""
    for name in [name for name in os.environ if name.startswith("WATCHKEEPER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WATCHKEEPER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "state"


def found(what: str) -> list[Finding]:
    return [one for one in looked_at(os.environ) if one.what.startswith(what)]


def level(what: str) -> str:
    (one,) = found(what)
    return one.level


def test_a_fresh_installation_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "ok   service          none runs on this machine" in said
    assert "fail" not in said


def test_findings_as_json_have_a_remedy_where_something_is_wrong(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.mkdir()
    state.chmod(0o755)
    assert main(["doctor", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (folder,) = [one for one in lines if one["what"] == "state folder"]
    assert (folder["level"], folder["remedy"]) == ("warn", f"chmod 700 {state}")


def test_a_bad_configuration_is_a_failure_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config" / "watchkeeper").mkdir(parents=True)
    file = tmp_path / "config" / "watchkeeper" / "config.toml"
    file.write_text("[service]\nworkerz = 2\n")
    assert main(["doctor"]) == 1
    assert f"{file}:2" in capsys.readouterr().out
    assert main(["serve"]) == 78
    assert "workerz" in capsys.readouterr().err


def test_a_full_disk_a_remote_folder_and_a_clock_that_went_back_are_seen(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.mkdir(mode=0o700)
    assert (level("disk"), level("clock"), found("file system")) == ("ok", "ok", [])
    (state / "a.db").touch()
    os.utime(state / "a.db", (4e9, 4e9))
    assert level("clock") == "warn"
    monkeypatch.setattr(checkup, "LEAST", 1 << 62)
    assert level("disk") == "fail"
    monkeypatch.setattr(checkup, "REMOTE", frozenset({checkup._file_system(state)}))
    assert level("file system") == "fail"


def test_a_folder_that_cannot_be_made_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHKEEPER_STATE", "/proc/nowhere/state")
    assert level("state folder") == "fail"


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_state_folder_that_is_a_file_is_told_as_one(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WATCHKEEPER_STATE", str(tmp_path / "file" / below))
    (one,) = found("state folder")
    assert one.level == "fail"
    assert "chown" not in one.remedy
    assert "WATCHKEEPER_STATE" in one.remedy


def test_looking_makes_nothing(state: Path, tmp_path: Path) -> None:
    assert level("state folder") == "ok"
    assert list(tmp_path.iterdir()) == []
    state.mkdir(mode=0o700)
    assert level("state folder") == "ok"
    assert list(state.iterdir()) == []


def test_what_a_dead_service_left_is_told_apart_from_a_worker_without_one(state: Path) -> None:
    folder = Places.of().service
    folder.make()
    assert level("service") == "ok"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder.api_socket))
    assert level("service") == "warn"
    with folder.lock("w1").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert level("locks") == "fail"
    assert found("locks") == []


def test_a_service_that_is_there_and_does_not_answer_is_a_failure(state: Path) -> None:
    folder = Places.of().service
    folder.make()
    with folder.lives.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert level("service") == "warn"  # it is starting, or listens elsewhere
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(folder.api_socket))
        assert level("service") == "fail"


def test_tokens_are_made_listed_and_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "new", "ci", "--scope", "read", "--scope", "run"]) == 0
    secret = capsys.readouterr().out.strip()
    store = TokenFile(Places.of().service.path)
    token = matching(secret, store.tokens())
    store.close()
    assert token is not None
    assert (token.name, token.scopes) == ("ci", ("read", "run"))

    assert main(["token", "new", "ci"]) == 2
    assert "there is a token ci already" in capsys.readouterr().err
    assert main(["token", "new", "spaces are none", "--json"]) == 2
    capsys.readouterr()

    assert main(["token", "ls"]) == 0
    assert "ci    read,run" in capsys.readouterr().out
    assert main(["token", "ls", "--json"]) == 0
    listed = capsys.readouterr().out
    assert json.loads(listed)["name"] == "ci"
    assert secret not in listed

    assert main(["token", "rm", "ci"]) == 0
    assert main(["token", "rm", "ci"]) == 2
    assert "there is no token 'ci'" in capsys.readouterr().err


def test_a_new_token_as_json_has_its_secret_this_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "new", "ci", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["token"].startswith("wk_")
    assert made["scopes"] == ["read"]


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:1", "unix:/nowhere.sock"])
def test_without_a_service_there_is_no_stack(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if url:
        monkeypatch.setenv("WATCHKEEPER_URL", url)
    assert main(["stack", "w1"]) == 69
    assert "watchkeeper serve" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "told"), [(b"garbage" * 100, "is no SQLite file"), (b"", "file of another program")]
)
def test_a_journal_that_cannot_be_used_is_named_with_the_remedy(
    written: bytes, told: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = state / "service" / "control.db"
    file.parent.mkdir(mode=0o700, parents=True)
    file.write_bytes(written)
    if not written:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE odd (n)")
    assert main(["serve"]) == 78
    shown = capsys.readouterr().err
    assert shown.startswith(f"watchkeeper: {file} ")
    assert told in shown
    assert "name another folder, or move" in shown
    assert shown.count("\n") == 1


def test_an_address_that_cannot_be_bound_is_bad_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--bind", "unix:/proc/nowhere/api.sock"]) == 78
    assert "unix:/proc/nowhere/api.sock cannot be listened at" in capsys.readouterr().err
