"""What is written to a worker's file, within the thread that alone writes to it: leases, facts, entries, charges."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ..engine import Ended, EngineError, Fenced, RunSpec, Unusable
from ..messages import Event, encode_mended
from .checks import check_charges, new_facts, new_runs, without_halves
from .database import There, connect, forget_log
from .desk import Seat
from .keys import name_of, names
from .lines import packed
from .rows import Rows
from .schema import WORKER
from .status import Standing, spec_of

_CHUNKS = Rows("INSERT INTO chunk (run, first, last, body, entries)", "(?, ?, ?, ?, ?)")
_BLOBS = Rows("INSERT OR IGNORE INTO blob (hash, body)", "(?, ?)")
_BLOB_USES = Rows("INSERT OR IGNORE INTO blob_use (hash, run)", "(?, ?)")
_CHARGES = Rows(
    "INSERT INTO charge (root, budget, dimension, amount)",
    "(?, ?, ?, ?)",
    "ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
)
# Both are there since the run was taken in: what is written are new values.
_STANDINGS = Rows(
    "INSERT INTO standing (run, change, state, ended, body)",
    "(?, ?, ?, ?, ?)",
    "ON CONFLICT DO UPDATE SET change = excluded.change, state = excluded.state, ended = excluded.ended,"
    " body = excluded.body",
)
_LEASES = Rows(
    "INSERT INTO lease (root, attempt, crashes, worker)",
    "(?, ?, ?, ?)",
    "ON CONFLICT DO UPDATE SET attempt = excluded.attempt, crashes = excluded.crashes, worker = excluded.worker",
)


class Given(msgspec.Struct, frozen=True):
    """A lease that was just given."""

    run: str
    spec: RunSpec
    attempt: int
    crashes: int


class _Row:
    """A run that is at work."""

    __slots__ = ("key", "names", "standing")

    def __init__(self, key: int, standing: Standing, names: set[str]) -> None:
        self.key = key
        self.standing = standing
        self.names = names


class _Tree:
    """A leased run and its sub-agents, as the file has them together with what is about to be written."""

    def __init__(self, key: int, run: str, spec: RunSpec, attempt: int, crashes: int, worker: str) -> None:
        self.key = key
        self.run = run
        self.spec = spec
        self.attempt = attempt
        self.crashes = crashes
        self.worker = worker
        self.rows: dict[str, _Row] = {}

    def last(self, run: str) -> int:
        """The number of the last fact of a run of it."""
        return self.rows[run].standing.n if run in self.rows else 0


class Book(Seat):
    """Only its owner writes to the file, so what is cached of it is true; where a transaction fails it is read anew."""

    def __init__(self, path: Path, owned: Callable[[], bool], changed: Callable[[Sequence[str]], None]) -> None:
        self.path = path
        forget_log(path)
        self.connection = connect(path, WORKER)
        self._changed = changed
        self._there = There(path)
        self._owned = owned
        try:
            self._change = self.connection.execute("SELECT coalesce(max(change), 0) FROM standing").fetchone()[0]
        except BaseException:
            self.connection.close()
            raise
        self._held: set[str] = set()
        """Roots whose lease somebody in this process has."""
        self._trees: dict[str, _Tree] = {}
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._leases: dict[int, _Tree] = {}
        self._chunks: list[tuple[int, int, int, bytes, str | None]] = []
        self._blobs: dict[bytes, bytes] = {}
        self._uses: list[tuple[bytes, int]] = []
        self._charges: dict[tuple[int, str, str], float] = {}
        self._touched: dict[str, None] = {}
        self._held_before: frozenset[str] | None = None

    # -- a transaction -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._there.check()
        if not self._owned():
            raise unlocked(self.path)

    def flush(self) -> None:
        change = self._change + 1
        for kind, rows in (
            (_CHUNKS, self._chunks),
            (_BLOBS, [*self._blobs.items()]),
            (_BLOB_USES, self._uses),
            (_CHARGES, [(*key, amount) for key, amount in self._charges.items()]),
            (
                _STANDINGS,
                [
                    (row.key, change, row.standing.state, row.standing.ended, encode_mended(row.standing))
                    for row in self._rows.values()
                ],
            ),
            (_LEASES, [(tree.key, tree.attempt, tree.crashes, tree.worker) for tree in self._leases.values()]),
        ):
            kind.write(self.connection, rows)

    def committed(self) -> None:
        self._change += 1
        touched = list(self._touched)
        if self._held_before is not None:
            for run in self._held_before - self._held:
                self._trees.pop(run, None)
        self._clear()
        if touched:
            self._changed(touched)

    def undone(self) -> None:
        if self._held_before is not None:
            self._held = set(self._held_before)
        self._clear()
        self._trees.clear()

    # -- leases ------------------------------------------------------------------------------------------------------

    def take_in(self, runs: Sequence[tuple[str, RunSpec, float]]) -> None:
        """Keep runs that were claimed for this file, with the time of their submission; those it has are left alone."""
        for run, spec, submitted in runs:
            if self.connection.execute("SELECT 1 FROM run WHERE id = ?", (run,)).fetchone() is None:
                key = self._insert(Standing(run=run, root=run), spec, submitted, None)
                self.connection.execute(
                    "INSERT INTO lease (root, attempt, crashes, worker) VALUES (?, 0, 0, '')", (key,)
                )

    def lacks(self, runs: Sequence[str]) -> set[str]:
        """Those of them that the file does not have."""
        return {
            run for run in runs if self.connection.execute("SELECT 1 FROM run WHERE id = ?", (run,)).fetchone() is None
        }

    def open_runs(self) -> list[tuple[str, bool]]:
        """Roots without an end record, those that were begun before the others, and whether they were begun."""
        rows = self.connection.execute(
            "SELECT run.id, lease.attempt FROM lease JOIN run ON run.key = lease.root"
            " JOIN standing ON standing.run = run.key WHERE lease.over = 0 AND standing.state <> 'ended'"
            " ORDER BY lease.attempt = 0, run.submitted, run.key"
        )
        return [(run, attempt > 0) for run, attempt in rows]

    def ended_runs(self) -> list[str]:
        """Roots that have their end record, and whose commands may not all be answered."""
        rows = self.connection.execute(
            "SELECT run.id FROM lease JOIN run ON run.key = lease.root JOIN standing ON standing.run = run.key"
            " WHERE lease.over = 0 AND standing.state = 'ended'"
        )
        return [run for (run,) in rows]

    def charged(self, run: str) -> dict[tuple[str, str], float]:
        """What a run and its sub-agents have charged to shared budgets, as far as that is durable."""
        rows = self.connection.execute(
            "SELECT budget, dimension, amount FROM charge WHERE root = (SELECT key FROM run WHERE id = ?)", (run,)
        )
        return {(budget, dimension): amount for budget, dimension, amount in rows}

    def over(self, runs: Sequence[str]) -> None:
        """Whatever was sent to these is answered, and what they have charged is kept elsewhere."""
        for statement in (
            "UPDATE lease SET over = 1 WHERE root = (SELECT key FROM run WHERE id = ?)",
            "DELETE FROM charge WHERE root = (SELECT key FROM run WHERE id = ?)",
        ):
            self.connection.executemany(statement, [(run,) for run in runs])

    def lease(self, run: str, worker: str) -> Given:
        """Begin the next attempt; an earlier one is fenced."""
        tree = self._tree(run)
        crashes = tree.crashes
        tree.attempt += 1
        tree.crashes += 1
        tree.worker = worker
        self._leases[tree.key] = tree
        for row in tree.rows.values():
            row.standing.interrupted()
            self._rows[row.key] = row
        self._touched.update(dict.fromkeys(tree.rows))
        self._hold(run, True)
        return Given(run, tree.spec, tree.attempt, crashes)

    def release(self, run: str, attempt: int, suspended: bool) -> bool:
        """Give a run back; whether it has its end record."""
        tree = self._tree(run)
        if tree.attempt == attempt and run in self._held:
            if suspended:
                tree.crashes, tree.worker = 0, ""
                self._leases[tree.key] = tree
            self._hold(run, False)
            self._touched.update(dict.fromkeys(tree.rows))
        return tree.rows[run].standing.state == "ended"

    def _hold(self, run: str, held: bool) -> None:
        if self._held_before is None:
            self._held_before = frozenset(self._held)
        if held:
            self._held.add(run)
        else:
            self._held.discard(run)

    # -- facts -------------------------------------------------------------------------------------------------------

    def append(self, run: str, attempt: int, events: Sequence[Event], charges: Mapping[str, float]) -> None:
        """Facts of a run and its sub-agents. Raises :class:`.Fenced` if another attempt has it, and
        :class:`.EngineError` if they do not belong here; then nothing is written."""
        tree = self._fenced(run, attempt)
        charged = check_charges(charges)
        self._check_new(tree, events)
        fresh = new_facts(events, tree.last)
        if not fresh:
            return
        if tree.rows[run].standing.state == "ended":
            raise Ended(f"run {run} has its end record; nothing comes after that")
        by_run: dict[str, list[Event]] = {}
        for event in fresh:
            by_run.setdefault(event.run, []).append(event)
        for one, facts in by_run.items():
            self._keep(tree, one, facts)
        for (budget, dimension), amount in charged.items():
            key = tree.key, budget, dimension
            self._charges[key] = self._charges.get(key, 0.0) + amount

    def refuse(self, run: str, attempt: int, why: str) -> None:
        """Why nobody executes it. Raises :class:`.Fenced` if another attempt has it."""
        row = self._fenced(run, attempt).rows[run]
        row.standing.refused = why
        self._rows[row.key] = row
        self._touched[run] = None

    def _fenced(self, run: str, attempt: int) -> _Tree:
        if run not in self._held:
            raise Fenced(f"attempt {attempt} at run {run} is over")
        tree = self._tree(run)
        if tree.attempt != attempt:
            raise Fenced(f"attempt {attempt} at run {run} is over; attempt {tree.attempt} has it")
        return tree

    def _check_new(self, tree: _Tree, events: Sequence[Event]) -> None:
        """Runs that are not known yet must be sub-agents of those that are, and of no other tree."""
        for run in new_runs(events, tree.rows, tree.run):
            if self.connection.execute("SELECT 1 FROM run WHERE id = ?", (run,)).fetchone():
                raise EngineError(f"there is a run {run} already, in another tree")

    def _keep(self, tree: _Tree, run: str, facts: list[Event]) -> None:
        row = tree.rows.get(run)
        if row is None:
            standing = Standing(run=run, root=tree.run, parent=facts[0].parent or "")
            key = self._insert(standing, without_halves(spec_of(facts[0], tree.spec)), facts[0].at, tree.key)
            row = tree.rows[run] = _Row(key, standing, set())
        lines, apart = packed(facts)
        entries: dict[str, int] = {}
        for event in facts:
            row.standing.see(event)
            name = name_of(event)
            if name is not None:
                if name in row.names:
                    name = next(one for one in names(name, tree.attempt) if one not in row.names)
                row.names.add(name)
                entries[name] = event.n
        if entries and tree.crashes:
            tree.crashes = 0
            self._leases[tree.key] = tree
        kept = encode_mended(entries).decode() if entries else None
        self._chunks.append((row.key, facts[0].n, facts[-1].n, lines, kept))
        if apart:
            self._blobs.update(apart)
            self._uses += [(digest, row.key) for digest in apart]
        self._rows[row.key] = row
        self._touched[run] = None

    def _insert(self, standing: Standing, spec: RunSpec, submitted: float, root: int | None) -> int:
        labels = msgspec.json.encode(spec.labels).decode()
        key = self.connection.execute(
            "INSERT INTO run (id, root, parent, agent, labels, submitted, spec) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (standing.run, root or 0, standing.parent, spec.agent, labels, submitted, msgspec.json.encode(spec)),
        ).lastrowid
        assert key is not None
        if root is None:
            self.connection.execute("UPDATE run SET root = key WHERE key = ?", (key,))
        self.connection.execute(
            "INSERT INTO standing (run, change, state, body) VALUES (?, ?, ?, ?)",
            (key, self._change + 1, standing.state, encode_mended(standing)),
        )
        self._touched[standing.run] = None
        return key

    def _tree(self, run: str) -> _Tree:
        tree = self._trees.get(run)
        if tree is None:
            tree = self._trees[run] = _read(self.connection, run)
        return tree


def unlocked(path: Path) -> Unusable:
    return Unusable(
        f"the lock of {path} was deleted or replaced: another process may own the file by now; "
        "end this worker and start it anew"
    )


def _read(connection: sqlite3.Connection, run: str) -> _Tree:
    root, spec, attempt, crashes, worker = connection.execute(
        "SELECT run.key, run.spec, lease.attempt, lease.crashes, lease.worker FROM run"
        " JOIN lease ON lease.root = run.key WHERE run.id = ?",
        (run,),
    ).fetchone()
    tree = _Tree(root, run, msgspec.json.decode(spec, type=RunSpec), attempt, crashes, worker)
    rows = connection.execute(
        "SELECT run.key, standing.body FROM run JOIN standing ON standing.run = run.key WHERE run.root = ?"
        " ORDER BY run.key",
        (root,),
    ).fetchall()
    for key, body in rows:
        standing = msgspec.json.decode(body, type=Standing)
        entries = connection.execute("SELECT entries FROM chunk WHERE run = ? AND entries IS NOT NULL", (key,))
        taken = {name for (found,) in entries for name in msgspec.json.decode(found, type=dict[str, int])}
        tree.rows[standing.run] = _Row(key, standing, taken)
    return tree
