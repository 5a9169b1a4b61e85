"""``watchkeeper case``: tests made of recorded runs. Each is run as pytest would run it, without our extra."""

from __future__ import annotations

import ast
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from recording import recorded, step, write
from serving import TIMEOUT, environment, served

from watchkeeper.cli import main, verdicts
from watchkeeper.cli.casefile import steps_in
from watchkeeper.cli.recorded import RecordedRun, events_of
from watchkeeper.cli.verdicts import reviewed, settings_for
from watchkeeper.testing.server import CallTools

LOOP = [step(args={"n": 1}, result="first"), *[step("ask", {"q": "?"}, "no")] * 12]
EVIL = "\"\"\"'''\\\n\x00\x1b\u202e\u2028{0}{name}%s\\u0041é😀"


def made(file: Path, *options: str, code: int = 0) -> Path:
    out = file.with_name(f"test_made_{len(list(file.parent.glob('test_made_*')))}.py")
    assert main(["case", str(file), *options, "--out", str(out)]) == code
    return out


def run(test: Path) -> tuple[int, str]:
    """Run it with pytest where neither cyclopts nor rich can be imported; 0 passed, 1 failed."""
    bare = "import sys; sys.modules['cyclopts'] = sys.modules['rich'] = None\nimport pytest; sys.exit(pytest.main())"
    done = subprocess.run(
        [sys.executable, "-c", bare, "-q", "-p", "no:cacheprovider", "--rootdir", str(test.parent), str(test)],
        capture_output=True,
        text=True,
        cwd=test.parent,
        env=environment(),
        timeout=TIMEOUT,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    return write(tmp_path / "a.jsonl", [recorded(*LOOP)])


@pytest.mark.parametrize(
    ("at", "complaint"),
    [
        (2, "at least a nudge is due by call 2, but there is: nothing"),
        (3, "nothing should be done at call 3, but there is: nudge at call 3 by equal"),
        (4, "at least a block is due by call 4, but there is: nudge at call 3"),
        (5, "nothing should be done at call 5, but there is: nudge at call 3 by equal; block at call 5"),
        (7, "at least a stop is due by call 7, but there is: nudge at call 3"),
        (8, "nothing should be done at call 8, but there is: nudge at call 3"),
    ],
)
def test_it_fails_as_of_now(at: int, complaint: str, loop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = run(made(loop, "--at", str(at)))
    assert code == 1, told
    assert complaint in told


@pytest.mark.parametrize(
    ("at", "expect", "code"),
    [(3, "nudge", 0), (3, "block", 1), (6, "block", 0), (12, "stop", 0), (2, "nothing", 0), (12, "nothing", 1)],
)
def test_what_is_expected_can_be_said(
    at: int, expect: str, code: int, loop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, told = run(made(loop, "--at", str(at), "--expect", expect))
    assert found == code, told
    assert ("that holds today" in capsys.readouterr().err) == (code == 0)


def test_it_holds_the_steps_as_they_were_up_to_the_call(tmp_path: Path) -> None:
    steps = [
        step("ask", {"q": EVIL}, EVIL, user_turn=1, agent="a", text=EVIL),
        step("cut", {"n": 1.5, "deep": {"a": [None, True]}}, "x", result_len=9, result_sha256="f" * 64, error=True),
        step("part", {}, "y", args_partial=True),
        step("never", {}, "not in it"),
    ]
    out = made(write(tmp_path / "a.jsonl", [recorded(*steps, run=EVIL)]), "--at", "2")
    source = out.read_text("utf-8")
    assert source.isascii()
    assert "never" not in source
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert values["RUN"] == EVIL
    assert values["STEPS"] == [
        {"tool": "ask", "args": {"q": EVIL}, "result": EVIL, "text": EVIL, "agent": "a", "user_turn": 1},
        {
            "tool": "cut",
            "args": {"n": 1.5, "deep": {"a": [None, True]}},
            "result": "x",
            "result_sha256": "f" * 64,
            "result_len": 9,
            "error": True,
        },
        {"tool": "part", "args": {}, "result": "y", "args_partial": True},
    ]


def test_the_steps_are_judged_as_replay_judges_them(shared_data: Path) -> None:
    """Whatever was left out of the data does not count."""
    settings = settings_for(None, (), ())
    acted = 0
    with gzip.open(shared_data / "corpora" / "tau.jsonl.gz") as file:
        for number, line in enumerate(file):
            recorded_run = msgspec.json.decode(line, type=RecordedRun)
            if number % 4 and len(recorded_run.steps) < 60:
                continue
            found = reviewed(events_of(recorded_run), settings, logged=False).judgements
            assert verdicts.of_steps(steps_in(recorded_run, len(recorded_run.steps))) == found
            acted += bool(found)
    assert acted > 5


def test_profile_polls_and_stable_tools_are_kept(loop: Path) -> None:
    source = made(loop, "--at", "11", "--profile", "production", "--poll", "ask", "--stable", "look").read_text("utf-8")
    assert "profile='production', poll=('ask',), stable=('look',)" in source


def test_the_policy_is_in_the_test(loop: Path, tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text('[thresholds]\nequal = [2, 3, 4]\n[tools.look]\nloop_key = "n"\n')
    out = made(loop, "--at", "2", "--policy", str(policy))
    policy.unlink()
    assert "POLICY = {'thresholds': {'equal': [2, 3, 4]}, 'tools': {'look': {'loop_key': 'n'}}}" in out.read_text(
        "utf-8"
    )
    code, told = run(out)
    assert code == 1, told
    assert "nothing should be done at call 2, but there is: nudge at call 2 by equal" in told


def test_a_policy_is_as_it_must_be(loop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text("mood = 1\n")
    assert main(["case", str(loop), "--at", "2", "--policy", str(policy)]) == 2
    assert "mood is unknown" in capsys.readouterr().err
    assert main(["case", str(loop), "--at", "2", "--policy", str(policy), "--profile", "demo"]) == 2
    assert "exclude each other" in capsys.readouterr().err


class TestDeepNesting:
    def deep(self, levels: int, tmp_path: Path) -> Path:
        args = "[" * levels + "]" * levels
        one = json.dumps(step("ask", {"q": "?"}, "no")).replace('"?"', args)
        return write(tmp_path / "a.jsonl", [f'{{"id": "deep", "steps": [{", ".join([one] * 3)}]}}\n'])

    @pytest.mark.parametrize("levels", [30, 100, 400])
    def test_is_held(self, levels: int, tmp_path: Path) -> None:
        code, told = run(made(self.deep(levels, tmp_path), "--at", "2"))
        assert code == 1, told
        assert "nothing should be done at call 2, but there is: nudge at call 2 by equal" in told

    def test_beyond_what_can_be_held_is_said(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["case", str(self.deep(700, tmp_path)), "--at", "2"]) == 2
        assert "call 0 is nested 702 levels deep, and a test can hold 500" in capsys.readouterr().err


class TestOwnLogs:
    @pytest.fixture
    def log(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
        """Two equal calls a turn: what is judged is the turn."""
        file = tmp_path / "own.jsonl"
        with served(lambda body, n: CallTools(*[("read_file", {"path": f"no{k}.txt"}) for k in range(2)])) as server:
            more = ["--tools", "files", "--root", str(tmp_path), "--events", str(file)]
            assert main(["run", "x", "--model", "m", "--base-url", server.base_url, *more]) == 3
        capsys.readouterr()
        return file

    def test_a_call_stands_for_its_turn(self, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", "--json", str(log)]) == 0
        row = json.loads(capsys.readouterr().out.splitlines()[0])
        for at in (row["nudged_at"] - 1, row["nudged_at"]):
            code, told = run(made(log, "--at", str(at)))
            assert code == 1, told
            assert f"nothing should be done at call {row['nudged_at']}, but there is: nudge" in told

    def test_an_earlier_call_should_have_been_enough(self, log: Path) -> None:
        code, told = run(made(log, "--at", "1"))
        assert code == 1, told
        assert "at least a nudge is due by call 1, but there is: nothing" in told


class TestWrongUsage:
    def said(self, capsys: pytest.CaptureFixture[str], *arguments: Any, code: int = 2) -> str:
        assert main(["case", *map(str, arguments)]) == code
        shown = capsys.readouterr()
        assert shown.out == ""
        return shown.err

    def test_calls_that_are_not_there(self, loop: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "run-1 has 13 calls, so the last one is 12" in self.said(capsys, loop, "--at", 13)
        assert "is the index of a call, from 0" in self.said(capsys, loop, "--at=-1")

    def test_after_the_stop_nothing_can_be_wanted(self, loop: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "is stopped at call 8 already" in self.said(capsys, loop, "--at", 10)

    def test_several_runs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = write(tmp_path / "a.jsonl", [recorded(step(), run=f"r{n}") for n in range(9)])
        assert "name one with --run: r0, r1, r2, r3, r4, …" in self.said(capsys, file, "--at", 0)
        assert "--run r99: there is no such run" in self.said(capsys, file, "--at", 0, "--run", "r99")
        assert main(["case", str(file), "--at", "0", "--run", "r7"]) == 0
        assert "RUN = 'r7'" in capsys.readouterr().out

    def test_files(self, loop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "No such file" in self.said(capsys, tmp_path / "nowhere", "--at", 0, code=1)
        assert "is there already" in self.said(capsys, loop, "--at", 3, "--out", loop)
        assert "No such file" in self.said(capsys, loop, "--at", 3, "--out", tmp_path / "no" / "x.py", code=1)
        assert "--profile" in self.said(capsys, loop, "--at", 3, "--profile", "wild")
