"""Detectors of third parties in ``replay``, ``stats``, ``case`` and ``run``: heard, and not silent where they fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recording import recorded, step, write
from serving import environment, run_program
from thirdparty import distribution, install

from watchkeeper.cli import main


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

    def test_one_that_ends_the_program_does_not_do_so_in_silence(
        self, fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install(monkeypatch, a="thirdparty:Quitting")
        assert main(["replay", str(fresh), "--jobs", "1"]) == 1
        assert "ended by SystemExit(0), raised at " in (said := capsys.readouterr().err)
        assert "thirdparty.py:" in said


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
        folder = distribution(tmp_path / "installed", "unwell", module)
        done = run_program(command, str(fresh), *options, env=environment(PYTHONPATH=folder))
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == (
            "watchkeeper: watchkeeper.detectors: unwell (unwell_module:Detector, from unwell) cannot be loaded: "
            f"{why}; repair it, or uninstall what brings it\n"
        )


def test_stats_counts_by_the_steps_that_a_detector_declares(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As replay does: not by those of equal calls."""
    install(monkeypatch, a="thirdparty:EveryCall")
    (row, *_), _ = objects(capsys, "stats", fresh)
    assert row["observe"]["every_call"] == {"nudge": {"count": 1, "first": 1}, "stop": {"count": 1, "first": 3}}
    (row, *_), _ = objects(capsys, "replay", fresh)
    assert (row["nudged_at"], row["blocked_at"], row["stopped_at"]) == (1, None, 3)
