"""What the engine in memory keeps of a run and its sub-agents: facts, names, commands. It never waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..engine import Answered, AnyCommand, Ended, EngineError, RunSpec, RunStatus
from ..messages import Event
from .bell import Bell
from .checks import check_charges, new_facts, new_runs
from .keys import name_of, names
from .status import Standing, spec_of

ENDED = "the run has ended"


class Record:
    """One run: its facts from number ``first`` on, and what they come to."""

    def __init__(self, standing: Standing, spec: RunSpec, submitted: float, order: int) -> None:
        self.standing = standing
        self.spec = spec
        self.submitted = submitted
        self.order = order
        """Which one it is of all that the engine ever had."""
        self.facts: list[Event] = []
        self.first = 1
        self.names: dict[str, int] = {}
        """By the name of each journal entry the number of its fact."""
        self.bell = Bell()

    @property
    def ended(self) -> bool:
        return self.standing.state == "ended"

    def append(self, event: Event, attempt: int) -> bool:
        """Keep the next fact; whether it is a journal entry."""
        self.facts.append(event)
        self.standing.see(event)
        name = name_of(event)
        if name is not None:
            self.names[next(one for one in names(name, attempt) if one not in self.names)] = event.n
        self.bell.ring()
        return name is not None

    def forget(self) -> None:
        """Let go of the facts, and keep how it ended."""
        self.first = self.standing.n + 1
        self.facts.clear()
        self.names.clear()
        self.bell.ring()


class Sent:
    """A command, and what became of it."""

    def __init__(self, command: AnyCommand) -> None:
        self.command = command
        self.answer: Answered | None = None


class Tree:
    """A run that was submitted, and its sub-agents."""

    def __init__(self, root: Record) -> None:
        self.root = root
        self.records: dict[str, Record] = {root.standing.run: root}
        self.attempt = 0
        self.worker = ""
        self.leased = False
        self.crashes = 0
        self.commands: dict[str, Sent] = {}
        self.bell = Bell()
        """Rings for commands, for answers and when the lease ends."""

    def status(self, record: Record) -> RunStatus:
        return record.standing.status(record.spec, attempt=self.attempt, worker=self.worker, submitted=record.submitted)

    def lease(self, worker: str) -> int:
        """Begin the next attempt, and say which one it is. Until it has a journal entry it counts as a crash."""
        for record in self.records.values():
            record.standing.interrupted()
        self.attempt += 1
        self.crashes += 1
        self.worker = worker
        self.leased = True
        return self.attempt

    def given_back(self, *, suspended: bool) -> None:
        """The attempt is over."""
        self.leased = False
        if suspended:
            self.worker = ""
            self.crashes = 0
        if self.root.ended:
            self.refuse_the_rest()
        self.bell.ring()

    def admitted(self, events: Sequence[Event], charges: Mapping[str, float] | None) -> list[Event]:
        """The facts of a batch that are new. Raises :class:`EngineError` for what does not belong here; nothing of the
        batch is kept then."""
        check_charges(charges or {})
        new_runs(events, self.records, self.root.standing.run)
        fresh = new_facts(events, self._last)
        if fresh and self.root.ended:
            raise Ended(f"run {self.root.standing.run} has its end record; nothing comes after that")
        return fresh

    def _last(self, run: str) -> int:
        return self.records[run].standing.n if run in self.records else 0

    def append(self, event: Event, order: int) -> Record | None:
        """Keep a fact that was admitted; the record of the sub-agent whose first one it is."""
        record, made = self.records.get(event.run), None
        if record is None:
            standing = Standing(run=event.run, root=self.root.standing.run, parent=event.parent or "")
            made = record = self.records[event.run] = Record(standing, spec_of(event, self.root.spec), event.at, order)
        if record.append(event, self.attempt):
            self.crashes = 0
        return made

    def send(self, command: AnyCommand) -> str:
        known = self.commands.get(command.id)
        if known is None:
            self.commands[command.id] = sent = Sent(command)
            if self.records[command.run].ended or (self.root.ended and not self.leased):
                sent.answer = Answered(id=command.id, taken=False, why=ENDED)
            self.bell.ring()
        elif msgspec.structs.replace(known.command, by=command.by) != command:
            raise EngineError(f"run {command.run} was sent another command of the id {command.id} already")
        return command.id

    def settle(self, answer: Answered) -> None:
        sent = self.commands.get(answer.id)
        if sent is not None and sent.answer is None:
            sent.answer = answer
            self.bell.ring()

    def refuse_the_rest(self) -> None:
        for sent in self.commands.values():
            if sent.answer is None:
                sent.answer = Answered(id=sent.command.id, taken=False, why=ENDED)
        self.bell.ring()
