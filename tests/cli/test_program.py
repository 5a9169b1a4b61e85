"""The program as a whole: how it starts, what it says to wrong usage, what it needs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving import environment, run_program

from watchkeeper import __version__
from watchkeeper.cli import main
from watchkeeper.cli.front import UNUSUAL

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


@pytest.mark.parametrize("arguments", [["run", "Sum", "up", "notes"], ["show", "r1", "up", "notes"]])
def test_words_that_nothing_takes_are_named_with_the_remedy(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("watchkeeper: nothing here takes 'up', 'notes': a text of several words needs quotes")


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


def loaded_by(*arguments: str, **env: str) -> set[str]:
    """The modules that are loaded once the program has done what it was asked to."""
    code = (
        "import json, sys; from watchkeeper.cli import main; main(sys.argv[1:])\n"
        "print('\\0' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
        env=environment(**env),
    )
    return set(json.loads(done.stdout.rpartition("\0")[2]))


def test_help_loads_no_verb_and_nothing_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what makes it start at once; a clock would measure the machine."""
    for name in UNUSUAL:
        monkeypatch.delenv(name, raising=False)
    loaded = loaded_by("--help", TERM="xterm", COLUMNS="80", PYTHONIOENCODING="utf-8")
    assert loaded.isdisjoint({*SLOW, "cyclopts", "rich", "attr", "inspect"})
    assert {name for name in loaded if name.startswith("watchkeeper")} <= {
        *("watchkeeper", "watchkeeper.lazily", "watchkeeper.cli", "watchkeeper.cli.commands"),
        *("watchkeeper.cli.exits", "watchkeeper.cli.front", "watchkeeper.cli.program"),
    }


def test_help_of_a_verb_loads_that_verb_alone() -> None:
    loaded = loaded_by("ps", "--help")
    assert "cyclopts" in loaded
    assert loaded.isdisjoint(set(SLOW) - {"msgspec"})


def test_ps_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """No agent, no guard, no server and no table: that is what makes it answer at once. Where there is nobody to ask
    it needs no event loop, and without options no parser of them."""
    for options in ((), ("-a", "--json")):
        loaded = loaded_by("ps", *options, WATCHKEEPER_STATE=str(tmp_path))
        assert loaded.isdisjoint(
            {"trio", "openai", "httpx2", "structlog", "rich", "litestar", "uvicorn", "sqlite3"}
            | {"anyio", "asyncio", "ssl", "logging", "subprocess"}
        )
        assert ("cyclopts" in loaded) == bool(options)
        ours = {name.split(".")[1] for name in loaded if name.startswith("watchkeeper.")}
        assert ours <= {"cli", "engine", "errors", "lazily", "messages", "service", "states"}


def test_ps_asks_the_service_of_this_machine_without_a_library(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor(1) as threads:
        listening.settimeout(60)
        listening.bind(str(folder / "api.sock"))
        listening.listen()
        asked = threads.submit(answer_once, listening, b'{"runs":[],"more":false}')
        loaded = loaded_by("ps", WATCHKEEPER_STATE=str(tmp_path))
        assert asked.result(60).startswith(b"GET /v1/runs?")
    assert "anyio" in loaded
    assert loaded.isdisjoint({"cyclopts", "httpx2", "trio", "http", "rich", "sqlite3", "watchkeeper.log"})


def answer_once(listening: socket.socket, body: bytes) -> bytes:
    """Give whoever connects that answer; what was asked."""
    connection, _ = listening.accept()
    with connection:
        asked = connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    return asked


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
