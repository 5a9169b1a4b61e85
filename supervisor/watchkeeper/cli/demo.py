"""``watchkeeper demo``: four short runs against a scripted server on loopback, or with a real small model."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from ..agent import Agent
from ..messages import CallEnded, CallStarted, Event
from ..models.openai import OpenAIModel
from ..plugins import load_tools
from ..run import Run
from ..supervisor import Supervisor
from ..testing.server import ChatServer, Script
from .epilogue import epilogue
from .exits import COMPLETED, FAILED, complain
from .narrator import line
from .printable import duration
from .run import quiet_reports
from .scenes import SCENES, Played, Scene
from .tables import Row, print_table
from .view import View, show, view_on

KEEP = 10_000


def demo(
    *,
    backend: Annotated[Literal["asyncio", "trio"], Parameter(help="Event loop.")] = "asyncio",
    real: Annotated[bool, Parameter(help="A real small model on this machine, with and without supervision.")] = False,
    model_python: Annotated[
        Path | None,
        Parameter(help="The Python of the environment that has the model (sh scripts/demo --real makes it)."),
    ] = None,
) -> int:
    """Watch four short runs: a healthy one, one that repeats itself, one that never ends, one with a bad server.

    Needs no key: a server on loopback plays the model's part, all else is real. Ends with a table of what happened;
    the exit code is 0 only if all four ended as they should. With --real the part of the model is played by a real
    small one.
    """
    with quiet_reports():
        if real:
            from .real import compare

            code: int = anyio.run(compare, model_python, backend=backend)
        else:
            code = anyio.run(perform, view_on(sys.stdout), backend=backend)
    return code


async def perform(view: View) -> int:
    """Play all scenes, one after the other; the exit code."""
    scripts: Mapping[str, Script] = {scene.name: scene.script for scene in SCENES}
    rows, wrong = list[Row](), list[str]()
    async with ChatServer(scripts) as server, Supervisor(keep=KEEP, plugged=False) as supervisor:
        for number, scene in enumerate(SCENES, 1):
            view.print([line(""), line(f"{number}. {scene.name}: {scene.about}", "head", wrap=True)])
            with tempfile.TemporaryDirectory(prefix="watchkeeper-") as folder:
                played = await play(scene, server, supervisor, Path(folder), view)
                problems = list(scene.check(played))
            rows.append(_row(scene, played, problems))
            wrong += [f"demo: {scene.name}: {problem}" for problem in problems]
    view.print([line("")])
    print_table(("run", "what happened", "calls", "tokens", "verdicts", "cancel", "outcome"), rows, widest=1)
    for problem in wrong:
        complain(problem)
    return FAILED if wrong else COMPLETED


async def play(scene: Scene, server: ChatServer, supervisor: Supervisor, folder: Path, view: View) -> Played:
    """One run from start to end, shown while it goes on."""
    for name, text in scene.files.items():
        (folder / name).write_text(text, "utf-8")
    before = len(server.requests)
    model = OpenAIModel(scene.name, base_url=server.base_url, api_key="none")
    agent = Agent(model, load_tools(*scene.tools, root=folder), name=scene.name, **scene.agent)
    run = await supervisor.start(agent, scene.task)
    cut = _Cut(run)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(show, run, view)
        if scene.cancel_at is not None:
            tasks.start_soon(cut.when_busy, scene.cancel_at)
        outcome = await run.wait()
        latency = cut.latency()
    view.print(epilogue(outcome))
    return Played(
        outcome=outcome,
        events=[event async for event in run.events() if isinstance(event, Event)],
        folder=folder,
        requests=server.requests[before:],
        latency=latency,
    )


class _Cut:
    """Cancels a run from another thread, as somebody outside would, and measures how long that takes."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._began: float | None = None

    async def when_busy(self, calls: int) -> None:
        """Cancel as soon as so many calls are at work."""
        running = 0
        async for event in self._run.events():
            running += isinstance(event, CallStarted)
            running -= isinstance(event, CallEnded)
            if running == calls:
                threading.Thread(target=self._cancel, daemon=True).start()
                return

    def latency(self) -> float | None:
        return None if self._began is None else time.perf_counter() - self._began

    def _cancel(self) -> None:
        self._began = time.perf_counter()
        self._run.threadsafe.cancel("somebody has had enough")


def _row(scene: Scene, played: Played, problems: list[str]) -> Row:
    outcome = played.outcome
    started = len({event.call_id for event in played.of(CallStarted)})
    refused = sum(1 for call in outcome.calls if call.kind in ("refused", "denied"))
    ended = outcome.status if outcome.status == "cancelled" else f"{outcome.status} ({outcome.reason})"
    return (
        (scene.name, "head"),
        (scene.happened(played), "plain"),
        (f"{started} + {refused} refused" if refused else f"{started}", "plain"),
        (f"{outcome.usage.total:,}", "plain"),
        (", ".join(f"{what} at {n}" for what, n in played.verdicts()) or "none", "plain"),
        (duration(played.latency) if played.latency is not None else "–", "plain"),
        (f"{ended}: NOT as expected" if problems else ended, "bad" if problems else "good"),
    )
