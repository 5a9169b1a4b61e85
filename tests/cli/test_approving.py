"""Approvals at the command line: the prompt on a terminal, and what is said where there is none."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import PROGRAM, TIMEOUT, environment, served

from watchkeeper import ApprovalError
from watchkeeper.cli import main
from watchkeeper.cli.approving import pattern_of
from watchkeeper.cli.policy import policy_of
from watchkeeper.cli.printable import exact
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.server import CallTools, Say, Turn

HIDDEN = "\u202egpj.exe \x1b[31m\u200b\u00ad\ufe0f\u3164\U000e0041"


class Terminal:
    """The program at a pseudo-terminal, and somebody who types."""

    def __init__(self, command: list[str], **more: str) -> None:
        self._end, its_end = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            env=environment(TERM="xterm", COLUMNS="200", **more),
        )
        os.close(its_end)
        self.shown = ""
        self._asked = 0

    def asked(self) -> str:
        """What has been shown since the last question, at the next one."""
        while not self.shown[self._asked :].endswith("> "):
            assert self._read(), f"it ended without a question: {self.shown[-2000:]}"
        since, self._asked = self.shown[self._asked :], len(self.shown)
        return since

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._end)
        return self.process.wait(TIMEOUT)

    def _read(self) -> bool:
        try:
            piece = os.read(self._end, 65536)
        except OSError:  # Linux says so when the other end is closed
            return False
        self.shown += piece.decode("utf-8", "replace").replace("\r", "")
        return bool(piece)


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\ndecision = "ask"\ntool = "write_file"\nwhy = "the house rules"\n')
    (tmp_path / "root").mkdir()
    return ["--tools", "files", "--root", str(tmp_path / "root"), "--policy", str(policy)]


def write(path: str, content: str = "x") -> CallTools:
    return CallTools(("write_file", {"path": path, "content": content}))


def command(base_url: str, *options: str) -> list[str]:
    return [*PROGRAM, "run", "Do it.", "--model", "m", "--base-url", base_url, *options]


def test_the_exact_bytes_are_shown_and_yes_runs_them(options: list[str], tmp_path: Path) -> None:
    with served([write("a.txt", HIDDEN), Say("Done.")]) as server:
        terminal = Terminal(command(server.base_url, *options))
        asked = terminal.asked()
        terminal.type("y\n")
        assert terminal.end() == 0
    assert "write_file is to be run: the house rules" in asked
    (shown,) = (line for line in asked.split("\n") if line.startswith('{"path"'))
    assert shown.isascii()
    assert shown.isprintable()
    assert json.loads(shown) == {"path": "a.txt", "content": HIDDEN}
    assert "r: for this run   a: always" in asked
    assert (tmp_path / "root" / "a.txt").read_text("utf-8") == HIDDEN


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tells_the_model_why(backend: str, options: list[str], tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    with served([write("a.txt"), Say("Done.")]) as server:
        terminal = Terminal(command(server.base_url, *options, "--events", str(events), "--backend", backend))
        terminal.asked()
        terminal.type("maybe\n")
        assert "That is none of the keys." in terminal.asked()
        terminal.type("n use the other file\n")
        assert terminal.end() == 0
    assert not (tmp_path / "root" / "a.txt").exists()
    lines = events.read_text("utf-8").splitlines()
    (end,) = (fact for line in lines if (fact := json.loads(line))["type"] == "call_ended")
    assert (end["result"]["kind"], end["result"]["error"]) == ("denied", "not_approved")
    assert "The reason: use the other file" in end["result"]["content"]


@pytest.mark.parametrize("key", ["r", "a"])
def test_for_the_run_and_always_take_a_pattern(key: str, options: list[str], tmp_path: Path) -> None:
    turns: list[Turn] = [write("n1"), write("n2"), write("m1"), Say("Done.")]
    with served(turns) as server:
        terminal = Terminal(command(server.base_url, *options))
        terminal.asked()
        terminal.type(f"{key}\n")
        assert "Which calls?" in terminal.asked()
        terminal.type("pth=n*\n")
        assert "'pth', which write_file does not take" in terminal.asked()
        terminal.type("path=n*\n")
        assert '{"path":"m1"' in terminal.asked()
        terminal.type("n\n")
        assert terminal.end() == 0
    assert sorted(path.name for path in (tmp_path / "root").iterdir()) == ["n1", "n2"]
    kept = (
        'put this into a policy (--policy FILE):\n[[rules]]\ndecision = "allow"\napproved = true\ntool = "write_file"\n'
    )
    assert (kept in terminal.shown) is (key == "a")


def test_ctrl_c_and_the_end_of_input_are_no_yes(options: list[str], tmp_path: Path) -> None:
    with served([write("a.txt"), Say("Done.")]) as server:
        terminal = Terminal(command(server.base_url, *options))
        terminal.asked()
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 4
        assert "cancelled (interrupted)" in terminal.shown
    with served([write("a.txt"), Say("Done.")]) as server:
        terminal = Terminal(command(server.base_url, *options))
        terminal.asked()
        terminal.type("\x04")
        assert terminal.end() == 0
    assert not (tmp_path / "root" / "a.txt").exists()


def test_what_was_typed_before_is_no_answer(options: list[str], tmp_path: Path) -> None:
    with served([write("a.txt"), Say("Done.")]) as server:
        terminal = Terminal(command(server.base_url, *options))
        terminal.type("y\ny\n")
        terminal.asked()
        terminal.type("n\n")
        assert terminal.end() == 0
    assert not (tmp_path / "root" / "a.txt").exists()


def test_without_a_terminal_it_is_denied_and_said_how_to_permit(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served([write("a.txt"), Say("Done.")]) as server:
        code = main(["run", "Do it.", "--model", "m", "--base-url", server.base_url, *options])
    told = capsys.readouterr()
    assert code == 0
    assert "denied (no_approval)" in told.out
    assert "write_file needs approval, and there was no terminal to ask at" in told.err
    assert 'decision = "allow", approved = true, tool = "write_file"' in told.err
    assert not (tmp_path / "root" / "a.txt").exists()


def test_and_so_it_is_permitted(options: list[str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        policy.read_text("utf-8") + '[[rules]]\ndecision = "allow"\napproved = true\ntool = "write_file"\n'
    )
    with served([write("a.txt"), Say("Done.")]) as server:
        assert main(["run", "Do it.", "--model", "m", "--base-url", server.base_url, *options]) == 0
    assert (tmp_path / "root" / "a.txt").exists()


def test_also_where_a_profile_says_that_somebody_is_there(options: list[str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("attended = true\n" + policy.read_text("utf-8"))
    with served([write("a.txt"), Say("Done.")]) as server:
        assert main(["run", "Do it.", "--model", "m", "--base-url", server.base_url, *options]) == 0
    assert not (tmp_path / "root" / "a.txt").exists()


def test_a_rule_that_denies_cannot_be_approved() -> None:
    with pytest.raises(ValueError, match=r"rules\[0\]: a rule that is approved is one that allows"):
        policy_of({"rules": [{"decision": "deny", "tool": "x", "approved": True}]})


@given(st.text())
def test_what_is_shown_is_the_same_json_and_hides_nothing(text: str) -> None:
    given_ = json.dumps(text, ensure_ascii=False)
    shown = exact(given_)
    assert json.loads(shown) == text
    assert shown.isprintable()
    assert not set(shown) & set("\u200b\u00ad\ufe0f\u3164\u2800\u0301\u202e\u2066\ufeff")


@pytest.mark.parametrize(
    ("typed", "pattern"),
    [
        ("", None),
        ("*", {}),
        ("path=notes/*", {"path": "notes/*"}),
        ("path='a b*' content=x=y", {"path": "a b*", "content": "x=y"}),
        ("path=", {"path": ""}),
    ],
)
def test_patterns_as_they_are_typed(typed: str, pattern: object) -> None:
    assert pattern_of(typed) == pattern


@pytest.mark.parametrize("typed", ["path", "=x", "path='a", "yes please"])
def test_what_is_no_pattern(typed: str) -> None:
    with pytest.raises(ApprovalError) as caught:
        pattern_of(typed)
    assert caught.value.code == "pattern"
