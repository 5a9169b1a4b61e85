"""The whole: a service with real workers, runs in SQLite, and what kills, blocks and drains do to them."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).with_name("agents")
PROGRAM = "import sys; from watchkeeper.cli import main; sys.exit(main())"
PATIENCE = 60.0


class Home:
    """A state folder and the services that are started on it, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.effects = folder / "effects"
        self.environ = {
            **os.environ,
            "WATCHKEEPER_STATE": str(folder / "state"),
            "SERVICE_EFFECTS": str(self.effects),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "supervisor"), str(ROOT / "tools"), str(AGENTS)]),
            "XDG_CONFIG_HOME": str(folder),
        }
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []

    def serve(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "serve", *options], stderr=subprocess.PIPE, text=True, env=self.environ
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self.process, self._lines), daemon=True).start()
        self.until('"serving"')

    def _read(self, process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.put(line)
        lines.put(None)

    def until(self, text: str) -> str:
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.said.append(line)
            if text in line:
                return line
        pytest.fail(f"it has ended without saying {text!r}: {''.join(self.said)}")

    def told(self, *arguments: str) -> str:
        """The standard output of a command of ours."""
        argv = [sys.executable, "-c", PROGRAM, *arguments]
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, "".join(self.said)
        self.close()

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stderr is not None
            self.process.stderr.close()

    def client(self) -> httpx2.Client:
        transport = httpx2.HTTPTransport(uds=str(self.folder / "state" / "service" / "api.sock"))
        return httpx2.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE)

    def go(self, *numbers: int) -> None:
        for number in numbers:
            (self.folder / f"GO-{number}").touch()

    def marks(self) -> list[str]:
        return self.effects.read_text("utf-8").splitlines() if self.effects.exists() else []

    def until_mark(self, beginning: str, times: int = 1) -> list[str]:
        return self.until_true(lambda: [mark for mark in self.marks() if mark.startswith(beginning)], times)

    @staticmethod
    def until_true(found: Callable[[], list[Any]], least: int = 1) -> list[Any]:
        """Effects are files: they are looked at until they are there."""
        limit = time.monotonic() + PATIENCE
        while len(there := found()) < least:
            assert time.monotonic() < limit, there
            time.sleep(0.02)
        return there


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def submit(client: httpx2.Client, agent: str) -> str:
    made = client.post("/v1/runs", json={"agent": agent, "task": "do it"})
    assert made.status_code == 201, made.text
    return str(made.json()["run"])


def outcome(client: httpx2.Client, run: str) -> dict[str, Any]:
    return dict(client.get(f"/v1/runs/{run}/result", params={"wait": PATIENCE}).json())


def test_a_run_goes_on_through_a_killed_worker_and_a_drained_service(home: Home) -> None:
    home.serve("--workers", "1", "--backend", "trio", "--drain", "0.1")
    with home.client() as client:
        run = submit(client, "steady")
        home.go(1)
        home.until_mark("begin 2")
        workers = lambda: client.get("/v1/workers").json()["workers"]  # noqa: E731
        worker = home.until_true(lambda: [one for one in workers() if one["runs"] == 1])[0]
        os.kill(worker["pid"], signal.SIGKILL)
        first, second = home.until_mark("begin 2", 2)
        assert first == second, "it is tried again under its key"
        home.go(2)
        home.until_mark("begin 3")
    home.end()
    assert home.marks().count("end 3") == 0

    home.go(3, 4)
    home.serve("--workers", "1")
    with home.client() as client:
        ended = outcome(client, run)
        assert (ended["status"], ended["answer"]) == ("completed", "all done")
        assert ended["turns"] == 5
    assert [mark for mark in home.marks() if mark.startswith("end")] == ["end 1", "end 2", "end 3", "end 4"]
    home.end()


def test_a_blocked_worker_is_named_and_killed_and_the_other_run_goes_on(home: Home) -> None:
    home.serve("--workers", "1", "--grace", "0.5")
    with home.client() as client:
        steady = submit(client, "steady")
        home.until_mark("begin 1")
        blocked = submit(client, "blocker")
        assert "in block holds it" in home.until("worker_in_trouble")
        worker = client.get("/v1/workers").json()["workers"][0]
        assert worker["state"] in ("blocked", "waiting", "starting")
        home.until("worker_killed")
        home.go(1, 2, 3, 4)
        assert outcome(client, steady)["status"] == "completed"
        assert outcome(client, blocked)["status"] == "completed"
        assert client.get("/v1/workers").json()["workers"][0]["restarts"] == 1
    assert "in body" not in home.told("stack", "w1")
    assert "(event loop)" in home.told("stack", "w1")
    home.told("doctor")
    home.end()


def test_a_worker_whose_file_is_deleted_makes_way_for_one_that_can_work(home: Home) -> None:
    """Nobody would hear of it otherwise: a worker that has nothing to write is none the wiser."""
    home.serve("--workers", "1")
    with home.client() as client:
        home.go(1, 2, 3, 4)
        first = submit(client, "steady")
        assert outcome(client, first)["status"] == "completed"
        (home.folder / "state" / "service" / "workers" / "w1.db").unlink()
        assert "w1.db was deleted or replaced" in home.until('"worker_died"')
        assert outcome(client, submit(client, "steady"))["status"] == "completed"
        assert client.get(f"/v1/runs/{first}").status_code == 404
    home.end()
