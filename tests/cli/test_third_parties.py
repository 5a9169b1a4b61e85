"""Detectors of third parties in ``replay``, ``stats``, ``case`` and ``run``: heard, and not silent where they fail."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from recording import recorded, step, write
from serving import environment, run_program, served
from thirdparty import distribution, install

import watchkeeper
from watchkeeper.cli import main
from watchkeeper.testing.server import CallTools, Say


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """Two runs whose calls are all new: no detector of ours has a word to say."""
    steps = [step(args={"n": n * n}, result=f"{n * 7919}") for n in range(6)]
    return write(tmp_path / "a.jsonl", [recorded(*steps, run="run-1"), recorded(*steps, run="run-2")])


def objects(capsys: pytest.CaptureFixture[str], *arguments: Any, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    """The objects of a command with ``--json``, and what it said on standard error."""
    assert main([*map(str, arguments), "--json"]) == code
    shown = capsys.readouterr()
    return [json.loads(line) for line in shown.out.splitlines()], shown.err


def judged_by(monkeypatch: pytest.MonkeyPatch, folder: Path, said: str) -> Path:
    """A policy that says this of thresholds, and a detector that speaks at every call."""
    install(monkeypatch, a="thirdparty:EveryCall")
    policy = folder / "p.toml"
    policy.write_text(f"[thresholds]\n{said}\n")
    return policy


class TestFailing:
    @pytest.mark.parametrize("command", ["replay", "stats"])
    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_is_said_once_a_detector(
        self, command: str, jobs: str, fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install(monkeypatch, a="thirdparty:Failing", b="thirdparty:unmade", c="thirdparty:EveryCall")
        (*_, summary), errors = objects(capsys, command, fresh, "--jobs", jobs, code=1)
        assert summary["failed_detectors"] == {
            "unwell": {"error": "ValueError: it is unwell", "runs": 2},
            "unmade": {"error": "RuntimeError: no such luck", "runs": 2},
        }
        assert sorted(errors.splitlines()) == [
            "watchkeeper: the detector unmade failed in 2 runs and was switched off there: RuntimeError: no such luck "
            "(first in run-1)",
            "watchkeeper: the detector unwell failed in 2 runs and was switched off there: ValueError: it is unwell "
            "(first in run-1)",
        ]

    def test_where_none_fails_nothing_is_said(self, fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (*_, summary), errors = objects(capsys, "replay", fresh)
        assert summary["failed_detectors"] == {}
        assert errors == ""

    @pytest.mark.parametrize("command", ["replay", "stats"])
    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_one_that_ends_the_program_is_switched_off_as_well(
        self, command: str, jobs: str, fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install(monkeypatch, a="thirdparty:Quitting")
        assert main([command, str(fresh), "--jobs", jobs]) == 1
        said = capsys.readouterr().err
        assert said.startswith("watchkeeper: the detector quitting failed in 2 runs and was switched off there: ")
        assert "SystemExit: 0 (first in run-1)" in said
        assert said.count("\n") == 1


class TestUnimportable:
    @pytest.mark.parametrize(
        ("module", "why"),
        [
            ("raise SystemExit(0)\n", "SystemExit: 0"),
            ("import no_such_module_anywhere\n", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ],
    )
    @pytest.mark.parametrize("command", ["replay", "stats", "run"])
    def test_is_one_line_with_plugin_place_and_remedy(
        self, command: str, module: str, why: str, fresh: Path, tmp_path: Path
    ) -> None:
        options = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"] if command == "run" else []
        folder = distribution(tmp_path / "installed", "unwell", module, "unwell", "unwell:Detector")
        done = run_program(command, str(fresh), *options, env=environment(PYTHONPATH=folder))
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == (
            "watchkeeper: watchkeeper.detectors: unwell (unwell:Detector, from unwell) cannot be loaded: "
            f"{why}; repair it, or uninstall what brings it\n"
        )


class TestGuards:
    """Of third parties: ``watchkeeper run`` asks those that are installed."""

    GUARD = """
from watchkeeper.guards.guard import Refuse

class NoSums:
    name = "no_sums"
    folds = {}

    def call(self, proposal):
        return Refuse("sums are not for you", "no_sums") if proposal.tool.name == "calculate" else None
"""

    def run(self, folder: str, *more: str) -> Any:
        script = [CallTools(("calculate", {"expression": "1 + 1"})), Say("Done.")]
        with served(script) as server:
            options = ["--model", "m", "--base-url", server.base_url, "--tools", "calc", "--json", *more]
            return run_program("run", "x", *options, env=environment(PYTHONPATH=folder))

    def test_are_asked(self, tmp_path: Path) -> None:
        folder = distribution(tmp_path / "i", "theirs", self.GUARD, "no_sums", "theirs:NoSums", "watchkeeper.guards")
        done = self.run(folder)
        (end,) = (json.loads(line)["result"] for line in done.stdout.splitlines() if '"call_ended"' in line)
        assert (end["kind"], end["by"], end["content"]) == ("refused", "no_sums", "sums are not for you")
        policy = tmp_path / "p.toml"
        policy.write_text('observe = ["no_sums"]\n')
        done = self.run(folder, "--policy", str(policy))
        (would,) = (json.loads(line) for line in done.stdout.splitlines() if '"would_refuse"' in line)
        assert (would["by"], would["would"], would["tool"]) == ("no_sums", "refuse", "calculate")
        assert '"kind":"finished"' in done.stdout

    def test_one_that_cannot_be_imported_is_one_line(self, tmp_path: Path) -> None:
        broken = "import no_such_module_anywhere\n"
        folder = distribution(tmp_path / "i", "theirs", broken, "no_sums", "theirs:NoSums", "watchkeeper.guards")
        done = self.run(folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "watchkeeper: watchkeeper.guards: no_sums (theirs:NoSums, from theirs) cannot be loaded: "
            "ModuleNotFoundError: No module named 'no_such_module_anywhere'; repair it, or uninstall what brings it\n"
        )


class TestReadme:
    """What it says of writing a detector, taken at its word."""

    TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

    def block(self, language: str) -> str:
        section = self.TEXT.partition("\n## Writing a detector\n")[2].partition("\n## ")[0]
        return section.partition(f"```{language}\n")[2].partition("```")[0]

    def test_the_example_is_heard_as_it_is_installed(self, tmp_path: Path) -> None:
        points = tomllib.loads(self.block("toml"))["project"]["entry-points"]["watchkeeper.detectors"]
        ((name, value),) = points.items()
        folder = distribution(tmp_path / "installed", "my_package", self.block("python"), name, value)
        searches = [step("search", {"q": f"question {n * n}"}, f"answer {n * 7919}") for n in range(16)]
        opened = [*searches[:5], step("open", {"n": 1}, "a page"), *searches[5:10]]
        file = write(tmp_path / "a.jsonl", [recorded(*searches, run="all"), recorded(*opened, run="opened")])
        done = run_program("replay", "--json", str(file), "--detector", name, env=environment(PYTHONPATH=folder))
        row, summary = map(json.loads, done.stdout.splitlines())
        assert (row["id"], row["nudged_at"], row["blocked_at"], row["stopped_at"]) == ("all", 5, None, 14)
        assert row["detector"] == name
        assert (summary["runs"], summary["failed_detectors"]) == (2, {})

    def test_its_names_are_public(self) -> None:
        names = {"Detector", "Finding", "Ring", "Round", "Steps", "Thresholds", "step_line"}
        assert names <= set(watchkeeper.__all__)
        assert all(getattr(watchkeeper, name).__name__ == name for name in names)


class TestCase:
    def test_asks_them(self, fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        install(monkeypatch, a="thirdparty:EveryCall", b="thirdparty:Failing")
        assert main(["case", str(fresh), "--run", "run-1", "--at", "1"]) == 1
        shown = capsys.readouterr()
        assert "at call 1 of run-1 today: nudge by every_call; the test expects nothing at call 1" in shown.err
        assert "the detector unwell failed in 1 run" in shown.err
        made: dict[str, Any] = {}
        exec(shown.out, made)
        with pytest.raises(AssertionError, match="but there is: nudge at call 1 by every_call"):
            made["test_run_1_at_call_1"]()
        install(monkeypatch)
        made["test_run_1_at_call_1"]()

    def test_with_the_steps_of_a_policy(
        self, fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        policy = judged_by(monkeypatch, tmp_path, "every_call = [4, 5, 6]")
        assert main(["case", str(fresh), "--run", "run-1", "--at", "3", "--policy", str(policy)]) == 0
        made: dict[str, Any] = {}
        exec(capsys.readouterr().out, made)
        with pytest.raises(AssertionError, match="but there is: nudge at call 3 by every_call"):
            made["test_run_1_at_call_3"]()


class TestPolicy:
    @pytest.mark.parametrize(
        ("said", "places"),
        [("[3, 4, 5]", (2, 3, 4)), ("{ stop = 3 }", (1, None, 2)), ('"off"', (None, None, None))],
    )
    def test_sets_their_steps(
        self,
        said: str,
        places: tuple[int | None, ...],
        fresh: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """And what is compared with has those that they declare."""
        policy = judged_by(monkeypatch, tmp_path, f"every_call = {said}")
        (row, *_), _ = objects(capsys, "replay", fresh, "--policy", policy)
        assert (row["nudged_at"], row["blocked_at"], row["stopped_at"]) == places
        assert (row["default"]["nudged_at"], row["default"]["stopped_at"]) == (1, 3)
        (row, *_), _ = objects(capsys, "stats", fresh, "--policy", policy)
        seen = row["observe"].get("every_call", {})
        assert tuple(seen[verb]["first"] if verb in seen else None for verb in ("nudge", "block", "stop")) == places

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ("every_cal = [1, 2, 3]", "thresholds.every_cal is unknown (did you mean every_call?); allowed here: "),
            ("every_call = [3, 2, 1]", "thresholds.every_call: nudge, block, stop must not fall"),
            ("every_call = 3", "thresholds.every_call must be the counts for nudge, block, stop"),
        ],
    )
    def test_says_what_is_wrong(
        self,
        said: str,
        told: str,
        fresh: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        policy = judged_by(monkeypatch, tmp_path, said)
        assert main(["replay", str(fresh), "--policy", str(policy)]) == 2
        assert told in capsys.readouterr().err


def test_stats_counts_by_the_steps_that_a_detector_declares(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As replay does: not by those of equal calls."""
    install(monkeypatch, a="thirdparty:EveryCall")
    (row, *_), _ = objects(capsys, "stats", fresh)
    assert row["observe"]["every_call"] == {"nudge": {"count": 1, "first": 1}, "stop": {"count": 1, "first": 3}}
    (row, *_), _ = objects(capsys, "replay", fresh)
    assert (row["nudged_at"], row["blocked_at"], row["stopped_at"]) == (1, None, 3)
