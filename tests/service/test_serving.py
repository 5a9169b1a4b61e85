"""The control process as a process: what it listens on, what it says, signals, and its end."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from watchkeeper.cli import main

SCRIPT = Path(__file__).with_name("controlled.py")
PATIENCE = 30.0


class Controlled:
    """A control process and what it writes. Its exit code is 99 if it has ever loaded what agents are made of."""

    def __init__(
        self, folder: Path, behaviour: str, config: str | None, environ: dict[str, str], **service: Any
    ) -> None:
        self.folder = folder
        overrides = {f"service.{key}": value for key, value in {"workers": 1, "grace": 0.5, **service}.items()}
        self.config = folder / "config.toml"
        files = []
        if config is not None:
            folder.mkdir(exist_ok=True)
            self.config.write_text(config)
            files.append(str(self.config))
        given = json.dumps({"config": files, "overrides": overrides})
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), given, behaviour],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ},
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.said: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, text: str) -> str:
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.said.append(line)
            if text in line:
                return line
        pytest.fail(f"it has ended without saying {text!r}: {''.join(self.said)}")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.said.append(line)
        return code

    def client(self) -> httpx2.Client:
        transport = httpx2.HTTPTransport(uds=str(self.folder / "api.sock"))
        return httpx2.Client(transport=transport, base_url="http://watchkeeper", timeout=PATIENCE)


Start = Callable[..., Controlled]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Controlled] = []

    def made(
        behaviour: str = "good", *, config: str | None = None, environ: dict[str, str] | None = None, **service: Any
    ) -> Controlled:
        started.append(Controlled(tmp_path / "service", behaviour, config, environ or {}, **service))
        return started[-1]

    yield made
    for one in started:
        one.process.kill()
        one.process.wait()
        assert one.process.stderr is not None
        one.process.stderr.close()


def test_the_life_of_a_service(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        heard: queue.SimpleQueue[str] = queue.SimpleQueue()

        def listen() -> None:
            while not (said := systemd.recv(4096).decode()).startswith("STOPPING=1"):
                heard.put(said)
            heard.put(said)

        threading.Thread(target=listen, daemon=True).start()

        def told(beginning: str) -> None:
            while not heard.get(timeout=PATIENCE).startswith(beginning):
                pass

        control = start(
            config="[service]\ndrain = 7\n[agents.clerk]\nprofile = 'demo'\n",
            environ={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "150000"},
        )
        told("READY=1")
        told("WATCHDOG=1")
        assert stat.S_IMODE((control.folder / "api.sock").stat().st_mode) == 0o700
        with control.client() as client:
            assert client.get("/livez").json()["ok"] is True
            assert client.get("/readyz").status_code == 200
            worker = client.get("/v1/workers").json()["workers"][0]
            assert (worker["name"], worker["state"], worker["restarts"]) == ("w1", "running", 0)
            assert "in body" in client.get("/v1/workers/w1/stack").text
            (rules,) = client.get("/v1/policies").json()["agents"]
            assert (rules["agent"], rules["profile"], rules["settings"]["limits"]["max_turns"]) == ("clerk", "demo", 10)

        control.config.write_text("[service]\ndrain = 7\n[agents.clerk]\nprofile = 'safe-loop'\n")
        control.process.send_signal(signal.SIGHUP)
        assert "[info" in control.until("configuration_reloaded")
        with control.client() as client:
            (rules,) = client.get("/v1/policies").json()["agents"]
            assert (rules["profile"], rules["settings"]["limits"]["max_turns"]) == ("safe-loop", 15)
        control.until("worker_reloaded")
        told("RELOADING=1")
        control.config.write_text("[service]\nworkerz = 2\n")
        control.process.send_signal(signal.SIGHUP)
        kept = control.until("configuration_kept")
        assert "workerz" in kept
        assert "config.toml:2" in kept

        control.process.send_signal(signal.SIGUSR1)
        control.until("in _signals")
        control.until("in body")

        second = start()
        assert second.ended() == 78
        assert f"served already, by process {control.process.pid}" in "".join(second.said)

        assert control.end() == 0
        told("STOPPING=1")
    with pytest.raises(ProcessLookupError):
        os.kill(worker["pid"], 0)


def test_shared_budgets_are_those_of_the_configuration(
    start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    control = start(config="[budgets.team]\nmax_calls = 3\n")
    control.until("serving")
    with control.client() as client:

        def submit(budget: str) -> int:
            return client.post("/v1/runs", json={"agent": "a", "task": "t", "budget": budget}).status_code

        assert (submit("team"), submit("other")) == (201, 422)
        control.config.write_text("[budgets.other]\nmoney = 2.5\n")
        control.process.send_signal(signal.SIGHUP)
        control.until("configuration_reloaded")
        assert (submit("team"), submit("other")) == (201, 201)
        other, team = client.get("/v1/budgets").json()["budgets"]
        assert other == {"name": "other", "holds": {"money": 2.5}, "left": {"money": 2.5}}
        assert (team["name"], team["holds"]) == ("team", {"calls": 3.0}), "of one that is named no more, too"
    monkeypatch.setenv("WATCHKEEPER_URL", f"unix:{control.folder / 'api.sock'}")
    assert main(["budget"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["BUDGET", "WHAT", "LEFT", "OF"], ["other", "money", "2.5", "2.5"]]
    assert main(["budget", "--json"]) == 0
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["other", "team"]
    assert control.end() == 0


def test_a_drain_admits_nothing_and_a_second_signal_ends_what_hangs(start: Start) -> None:
    control = start("always-swallow", drain=600)
    assert "[info" in control.until("serving")
    with control.client() as client:
        control.process.send_signal(signal.SIGTERM)
        control.until("draining")
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200
        refused = client.post("/v1/runs", json={"agent": "a", "task": "t"}, headers={"Idempotency-Key": "k1"})
        assert refused.status_code == 503
    control.process.send_signal(signal.SIGINT)
    control.until("worker_in_trouble")
    control.until("in swallow")
    control.until("not_stopped_in_time")
    assert control.ended() == 0


def test_workers_that_die_again_and_again_end_it_with_a_code(start: Start) -> None:
    control = start("always-refuses")
    control.until("service_failed")
    assert control.ended() == 1
    assert "the file is another's" in "".join(control.said)
