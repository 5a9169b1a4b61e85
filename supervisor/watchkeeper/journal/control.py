"""What is written to ``control.db``: submissions, commands and their answers, shared budgets. Tokens have their table.

Several processes write to it, each transaction begins with BEGIN IMMEDIATE: whoever claims a run is the only one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ..engine import Answered, AnyCommand, BudgetStanding, Cancel, EngineError, RunSpec, Slice
from ..messages import Event, encode_event, encode_mended
from . import unstarted
from .checks import check_amounts, check_name
from .database import There, connect
from .desk import Seat
from .schema import CONTROL, CONTROL_FILE
from .shares import unknown_budget
from .status import Standing
from .trees import ENDED


def connect_control(folder: Path) -> sqlite3.Connection:
    """Open the control file of a folder for writing, as :func:`.database.connect` does: also for what keeps tokens."""
    return connect(folder / CONTROL_FILE, CONTROL)


class Control(Seat):
    """What all processes of a folder write to it."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self.connection = connect_control(folder)
        self._there = There(folder / CONTROL_FILE)
        self._changed = changed
        self._wrote = False

    def begin(self) -> None:
        self._there.check()
        self._wrote = False

    def committed(self) -> None:
        if self._wrote:
            self._changed()

    # -- submissions -------------------------------------------------------------------------------------------------

    def submit(self, run: str, spec: RunSpec, at: float) -> float:
        """When it was submitted: now, or before if it is there already."""
        found = self.connection.execute("SELECT spec, submitted FROM submission WHERE id = ?", (run,)).fetchone()
        if found is not None:
            if msgspec.json.decode(found[0], type=RunSpec) != spec:
                raise EngineError(f"there is a run {run} already, and it is another one; submit this under another id")
            return float(found[1])
        if spec.budget:
            self._holds(spec.budget)
        self._write(
            "INSERT INTO submission (id, agent, labels, submitted, spec) VALUES (?, ?, ?, ?, ?)",
            (run, spec.agent, msgspec.json.encode(spec.labels).decode(), at, msgspec.json.encode(spec)),
        )
        return at

    def claim(self, worker: str, most: int) -> list[tuple[str, RunSpec, float]]:
        """The next runs of the queue, for this worker's file."""
        rows = self.connection.execute(
            "SELECT seq, id, spec, submitted FROM submission WHERE worker IS NULL AND over = 0 ORDER BY seq LIMIT ?",
            (most,),
        ).fetchall()
        if rows:
            self.connection.executemany(
                "UPDATE submission SET worker = ? WHERE seq = ?", [(worker, seq) for seq, *_ in rows]
            )
            self._wrote = True
        return [_submitted(row[1:]) for row in rows]

    def claimed(self, worker: str) -> list[tuple[str, RunSpec, float]]:
        """What this worker has claimed and not ended."""
        rows = self.connection.execute(
            "SELECT id, spec, submitted FROM submission WHERE worker = ? AND over = 0 ORDER BY seq", (worker,)
        )
        return [_submitted(row) for row in rows]

    def claimants(self) -> list[str]:
        """The workers that have claimed what has not ended."""
        rows = self.connection.execute("SELECT DISTINCT worker FROM submission WHERE worker IS NOT NULL AND over = 0")
        return [worker for (worker,) in rows]

    def in_file(self, worker: str) -> list[str]:
        """Of what this worker has claimed and not ended, what is in its file, or was."""
        rows = self.connection.execute(
            "SELECT id FROM submission WHERE worker = ? AND over = 0 AND placed = 1", (worker,)
        )
        return [run for (run,) in rows]

    def placed(self, runs: Sequence[str]) -> None:
        """The file of the worker that has claimed them has them."""
        if runs:
            self.connection.executemany("UPDATE submission SET placed = 1 WHERE id = ?", [(run,) for run in runs])
            self._wrote = True

    def over(self, runs: Sequence[str]) -> None:
        """These have ended: what was sent to them and not answered is refused, and so is what is sent from now on."""
        self.connection.executemany("UPDATE submission SET over = 1 WHERE id = ?", [(run,) for run in runs])
        for run in runs:
            self._refuse_rest(run)
        self._wrote = True

    def lost(self, runs: Sequence[str], at: float) -> None:
        """The file that had these is gone, or is another one: they have ended, and keep what they were granted."""
        for run in runs:
            spec = self.connection.execute("SELECT spec FROM submission WHERE id = ?", (run,)).fetchone()[0]
            self._end(run, unstarted.lost(run, msgspec.json.decode(spec, type=RunSpec), at))
            granted = self.connection.execute(
                "SELECT budget, dimension, amount FROM slice WHERE run = ?", (run,)
            ).fetchall()
            self.spent(run, {(budget, dimension): amount for budget, dimension, amount in granted})
            self._refuse_rest(run)

    def forsaken(self, worker: str, at: float) -> None:
        """Neither this worker nor its file is there: what was in it is lost, what has not come there is for all."""
        self.lost(self.in_file(worker), at)
        self._write("UPDATE submission SET worker = NULL WHERE worker = ? AND over = 0", (worker,))

    # -- commands ----------------------------------------------------------------------------------------------------

    def send(self, root: str, command: AnyCommand, ended: bool, at: float) -> str:
        """Keep a command to a run of this tree. A cancel of one that nobody has claimed ends it."""
        found = self.connection.execute(
            "SELECT body FROM command WHERE root = ? AND id = ?", (root, command.id)
        ).fetchone()
        if found is not None:
            if msgspec.structs.replace(command_of(found[0]), by=command.by) != command:
                raise EngineError(f"run {command.run} was sent another command of the id {command.id} already")
            return command.id
        spec, worker, over = self.connection.execute(
            "SELECT spec, worker, over FROM submission WHERE id = ?", (root,)
        ).fetchone()
        answer = Answered(id=command.id, taken=False, why=ENDED) if over or ended else None
        if isinstance(command, Cancel) and worker is None and not over:
            ended_as = unstarted.cancelled(
                root, msgspec.json.decode(spec, type=RunSpec), command.reason, command.mode, at
            )
            self._end(root, ended_as)
            answer = Answered(id=command.id, taken=True)
        self._write(
            "INSERT INTO command (root, run, id, body, answer) VALUES (?, ?, ?, ?, ?)",
            (
                *(root, command.run, command.id, msgspec.json.encode(command)),
                None if answer is None else msgspec.json.encode(answer),
            ),
        )
        if answer is not None and answer.taken:
            self._refuse_rest(root)
        return command.id

    def settle(self, root: str, answer: Answered) -> None:
        self._write(
            "UPDATE command SET answer = ? WHERE root = ? AND id = ? AND answer IS NULL",
            (encode_mended(answer), root, answer.id),
        )

    def _end(self, run: str, facts: Sequence[Event]) -> None:
        """It has ended, with these facts, which no worker's file has."""
        standing = Standing(run=run, root=run)
        for event in facts:
            standing.see(event)
        self._write(
            "UPDATE submission SET worker = NULL, placed = 0, over = 1, standing = ?, facts = ? WHERE id = ?",
            (msgspec.json.encode(standing), b"\n".join(map(encode_event, facts)), run),
        )

    def _refuse_rest(self, root: str) -> None:
        open_ones = self.connection.execute(
            "SELECT seq, id FROM command WHERE root = ? AND answer IS NULL", (root,)
        ).fetchall()
        self.connection.executemany(
            "UPDATE command SET answer = ? WHERE seq = ?",
            [(msgspec.json.encode(Answered(id=id, taken=False, why=ENDED)), seq) for seq, id in open_ones],
        )

    # -- shared budgets ----------------------------------------------------------------------------------------------

    def define(self, budget: str, amounts: Mapping[str, float]) -> None:
        check_name("the name of a shared budget", budget)
        check_amounts(amounts)
        self._write("DELETE FROM budget WHERE name = ?", (budget,))
        self.connection.executemany(
            "INSERT INTO budget (name, dimension, amount) VALUES (?, ?, ?)",
            [(budget, "", 0.0), *((budget, name, amount) for name, amount in amounts.items())],
        )

    def grant(self, run: str, budget: str, amounts: Mapping[str, float]) -> Slice:
        check_amounts(amounts)
        left = self.left(budget)
        given = {name: min(amount, max(left.get(name, 0.0), 0.0)) for name, amount in amounts.items()}
        self._add(run, {(budget, name): amount for name, amount in given.items() if amount})
        has = dict(
            self.connection.execute(
                "SELECT dimension, amount FROM slice WHERE run = ? AND budget = ?", (run, budget)
            ).fetchall()
        )
        left = {name: amount - given.get(name, 0.0) for name, amount in left.items()}
        return Slice(has=has, left=left, holds=self._holds(budget))

    def left(self, budget: str) -> dict[str, float]:
        holds = self._holds(budget)
        granted = dict(
            self.connection.execute(
                "SELECT dimension, sum(amount) FROM slice WHERE budget = ? GROUP BY dimension", (budget,)
            ).fetchall()
        )
        return {name: amount - granted.get(name, 0.0) for name, amount in holds.items()}

    def standing(self) -> list[BudgetStanding]:
        names = [name for (name,) in self.connection.execute("SELECT DISTINCT name FROM budget ORDER BY name")]
        return [BudgetStanding(name, self._holds(name), self.left(name)) for name in names]

    def reclaim(self, run: str, charged: Mapping[tuple[str, str], float]) -> None:
        """Of what a run was granted only what it has charged stays granted."""
        self.connection.execute("DELETE FROM slice WHERE run = ?", (run,))
        self._add(run, charged)

    def spent(self, run: str, charged: Mapping[tuple[str, str], float]) -> None:
        """A run has ended: what it has charged stays granted, to nobody by name. Saying so twice changes nothing."""
        if self.connection.execute("DELETE FROM slice WHERE run = ?", (run,)).rowcount:
            self._add("", charged)

    def _holds(self, budget: str) -> dict[str, float]:
        found = dict(
            self.connection.execute("SELECT dimension, amount FROM budget WHERE name = ?", (budget,)).fetchall()
        )
        if not found:
            raise unknown_budget(budget)
        return {name: amount for name, amount in found.items() if name}

    def _add(self, run: str, amounts: Mapping[tuple[str, str], float]) -> None:
        self.connection.executemany(
            "INSERT INTO slice (run, budget, dimension, amount) VALUES (?1, ?2, ?3, ?4)"
            " ON CONFLICT DO UPDATE SET amount = amount + ?4",
            [(run, *key, amount) for key, amount in amounts.items() if amount > 0],
        )

    def _write(self, statement: str, values: Sequence[object]) -> None:
        self.connection.execute(statement, values)
        self._wrote = True


def command_of(body: bytes) -> AnyCommand:
    command: AnyCommand = msgspec.json.decode(body, type=AnyCommand)
    return command


def _submitted(row: Sequence[object]) -> tuple[str, RunSpec, float]:
    run, spec, submitted = row
    assert isinstance(run, str)
    assert isinstance(spec, bytes)
    assert isinstance(submitted, float)
    return run, msgspec.json.decode(spec, type=RunSpec), submitted
