"""``watchkeeper run`` with cassettes, and ``watchkeeper record``: what they write, play, print and return."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import httpx2
import msgspec
import pytest
from serving import PROGRAM, TIMEOUT, environment, run_program, served

from watchkeeper import Event, decode_event
from watchkeeper.cli import main
from watchkeeper.testing import BACKENDS
from watchkeeper.testing.server import CallTools, Say

SCRIPT = [CallTools(("read_file", {"path": "a.txt"}), text="I look."), Say("Done.")]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with a file, a recorded run and its events."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.txt").write_text("apples\n")
    with served(SCRIPT) as server:
        code = main(
            run_in(tmp_path, "--model", "m", "--base-url", server.base_url, "--record", str(tmp_path / "run.jsonl"))
        )
    assert code == 0
    (tmp_path / "events").rename(tmp_path / "recorded-events")
    return tmp_path


def run_in(folder: Path, *more: str, task: str = "Do it.") -> list[str]:
    root, events = str(folder / "root"), str(folder / "events")
    return ["run", task, "--tools", "files", "--root", root, "--events", events, *more]


def played(folder: Path, *more: str, task: str = "Do it.") -> int:
    return main(run_in(folder, "--from-cassette", str(folder / "run.jsonl"), *more, task=task))


def events(file: Path) -> list[Event]:
    """The facts of a file. The version of the code is said where an engine keeps the run, and no played run is kept."""
    first, *rest = map(decode_event, file.read_bytes().splitlines())
    return [msgspec.structs.replace(first, code=""), *rest]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_recorded_run_plays_back_to_the_same_events(
    backend: str, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (recorded / "root" / "a.txt").unlink()  # no tool is run
    assert played(recorded, "--backend", backend) == 0
    assert events(recorded / "events") == events(recorded / "recorded-events")
    assert "    Done." in capsys.readouterr().out


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_differs_is_told(backend: str, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(recorded, "--backend", backend, "--instructions", "Be brief.") == 1
    told = capsys.readouterr().err
    assert "the model was not asked this" in told
    assert '+   "content": "Be brief.\\n\\nRules of this run' in told
    assert played(recorded, "--backend", backend, task="Another.") == 2
    assert "holds no run with the task 'Another.'; it holds 'Do it.'" in capsys.readouterr().err


def test_tools_are_run_for_real_if_asked(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(recorded, "--real-tools") == 0
    (recorded / "root" / "a.txt").write_text("pears\n")
    assert played(recorded, "--real-tools") == 1
    assert "pears" in capsys.readouterr().err
    assert played(recorded, "--mock-tools") == 0


def test_tools_are_mocked_for_a_real_model(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recorded / "root" / "a.txt").unlink()
    mocked = ["--mock-tools", "--tools-from", str(recorded / "run.jsonl"), "--model", "m", "--base-url"]
    with served(SCRIPT) as server:
        assert main(run_in(recorded, *mocked, server.base_url)) == 0
    assert "apples" in capsys.readouterr().out
    with served([CallTools(("read_file", {"path": "b.txt"})), Say("Done.")]) as server:
        assert main(run_in(recorded, *mocked, server.base_url)) == 1
    assert "no call of read_file with these arguments was recorded" in capsys.readouterr().err


def test_faults_are_laid_over_it(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(recorded, "--fault", "1:rate_limited:retry_after=600", "--fault", "3:cut") == 0
    shown = capsys.readouterr().out
    assert "rate_limited; again in 10 min" in shown
    assert "connection; again in" in shown
    (recorded / "faults.toml").write_text('[[faults]]\nat = 2\nkind = "server_error"\n')
    assert played(recorded, "--fault", f"@{recorded / 'faults.toml'}") == 0
    assert "server; again in" in capsys.readouterr().out


def test_traffic_is_played_to_a_run(tmp_path: Path, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traffic.jsonl"
    with served(SCRIPT) as server:
        proxy = subprocess.Popen(
            [*PROGRAM, "record", str(path), "--upstream", server.base_url],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert proxy.stdout is not None
        url = proxy.stdout.readline().split(" use ")[1].split(" ")[0]
        assert main(run_in(tmp_path, "--model", "m", "--base-url", url)) == 0
        proxy.send_signal(signal.SIGINT)
        assert proxy.wait(TIMEOUT) == 0
        proxy.stdout.close()
    (tmp_path / "run.jsonl").unlink()
    path.rename(tmp_path / "run.jsonl")
    assert played(tmp_path) == 0
    capsys.readouterr()
    assert played(tmp_path, "--instructions", "Be brief.") == 1
    told = capsys.readouterr().err
    assert "--from-cassette: " in told
    assert "has no recording of POST" in told
    assert "Be brief." in told
    assert "check --model" not in told  # there is no server that could be wrong


def test_a_program_that_plays_reaches_no_network(recorded: Path) -> None:
    """The tool is run for real and wants to; there is somebody to answer it."""
    with served([Say("x")]) as server:
        url = server.base_url.removesuffix("/v1") + "/v1/models"
        host = url.split("//")[1].split("/")[0]
        tools = ["--tools", "http", "--allow-host", host, "--allow-private"]
        record = ["run", "Get it.", *tools, "--record", str(recorded / "net.jsonl"), "--model", "m"]
        with served([CallTools(("http_get", {"url": url})), Say("Done.")]) as model:
            done = run_program(*record, "--base-url", model.base_url)
        assert "scripted" in done.stdout, done.stdout + done.stderr
        before = server.connections
        done = run_program("run", "Get it.", *tools, "--from-cassette", str(recorded / "net.jsonl"), "--real-tools")
        assert server.connections == before
    assert "apples" not in done.stdout
    assert done.returncode == 1  # what the tool said differs, and so does the next request


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--record", "{run}"], "is there already: add to it, remove it, or name another file"),
        (["--record", "x", "--from-cassette", "{run}"], "exclude each other"),
        (["--mock-tools"], "--mock-tools needs a cassette"),
        (["--real-tools"], "--real-tools is for --from-cassette FILE"),
        (["--fault", "cut"], "--fault is for --from-cassette FILE"),
        (["--add"], "--add is for --record FILE"),
        (["--from-cassette", "{run}", "--fault", "boom"], "its kinds are rate_limited"),
        (["--from-cassette", "{run}", "--fault", "@none.toml"], "--fault @none.toml: "),
        (["--from-cassette", "none.jsonl"], "cannot be read: No such file"),
        (["--from-cassette", "{run}", "--real-tools", "--mock-tools"], "exclude each other"),
    ],
)
def test_what_cannot_be_is_told(more: list[str], told: str, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [part.format(run=recorded / "run.jsonl") for part in more]
    assert main(run_in(recorded, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", *given)) == 2
    assert told in capsys.readouterr().err


def test_what_fails_before_it_begins_leaves_no_file_in_the_way(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, traffic = tmp_path / "new.jsonl", tmp_path / "traffic.jsonl"
    model = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    assert main(run_in(recorded, *model, "--record", str(run), "--require", "nothing")) == 2
    assert main(["record", str(traffic), "--upstream", "ftp://x"]) == 2
    assert main(["record", str(traffic), "--upstream", "http://127.0.0.1:9/v1", "--port", "99999"]) == 2
    assert not run.exists()
    assert not traffic.exists()
    told = capsys.readouterr().err
    assert "--upstream must look like https://host/v1, not 'ftp://x'" in told
    assert "--port 99999: ports are from 1 to 65535" in told


def test_a_port_that_is_taken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traffic.jsonl"
    with served([]) as server:
        taken = server.base_url.rpartition(":")[2].partition("/")[0]
        assert main(["record", str(path), "--upstream", server.base_url, "--port", taken]) == 2
    assert f"--port {taken}: " in capsys.readouterr().err
    assert not path.exists()


def test_adding_and_a_cut_line(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recorded / "run.jsonl"
    with served([Say("Second.")]) as server:
        more = ["--model", "m", "--base-url", server.base_url, "--record", str(run), "--add"]
        assert main(run_in(recorded, *more, task="Another.")) == 0
    with run.open("ab") as file:
        file.write(b'{"type":"fa')
    capsys.readouterr()
    assert played(recorded, task="Another.") == 0
    shown = capsys.readouterr()
    assert "Second." in shown.out
    assert "was cut off and is left out" in shown.err


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_proxy_ends_on_ctrl_c_with_the_file_whole(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    with served([Say("hello")]) as server:
        command = [*PROGRAM, "record", str(path), "--upstream", server.base_url, "--backend", backend]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as proxy:
            assert proxy.stdout is not None
            url = proxy.stdout.readline().split(" use ")[1].split(" ")[0]
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            answer = httpx2.post(f"{url}/chat/completions", json=body, trust_env=False)
            assert answer.json()["choices"][0]["message"]["content"] == "hello"
            proxy.send_signal(signal.SIGINT)
            assert proxy.wait(TIMEOUT) == 0
    kinds = [json.loads(line)["type"] for line in path.read_text("utf-8").splitlines()]
    assert kinds[:3] == ["cassette", "request", "response"]
    assert kinds[-1] == "end"
    done = run_program("record", str(path), "--upstream", server.base_url)
    assert done.returncode == 2
    assert "is there already" in done.stderr
