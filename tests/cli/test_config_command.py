"""``watchkeeper config``: check says what is wrong and where, show prints what counts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cli import main
from watchkeeper.configuration import load
from watchkeeper.configuration.showing import rows_of

WRONG = "[service]\nworkers = 0\n[agents.a]\nmodle = 'm'\n"
RIGHT = "[service]\nworkers = 3\n[agents.a]\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1/v1'\n"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "WATCHKEEPER_CONFIG", "WATCHKEEPER_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))


def write(folder: Path, text: str) -> str:
    path = folder / "config.toml"
    path.write_text(text)
    return str(path)


def test_check_tells_all_that_is_wrong_and_78(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, WRONG)
    assert main(["config", "check", path]) == 78
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"watchkeeper: {path}:2: service.workers must be more than 0, not 0"
    assert second.startswith(f"watchkeeper: {path}:4: agents.a.modle is unknown (did you mean model?)")


def test_check_looks_at_the_agents_too_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "[agents.a]\nmodel = 'm'\ntools = ['nonsense']\n")
    assert main(["config", "check", path]) == 78
    assert f"{path}:3: agents.a.tools: there is no tool set 'nonsense'" in capsys.readouterr().err
    assert main(["config", "check", path, "--files-only"]) == 0
    assert capsys.readouterr().out == f"{path}: all right; agents: a\n"


def test_check_tells_what_is_wrong_with_files_and_with_agents_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path,
        WRONG + "[agents.b]\nmodel = 'm'\ntools = ['nonsense']\nprofile = 'none'\napi_key_env = 'NOT_SET'\n"
        "[policy]\nrefuse_equl = 3\n",
    )
    assert main(["config", "check", path]) == 78
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1].removeprefix(path) for line in told] == [":2", ":4", ":8", ":7", ":9", ":11"]
    assert main(["config", "check", path, "--files-only"]) == 78
    assert capsys.readouterr().err.splitlines() == told[:2]


def test_check_of_what_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", write(tmp_path, RIGHT)]) == 0
    assert capsys.readouterr().err == ""


def test_without_a_file_those_of_user_and_environment_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "watchkeeper").mkdir(parents=True)
    path = write(tmp_path / "home" / "watchkeeper", WRONG)
    assert main(["config", "check"]) == 78
    assert path in capsys.readouterr().err
    monkeypatch.setenv("WATCHKEEPER_CONFIG", write(tmp_path, RIGHT))
    assert main(["config", "check"]) == 0
    monkeypatch.setenv("WATCHKEEPER_SERVICE_WORKER", "3")
    assert main(["config", "check"]) == 78
    assert "did you mean WATCHKEEPER_SERVICE_WORKERS?" in capsys.readouterr().err


def test_show_prints_what_counts_and_who_has_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, RIGHT)
    monkeypatch.setenv("WATCHKEEPER_SERVICE_GRACE", "7")
    assert main(["config", "show", path, "--origin"]) == 0
    lines = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert f"service.workers = 3 # {path}:2" in lines
    assert "service.grace = 7.0 # WATCHKEEPER_SERVICE_GRACE" in lines
    assert "service.drain = 30.0 # default" in lines
    assert "service.retention.days = 30.0 # default" in lines
    assert main(["config", "show", path]) == 0
    assert "#" not in capsys.readouterr().out


def test_show_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, RIGHT)
    assert main(["config", "show", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agents.a.model"] == {"value": "m", "origin": f"{path}:4"}
    assert found["agents.a.context_window"] == {"value": "off", "origin": "default"}


def test_show_hides_what_looks_secret_and_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2-hunter2-hunter2")
    key = "sk-" + "a1b2c3d4" * 5
    path = write(
        tmp_path,
        f'[agents.a]\nmodel = "m"\ninstructions = "The key is {key}, or hunter2-hunter2-hunter2. \\u001b[31m\\u202e"\n'
        'base_url = "http://me:pass-word@127.0.0.1/v1"\n',
    )
    for more in ((), ("--json",), ("--origin",)):
        assert main(["config", "show", path, *more]) == 0
        shown = capsys.readouterr().out
        assert "The key is" in shown
        assert not [one for one in (key, "hunter2", "pass-word", "\x1b", "\u202e") if one in shown]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(texts, st.lists(texts, max_size=3), st.dictionaries(texts, st.integers(0, 9), max_size=3))
def test_what_show_prints_may_be_read_again(text: str, names: list[str], calls: dict[str, int]) -> None:
    given = load(
        (),
        {},
        {
            "agents.a": {"instructions": text, "require": names, "price": {"input": 1.5, "output": 2}},
            "limits.calls_per_tool": calls,
            "service.retention.days": "off",
        },
    )
    rows = rows_of(given, {})
    again = load((), {}, {"all": None} | tomllib.loads("\n".join(row.toml() for row in rows)))
    assert rows_of(again, {}) == [
        row if row.origin != "default" else type(row)(row.key, row.value, "the command line") for row in rows
    ]
