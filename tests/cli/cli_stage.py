"""An engine in memory with a worker that plays runs by a script, in the place of all that a command would find."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
import pytest

from watchkeeper.cli import finding, listing
from watchkeeper.cli.finding import Reach, Sources
from watchkeeper.cli.following import up_to
from watchkeeper.cli.listed import SERVICE, Source
from watchkeeper.engine import (
    AddBudget,
    Answered,
    AnyCommand,
    Approve,
    Cancel,
    Deny,
    EngineError,
    Lease,
    Pause,
    Resume,
    RunSpec,
    Steer,
)
from watchkeeper.fingerprint import arguments_hash
from watchkeeper.journal import MemoryEngine
from watchkeeper.messages import (
    ApprovalRequested,
    ApprovalResolved,
    CallEnded,
    CallStarted,
    CancelConfirmed,
    CancelRequested,
    ChildStarted,
    Event,
    Gap,
    Outcome,
    Paused,
    Result,
    Resumed,
    RunEnded,
    RunEnding,
    Settled,
    Status,
    UserMessage,
)
from watchkeeper.testing.conformance.ground import Facts


class Leaving:
    """An engine whose service goes away while it is watched; what ``fails`` names fails at once."""

    def __init__(self, engine: Any, error: EngineError) -> None:
        self._engine = engine
        self._error = error
        self.fails: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name in self.fails:
            raise self._error
        return getattr(self._engine, name)

    async def watch(self, run: str, after: int = 0) -> AsyncIterator[Event | Gap]:
        n = (await self._engine.get(run)).n
        async for event in up_to(self._engine.watch(run, after), n if n > after else 0):
            yield event
        raise self._error


Prepare = Callable[["Stage"], Awaitable[None]]
ARGUMENTS = '{"path":"notes/a","text":"hello"}'


class Stage:
    """Prepared by a test within the event loop of the command: ``run`` submits a run and plays its beginning."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
        self._patch = monkeypatch
        self.backend = backend
        self.engine = MemoryEngine()
        self.facts: dict[str, Facts] = {}
        self.commands: list[AnyCommand] = []
        self.refuses = ""
        """Why commands are refused; empty: they are taken."""
        self.deaf = False
        """Commands are neither taken nor refused."""
        self.stubborn = False
        """A cancel is taken, and nothing ends."""
        self.sources: list[Source] = []
        self.lost: dict[str, Exception] = {}
        self._leases: dict[str, Lease] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        monkeypatch.setattr(finding, "BACKEND", backend)

    def set(self, prepare: Prepare) -> None:
        """What the next command finds."""

        @contextlib.asynccontextmanager
        async def found(*, foreground: bool) -> AsyncIterator[Sources]:
            self.engine = MemoryEngine()
            async with self.engine, anyio.create_task_group() as self._tasks:
                self._given_out = aiter(self.engine.leases(lambda: 1))
                self.sources = [Source(SERVICE, self.engine)]
                await prepare(self)
                sources = Sources()
                sources.opened += self.sources
                sources.lost |= self.lost
                yield sources
                self._tasks.cancel_scope.cancel()

        self._patch.setattr(finding, "all_sources", found)
        self._patch.setattr(listing, "look", lambda: Reach("stage", None, None, None, (), ()))

    async def queue(self, run: str, task: str = "File the letters", agent: str = "clerk", **labels: str) -> None:
        """A run that nobody executes yet."""
        await self.engine.submit(RunSpec(agent=agent, task=task, labels=labels), run=run)

    async def refuse(self, run: str, why: str) -> None:
        """One that its worker does not execute."""
        await self.queue(run)
        await (await anext(self._given_out)).refuse(why)

    async def run(self, run: str, task: str = "File the letters", agent: str = "clerk", **labels: str) -> Facts:
        """One with a turn behind it, and a call at work."""
        await self.queue(run, task, agent, **labels)
        lease = await anext(self._given_out)
        assert lease.run == run
        facts = self.facts[run] = Facts(run)
        self._leases[run] = lease
        await lease.append([*facts.start(agent, task), *facts.turn(), *self._at_work(facts)])
        assert self._tasks is not None
        self._tasks.start_soon(self._obey, lease)
        return facts

    def _at_work(self, facts: Facts) -> list[Event]:
        spent = facts.make(Settled, amounts={"tokens": 1200.0}, held="1")
        return [spent, facts.make(CallStarted, turn=2, slot=1, call_id="c2.1", tool="file")]

    async def more(self, run: str, *events: Event) -> None:
        """Facts that have been made of it."""
        await self._leases[self._root(run)].append(events)

    async def child(self, parent: str, run: str, agent: str = "reader") -> Facts:
        above, facts = self.facts[parent], Facts(run, parent)
        self.facts[run] = facts
        await self.more(parent, above.make(ChildStarted, child=run, agent=agent))
        await self.more(parent, *facts.start(agent, "Read them"), *facts.turn())
        return facts

    async def ask(self, run: str, approval: str = "a1", arguments: str = ARGUMENTS, secret: str = "") -> None:
        """A call of it waits for a yes. ``secret`` stands in what is run, and not in the fact."""
        exact = arguments.replace("***", secret) if secret else arguments
        await self.more(
            run,
            self.facts[run].make(
                ApprovalRequested,
                turn=2,
                approval=approval,
                call_id="c2.2",
                tool="write_file",
                arguments=arguments,
                arguments_hash=arguments_hash(exact.encode()),
                seconds=600.0,
                why="the house rules",
                by=("policy",),
            ),
        )

    async def end(self, run: str, status: Status = "completed", reason: str = "answer", answer: str = "Filed.") -> None:
        facts = self.facts[run]
        outcome = Outcome(run=run, status=status, reason=reason, message="It is over.", answer=answer)
        call = Result("c2.1", "file", "finished", "filed")
        await self.more(
            run,
            facts.make(CallEnded, turn=2, slot=1, result=call),
            facts.make(RunEnding, status=status, reason=reason),
            facts.make(RunEnded, outcome=outcome),
        )
        if run in self._leases:
            await self._leases[run].release()

    def _root(self, run: str) -> str:
        parent = self.facts[run].parent
        return run if parent is None else self._root(parent)

    async def _obey(self, lease: Lease) -> None:
        async for command in lease.commands():
            self.commands.append(command)
            if not self.deaf:
                await lease.settle(command, Answered(id=command.id, taken=not self.refuses, why=self.refuses))
                if not self.refuses:
                    await self._do(command.run or lease.run, command)

    async def _do(self, run: str, command: AnyCommand) -> None:
        facts = self.facts[run]
        match command:
            case Cancel():
                asked = facts.make(CancelRequested, turn=2, mode=command.mode, reason=command.reason)
                await self.more(run, asked)
                if not self.stubborn:
                    await self._cancelled(run, command)
            case Pause():
                await self.more(run, facts.make(Paused, reason=command.reason))
            case Resume():
                await self.more(run, facts.make(Resumed, reason=command.reason))
            case Steer():
                await self.more(run, facts.make(UserMessage, text=command.text, source="steer"))
            case Approve() | Deny():
                how: Any = command.scope if isinstance(command, Approve) else "denied"
                answer = {"approval": command.approval, "call_id": "c2.2", "tool": "write_file", "how": how}
                await self.more(run, facts.make(ApprovalResolved, **answer))
            case AddBudget():
                pass

    async def _cancelled(self, run: str, command: Cancel) -> None:
        """Its sub-agents, its call at work, and itself."""
        for child in [name for name, facts in self.facts.items() if facts.parent == run]:
            asked = self.facts[child].make(CancelRequested, turn=2, mode=command.mode, reason="parent_cancelled")
            await self.more(child, asked)
            await self._cancelled(child, command)
        facts = self.facts[run]
        outcome = Outcome(run=run, status="cancelled", reason=command.reason, message="Cancelled.", cancel_seconds=2.0)
        await self.more(
            run,
            facts.make(CallEnded, turn=2, slot=1, result=Result("c2.1", "file", "cancelled", "cancelled")),
            facts.make(CancelConfirmed, seconds=2.0),
            facts.make(RunEnding, status="cancelled", reason=command.reason),
            facts.make(RunEnded, outcome=outcome),
        )
        if run in self._leases:
            await self._leases[run].release()
