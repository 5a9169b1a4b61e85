"""What is sent to a run from outside its process: carried out by its handle, and answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from . import reports
from .engine import (
    AddBudget,
    Answered,
    AnyCommand,
    Approve,
    Cancel,
    Deny,
    EngineError,
    HandOver,
    Lease,
    Pause,
    Resume,
    Steer,
)
from .errors import ApprovalError, RunEndedError
from .log import JOURNAL
from .messages import UserMessage
from .rush import Rush

if TYPE_CHECKING:
    from collections.abc import Callable

    from .messages import Event
    from .run import Run

SETTLING = 5.0
"""Seconds that the last answers of a run may take."""
LISTENS_AGAIN = 1.0
"""Seconds after which commands that could not be read are asked for again."""
SETTLES_AGAIN = (0.1, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0)
"""Seconds until an answer that could not be written is tried again; then it is given up."""
NOT_READ = "the run ended before it read it"


class Obedience:
    """Takes the commands of one lease, for its run and the sub-agents below it. A command is taken once: one that is
    given again after a crash, because its answer was lost, has the answer that it had."""

    def __init__(self, run: Run, lease: Lease, taken: set[str], rush: Rush) -> None:
        self._run = run
        self._lease = lease
        self._rush = rush
        self._taken = taken
        """Commands that an attempt which died has taken."""
        self._given: set[str] = set()
        """Commands that this attempt was given: asked for once more they come again."""
        self._heard: set[str] = set()
        """Runs in whose logs it looks for what was read."""
        self._scope = anyio.CancelScope()
        self._tasks: anyio.abc.TaskGroup
        self._unread: dict[str, AnyCommand] = {}
        """What a user has said and the model has not read yet, by the id of the command."""
        self._answers: list[tuple[AnyCommand, Answered, int]] = []
        """Those to settle, with the number of the run's last fact when each was made."""
        self._settled: anyio.Event | None = None
        """Set once all are, and None while there are none: most runs are never sent a command."""
        self._over = False
        self.folds: dict[type[Event], Callable[[Any], None]] = {UserMessage: self._read}

    async def run(self) -> None:
        """Obey until the lease ends."""
        try:
            with self._scope:
                async with anyio.create_task_group() as self._tasks:
                    await self._listen()
                    self._over = True
        finally:
            self._over = True
            if self._settled is not None:
                self._settled.set()

    async def _listen(self) -> None:
        """Take what is sent. A failure to read makes nobody deaf: it is tried again for as long as there is a lease."""
        failed = False
        while not self._lease.lost:
            try:
                async for command in self._lease.commands():
                    failed = False
                    if command.id not in self._given:
                        self._given.add(command.id)
                        self._obey(command)
                return
            except EngineError as error:
                if not failed:
                    reports.report("commands_failed", run=self._run.id, cause=str(error))
                failed = True
                await anyio.sleep(LISTENS_AGAIN)

    async def close(self, *, ended: bool) -> None:
        """The attempt is over: wait until all has its answer that was taken. If the run has ``ended`` with it, what
        nobody reads any more is refused; else the next attempt is given it again. What waits for a journal that is
        gone is waited for no longer."""
        for command in [*self._unread.values()] if ended else ():
            self._answer(command, NOT_READ)
        self._over = True
        if self._settled is not None:
            with anyio.move_on_after(SETTLING):
                await self._settled.wait()
        self._scope.cancel()

    def _obey(self, command: AnyCommand) -> None:
        if self._run.attempt.broken is not None:
            return  # this attempt is over: the next one is given it
        if command.id in self._taken:
            self._answer(command)
            return
        run = _below(self._run, command.run)
        if run is None:
            self._answer(command, f"there is no run {command.run} at work here")
            return
        try:
            why = obey(run, command)
        except (RunEndedError, ApprovalError, ValueError) as error:
            why = str(error)
        if self._run.ending is not None and self._run.outcome is None:
            self._rush.begin(self._run.id)
        if isinstance(command, Steer) and not why:
            self._unread[command.id] = command
            if run.id not in self._heard:
                self._heard.add(run.id)
                run.log.attach(self)
        else:
            self._answer(command, why)

    def _read(self, event: UserMessage) -> None:
        command = self._unread.pop(event.command, None) if event.command else None
        if command is not None:
            self._answer(command)

    def _answer(self, command: AnyCommand, why: str = "") -> None:
        self._unread.pop(command.id, None)
        if self._over:
            return  # the next attempt answers
        self._answers.append((command, Answered(id=command.id, taken=not why, why=why), self._run.log.n))
        if self._settled is None:
            self._settled = anyio.Event()
            self._tasks.start_soon(self._settle, self._settled)

    async def _settle(self, settled: anyio.Event) -> None:
        """Nobody is told that a command was taken before what came of it is durable. Facts that have followed since are
        not waited for: behind the end of an attempt none becomes durable any more."""
        while self._answers:
            command, answer, n = self._answers.pop(0)
            await self._run.log.passed(JOURNAL, n)
            await self._rush.over()
            for pause in (*SETTLES_AGAIN, None):
                try:
                    await self._lease.settle(command, answer)
                    break
                except EngineError as error:
                    if pause is None or self._lease.lost:
                        reports.report("command_unsettled", run=self._run.id, command=command.id, cause=str(error))
                        break
                    await anyio.sleep(pause)
        self._settled = None
        settled.set()


def obey(run: Run, command: AnyCommand) -> str:
    """Carry a command out; why it was not, or nothing. Raises what the methods of the handle raise."""
    by = command.by or "person"
    match command:
        case Cancel(reason=reason, mode=mode):
            return "" if run.cancel(reason, mode) else "the run has ended"
        case HandOver(reason=reason, mode=mode):
            return "" if run.hand_over(reason, mode) else "the run has ended"
        case Pause(reason=reason, seconds=seconds):
            run.pause(reason, seconds=seconds)
        case Resume(reason=reason):
            run.resume(reason)
        case Steer(text=text):
            run.steer(text, command=command.id)
        case AddBudget(amounts=amounts):
            run.add_budget(amounts, by=command.by, command=command.id)
        case Approve():
            if not run.was_answered(command.approval, "yes"):
                run.approve(command.approval, command.arguments_hash, command.scope, pattern=command.pattern, by=by)
        case Deny():
            if not run.was_answered(command.approval, "no"):
                run.deny(command.approval, command.reason, by=by)
    return ""


def _below(run: Run, wanted: str) -> Run | None:
    if wanted in ("", run.id):
        return run
    return next((found for child in run.children if (found := _below(child, wanted)) is not None), None)
