"""The service: how soon a blocked worker is named, and its other runs go on; how long it takes to stop all runs.

Run it with ``python benchmarks/service_cancel.py`` (extras ``server`` and ``cli``). It starts ``watchkeeper serve``
with one worker in a state folder of its own, and agents whose model is scripted.

*Blocked*: one run ticks ten times a second, leaving a mark each time; another one holds the event loop. From the moment
at which it begins to, until the service says which frame holds it (``named_s``), and from the worker's death until the
first run leaves its next mark (``recovered_s``). The grace between the two is set to one second.

*Stop all*: so many runs wait in a tool; one request ends them. ``stop_all_s`` is from sending the request until its
answer, which says of each run how it has ended, is there. What it says is counted after the clock has stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx2

from reporting import backends, parser, report

RUNS = 1000
GRACE = 1.0
PATIENCE = 120.0
PROGRAM = "import sys; from watchkeeper.cli import main; sys.exit(main())"
ENTRY_POINTS = (
    "[watchkeeper.agents]\nticker = benchagents:ticker\nholder = benchagents:holder\nidler = benchagents:idler\n"
)
AGENTS = '''
import os, time, anyio
from pathlib import Path
from watchkeeper import Agent, tool
from watchkeeper.testing import ScriptedModel, call, say

MARKS = Path(os.environ["BENCH_MARKS"])

def mark(text):
    with MARKS.open("a") as file:
        file.write(f"{time.time()} {text}\\n")

@tool(effect="reads")
async def tick(n: int) -> str:
    """Tick."""
    await anyio.sleep(0.1)
    mark("tick")
    return f"tick {n}"

@tool(effect="reads")
async def hold(n: int) -> str:
    """Hold the loop, the first time."""
    if not (held := MARKS.with_name("held")).exists():
        held.touch()
        mark("held")
        while True:
            time.sleep(0.001)
    return "done"

@tool(effect="reads", timeout=7200)
async def idle(n: int) -> str:
    """Wait."""
    await anyio.sleep(3600)
    return "done"

def agent(tool, turns, name):
    def step(request, number):
        done = sum(message.role == "tool" for message in request.messages)
        return say("done") if done >= turns else call((tool.name, {"n": done}))
    from watchkeeper import Limits
    return Agent(ScriptedModel(step, keep_requests=False), [tool], name=name, limits=Limits(max_turns=100_000))

ticker, holder, idler = agent(tick, 90_000, "ticker"), agent(hold, 1, "holder"), agent(idle, 1, "idler")
'''


class Service:
    """``watchkeeper serve`` with one worker, in a folder of its own."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.marks = folder / "marks"
        self.marks.touch()
        (folder / "benchagents.py").write_text(AGENTS, "utf-8")
        info = folder / "benchagents-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: benchagents\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(folder)]))
        state = folder / "state"
        environ = {**os.environ, "PYTHONPATH": path, "WATCHKEEPER_STATE": str(state), "BENCH_MARKS": str(self.marks)}
        options = ["--workers", "1", "--max-runs", "2000", "--backend", backend, "--grace", str(GRACE)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "serve", *options], stderr=subprocess.PIPE, text=True, env=environ
        )
        self.said: list[tuple[float, dict[str, Any]]] = []
        threading.Thread(target=self._read, daemon=True).start()
        transport = httpx2.HTTPTransport(uds=str(state / "service" / "api.sock"))
        self.client = httpx2.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE)
        self.told("serving")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append((time.time(), json.loads(line) if line.startswith("{") else {"event": line}))

    def told(self, event: str, after: float = 0.0) -> float:
        """When it said so, by the wall clock; waits for it."""
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit and self.process.poll() is None:
            for at, said in list(self.said):
                if at > after and said["event"] == event:
                    return at
            time.sleep(0.005)
        raise RuntimeError(f"the service has not said {event}: {self.said[-5:]}")

    def marked(self, text: str, after: float = 0.0) -> float:
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            for line in self.marks.read_text("utf-8").splitlines():
                at, _, what = line.partition(" ")
                if what == text and float(at) > after:
                    return float(at)
            time.sleep(0.005)
        raise RuntimeError(f"there is no mark {text}")

    def submit(self, agent: str, count: int = 1) -> list[str]:
        runs = []
        for _ in range(count):
            made = self.client.post("/v1/runs", json={"agent": agent, "task": "bench"})
            runs.append(str(made.raise_for_status().json()["run"]))
        return runs

    def working(self, agent: str, count: int) -> list[str]:
        """Submit so many, and wait until all have begun."""
        runs = self.submit(agent, count)
        limit = time.monotonic() + PATIENCE
        while (working := self.client.get("/v1/workers").json()["workers"][0])["runs"] < count:
            if time.monotonic() > limit:
                raise RuntimeError(f"not all of {count} runs have begun: {working}")
            time.sleep(0.1)
        return runs

    def end(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)


def blocked(service: Service) -> dict[str, float]:
    service.submit("ticker")
    service.marked("tick")
    service.submit("holder")
    held = service.marked("held")
    named = service.told("worker_in_trouble", held)
    died = service.told("worker_died", named)
    return {"named_s": named - held, "killed_s": died - named, "recovered_s": service.marked("tick", died) - died}


def stop_all(service: Service, runs: int) -> dict[str, float]:
    service.working("idler", runs)
    began = time.perf_counter()
    answer = service.client.post("/v1/stop-all", json={"reason": "bench", "wait": 60})
    took = time.perf_counter() - began
    answer.raise_for_status()
    ended = [run for run in answer.json()["runs"] if run["outcome"] == "cancelled"]
    assert len(ended) >= runs, f"{len(ended)} of {runs} runs have ended: {answer.text[:500]}"
    return {"stop_all_s": took}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=RUNS)
    given = options.parse_args()
    rows, figures = [], {}
    for backend in backends(given.backend):
        runs = 100 if given.quick else given.runs
        with tempfile.TemporaryDirectory() as folder:
            service = Service(Path(folder), backend)
            try:
                found = blocked(service) | stop_all(service, runs)
            finally:
                service.end()
        rows.append({"backend": backend, "runs": runs, **found})
        figures |= {f"{name}_{backend}": value for name, value in found.items()}
    columns = {name: "" if name in ("backend", "runs") else ".2f" for name in rows[0]}
    report("service_cancel", rows, figures, columns=columns, as_json=given.json, of=("litestar", "uvicorn"))


if __name__ == "__main__":
    main()
