"""Kills a worker with SIGKILL at each write of its journal, and at random moments, and looks what came of its run.

    python scripts/killed_runs.py --random 300

Prints what was found and exits with 1 if a finished call was repeated, a fact was lost, a run had no end, or its budget
was below what the provider counted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from watchkeeper import Agent, Event, IdempotencyKey, Supervisor, tool, writes
from watchkeeper.engine import RunSpec
from watchkeeper.journal import SqliteEngine
from watchkeeper.messages import CallEnded, CallProposed, CallStarted, ModelReplied, RunEnded
from watchkeeper.model import Request
from watchkeeper.testing import ScriptedModel, Step, call, check_conversation, say, violations

RUN, TOKENS = "r1", 20
SENT = 3
"""Mails that the run sends."""
PATIENCE = 60.0
"""Seconds that one process may take."""


class Killing:
    """An engine whose process dies at the write of that number: before it, or right behind it."""

    def __init__(self, engine: SqliteEngine, at: float, behind: bool) -> None:
        self._engine = engine
        self.at = at
        self.behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def leases(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        async for lease in self._engine.leases(*arguments, **named):
            yield KillingLease(lease, self)


class KillingLease:
    def __init__(self, lease: Any, engine: Killing) -> None:
        self._lease = lease
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lease, name)

    async def append(self, events: Sequence[Event], charges: Mapping[str, float] | None = None) -> None:
        engine = self._engine
        engine.at -= 1
        if engine.at == 0 and not engine.behind:
            os.kill(os.getpid(), signal.SIGKILL)
        await self._lease.append(events, charges)
        if engine.at == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def note(folder: Path, line: str) -> None:
    """What happened outside: durable at once, whoever dies."""
    with (folder / "world").open("a") as world:
        world.write(line + "\n")


def world(folder: Path) -> list[str]:
    path = folder / "world"
    return path.read_text().splitlines() if path.exists() else []


def agent(folder: Path) -> Agent:
    @tool(effect="reads")
    async def look(place: str) -> str:
        """Look."""
        await anyio.sleep(0.002)
        return f"seen {place}"

    @tool(effect=writes("desk"), idempotent=True)
    async def put(thing: str, key: IdempotencyKey) -> str:
        """Put."""
        note(folder, f"put {key}")
        await anyio.sleep(0.002)
        return f"put {thing}"

    async def was_sent(key: str) -> str | None:
        return "sent" if f"send {key}" in world(folder) else None

    @tool(effect=writes("mail"), after_crash=was_sent)
    async def send(text: str, key: IdempotencyKey) -> str:
        """Send."""
        await anyio.sleep(0.001)
        note(folder, f"send {key}")
        await anyio.sleep(0.001)
        return "sent"

    steps = [
        call(("look", {"place": "a"}), ("look", {"place": "b"}), ("put", {"thing": "c"}), ("send", {"text": "d"})),
        call(("send", {"text": "d"}), ("look", {"place": "e"})),
        call(("put", {"thing": "f"}), ("send", {"text": "g"})),
        say("Done."),
    ]

    def reply(request: Request, asked: int) -> Step:
        said = sum(message.role == "assistant" for message in request.messages)
        note(folder, "asked")
        step = steps[said]
        return msgspec.structs.replace(step, ids=tuple(f"call_{said}_{slot}" for slot in range(len(step.calls))))

    return Agent(ScriptedModel(reply), [look, put, send], name="one", required=["look"])


async def work(folder: Path, at: float, behind: bool) -> None:
    async with SqliteEngine(folder / "engine", worker="w") as engine:
        await engine.submit(RunSpec(agent="one", task="Do it."), run=RUN)
        killing: Any = Killing(engine, at, behind)
        async with Supervisor(engine=killing, agents={"one": agent(folder)}, plugged=False, monitor=False):
            async for _ in engine.watch(RUN):
                pass


def process(folder: Path, backend: str, *, at: float = 0, behind: bool = False, after: float | None = None) -> bool:
    """Work in a process of its own; whether that was killed. ``after``: seconds until it is."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            anyio.run(work, folder, at or float("inf"), behind, backend=backend)
            code = 0
        finally:
            os._exit(code)
    began = time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        gone = time.monotonic() - began
        if gone > PATIENCE or (after is not None and gone >= after):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)
    if gone_wrong := (not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0):
        raise RuntimeError(f"the worker failed: exit {os.waitstatus_to_exitcode(status)} ({gone_wrong})")
    return os.WIFSIGNALED(status)


async def facts_of(folder: Path) -> list[Event]:
    async with SqliteEngine(folder / "engine") as engine:
        return [event async for event in engine.watch(RUN) if isinstance(event, Event)]


def wrongs(folder: Path, facts: Sequence[Event]) -> list[str]:
    """What does not hold of a run that was killed and has ended."""
    found = []
    if [event.n for event in facts] != list(range(1, len(facts) + 1)):
        found.append("facts are missing")
    ends = [event.outcome for event in facts if isinstance(event, RunEnded)]
    if len(ends) != 1 or not isinstance(facts[-1], RunEnded):
        return [*found, f"it has {len(ends)} ends"]
    outcome = ends[0]
    if (outcome.status, outcome.answer) != ("completed", "Done."):
        found.append(f"it ended as {outcome.status} ({outcome.reason}): {outcome.message} {outcome.cause or ''}")
    ended: set[str] = set()
    for event in facts:
        if isinstance(event, CallEnded):
            if event.result.call_id in ended:
                found.append(f"{event.result.call_id} has two results")
            ended.add(event.result.call_id)
        elif isinstance(event, CallStarted) and event.call_id in ended:
            found.append(f"{event.call_id} was finished and started again")
    if ended != {event.call_id for event in facts if isinstance(event, CallProposed)}:
        found.append("a call has no result")
    if (problem := check_conversation(outcome.history)) is not None:
        found.append(problem)
    lines = Counter(world(folder))
    sent = {line: count for line, count in lines.items() if line.startswith("send ")}
    if len(sent) != SENT or set(sent.values()) != {1}:
        found.append(f"mails were sent {sorted(sent.values())} times")
    replies = sum(isinstance(event, ModelReplied) for event in facts)
    if outcome.spent["tokens"] < replies * TOKENS:
        found.append(f"{outcome.spent['tokens']} tokens were counted, and the provider gave {replies * TOKENS}")
    found += map(str, violations(facts, idempotent=["put"], unasked=["send"]))
    return found


def trial(backend: str, **kill: Any) -> tuple[bool, list[str]]:
    """Kill once, let the run end, and look; whether there was anything to kill."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed = process(folder, backend, **kill)
        if process(folder, backend):
            return killed, ["it did not end"]
        return killed, wrongs(folder, anyio.run(facts_of, folder))


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--random", type=int, default=300, help="kills at random moments")
    asked.add_argument("--within", type=float, default=0.4, help="seconds within which they come")
    asked.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    asked.add_argument("--writes", type=int, default=1000, help="kills at so many writes of the journal at most")
    asked.add_argument("--step", type=int, default=1, help="of them each so manieth")
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    bad: list[str] = []
    kills = 0
    for at in range(1, given.writes + 1, given.step):
        behind = bool(at % 2) if given.step > 1 else None
        for side in (False, True) if behind is None else (behind,):
            killed, found = trial(given.backend, at=at, behind=side)
            kills += killed
            bad += [f"write {at}, {'behind' if side else 'before'} it: {what}" for what in found]
        if not killed:
            break
    at_writes = kills
    chance = random.Random(given.seed)  # noqa: S311 (moments of kills)
    for number in range(given.random):
        killed, found = trial(given.backend, after=chance.uniform(0, given.within))
        kills += killed
        bad += [f"random kill {number}: {what}" for what in found]
    print(f"{at_writes} kills at writes of the journal, {kills - at_writes} at random moments of {given.random} tries")
    print("\n".join(bad) or "no finished call repeated, no fact lost, each run has its end, budgets hold")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
