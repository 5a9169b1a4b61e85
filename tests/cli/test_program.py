"""The program as a whole: how it starts, what it says to wrong usage, what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from serving import environment, run_program

from watchkeeper import __version__
from watchkeeper.cli import main

SLOW = ("anyio", "trio", "asyncio", "openai", "httpx2", "structlog", "msgspec", "rich.markdown", "rich.live")


def test_help_names_the_verbs_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("run", "ps", "cancel", "demo", "replay", "0 completed", "3 stopped", "6 handed over", "69 no service"):
        assert word in shown


def test_help_of_a_verb_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--model", "--base-url", "--tools", "--root", "--profile", "--max-turns", "--json", "--events"):
        assert option in shown


@pytest.mark.parametrize(
    ("command", "words"),
    [
        *(
            (
                command,
                (".jsonl.gz", ".ndjson", "folders", "Exit codes: 0 all was read", "1 something could not be read"),
            )
            for command in ("replay", "stats")
        ),
        ("case", ("plain or gzipped", "Exit codes: 0 the test is made", "no such run or call")),
        ("run", ("Exit codes: 0 completed", "3 stopped by watchkeeper")),
    ],
)
def test_help_of_a_verb_says_what_it_takes_and_its_exit_codes(
    command: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for word in words:
        assert word in shown
    if command != "run":
        assert "one JSON object a line with id and steps" in shown
        assert "stopped by watchkeeper" not in shown


def test_help_loads_no_verb_and_nothing_slow() -> None:
    """That is what makes it start at once; a clock would measure the machine."""
    code = (
        "import json, sys; from watchkeeper.cli import main; main(['--help'])\n"
        "print('\\0' + json.dumps(sorted(sys.modules)))"
    )
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
    loaded = set(json.loads(done.stdout.rpartition("\0")[2]))
    assert "cyclopts" in loaded
    assert loaded.isdisjoint(SLOW)
    assert {name for name in loaded if name.startswith("watchkeeper")} <= {
        *("watchkeeper", "watchkeeper.cli", "watchkeeper.cli.app", "watchkeeper.cli.exits", "watchkeeper.lazily"),
    }


def test_ps_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """No agent, no guard, no server and no table: that is what makes it answer at once."""
    code = (
        "import json, sys; from watchkeeper.cli import main; main(['ps'])\n"
        "print('\\0' + json.dumps(sorted(sys.modules)))"
    )
    env = environment(WATCHKEEPER_STATE=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=env)
    loaded = set(json.loads(done.stdout.rpartition("\0")[2]))
    assert loaded.isdisjoint({"trio", "openai", "httpx2", "structlog", "rich", "litestar", "uvicorn", "sqlite3"})
    ours = {name.split(".")[1] for name in loaded if name.startswith("watchkeeper.")}
    assert ours <= {"cli", "engine", "errors", "lazily", "messages", "service", "states"}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense"),
        (["run"], "task"),
        (["run", "x", "--nonsense"], "--nonsense"),
        (["run", "x", "--max-turns", "many"], "many"),
        (["run", "x", "--backend", "curio"], "curio"),
        (["replay"], "at least one file"),
        (["stats"], "at least one file"),
        (["case", "x.jsonl"], "--at"),
        (["case", "x.jsonl", "--at", "first"], "first"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("watchkeeper: ")
    assert shown.err.count("\n") == 1
    assert said.lower() in shown.err.lower()


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_it_names_the_remedy(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom watchkeeper.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "run", "x"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert missing in done.stderr
    assert "pip install 'watchkeeper[cli]'" in done.stderr


def test_the_program_exits_with_the_code() -> None:
    assert run_program("--help").returncode == 0
    assert run_program("run").returncode == 2
