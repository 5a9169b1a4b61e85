"""``watchkeeper bench``: the scripts run, say what they measured as one object, and make a page."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.cli import bench, main
from watchkeeper.cli.bench import NAMES, folder
from watchkeeper.cli.benchpage import Measured, write

FIGURES = {
    "tools": {"times_gather_n10", "us_per_call_n10", "times_gather_100ms_n10"},
    "writers": {"distinct_writers_over_readers", "overlaps"},
    "turns": {"ms_per_turn"},
    "runs": {"kb_per_run", "growth_exponent"},
    "long": {"kb_growth", "last_over_first_turn"},
    "events": {"us_1kb", "state_kb_worst"},
    "cancel": {"p99_ms_asyncio", "max_ms_100_asyncio"},
    "start": {"import_s", "help_s"},
    "journal": {"records_per_s_1_file", "append_p99_ms_2_files"},
}


def test_each_benchmark_is_known_here() -> None:
    assert set(FIGURES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_prints_one_object(name: str) -> None:
    command = [sys.executable, str(folder() / f"{name}.py"), "--json", "--quick", "--backend", "asyncio"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
    told = json.loads(done.stdout)
    assert told["benchmark"] == name
    assert {"python", "watchkeeper", "anyio"} <= told["versions"].keys()
    assert told["rows"]
    assert FIGURES[name] <= told["figures"].keys()
    assert all(isinstance(value, int | float) for value in told["figures"].values())
    if name == "writers":
        assert told["figures"]["overlaps"] == 0


def test_without_a_name_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert all(len(line.split()) > 5 for line in lines)
    assert not any("``" in line or "watchkeeper ps" in line for line in lines)


def test_a_benchmark_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "speed"]) == 2
    assert "no benchmark 'speed'; there are tools, writers" in capsys.readouterr().err


def test_scripts_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "a" / "b" / "c" / "d" / "bench.py"))
    assert main(["bench", "tools"]) == 2
    assert "the benchmarks are not here" in capsys.readouterr().err


def test_a_script_that_fails_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "folder", lambda: tmp_path)
    (tmp_path / "start.py").write_text("raise SystemExit(3)", encoding="utf-8")
    assert main(["bench", "start"]) == 1


@pytest.mark.skipif(find_spec("matplotlib") is not None, reason="matplotlib is installed")
def test_a_page_needs_matplotlib(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--report", str(tmp_path / "page")]) == 2
    assert "pip install 'watchkeeper[bench]'" in capsys.readouterr().err
    assert not (tmp_path / "page").exists()


def test_the_page_says_what_is_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchkeeper.cli.benchpage._draw", lambda place, one: False)
    measured = Measured(
        "writers",
        {"python": "3"},
        [{"backend": "asyncio", "resources": "<b>many</b>", "ms": 1.25, "taken_ms": [1.0]}],
        {"overlaps": 1, "distinct_writers_over_readers": 1.05},
    )
    page = write(tmp_path, [measured], quick=True).read_text(encoding="utf-8")
    assert "these figures mean nothing" in page
    assert "<td>overlaps</td><td>1</td><td>at most 0: not met</td>" in page
    assert "at most 1.2: met" in page
    assert "&lt;b&gt;many&lt;/b&gt;" in page
    assert "taken_ms" not in page
