"""What is read from the files of a folder, within a thread of its own: status, lists, facts, commands, changes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..engine import Answered, AnyCommand, EngineError, Page, Query, RunSpec, RunStatus, UnknownRun
from ..log import Gap
from ..messages import Event
from .checks import limit_of
from .control import command_of
from .database import TROUBLES, There, connect_reader
from .lines import unpacked
from .schema import CONTROL, CONTROL_FILE, WORKER, WORKERS
from .status import Standing

BYTES = 1 << 20
"""Bytes of facts that are read at once, as a rule."""
KEPT = 5_000
"""Statuses of each worker's file that are kept, those that were asked for last: what is as it was is not decoded again.
"""
LARGEST = 16 * 1024
"""Bytes of a status, and of the spec in it, that is kept; a larger one is decoded each time."""

_STATUS = (
    "SELECT run.key, standing.change, lease.attempt, lease.worker, run.spec, run.submitted, standing.body FROM run"
    " JOIN standing ON standing.run = run.key JOIN lease ON lease.root = run.root"
)

_WAITING = "SELECT id, spec, submitted, standing, worker FROM submission WHERE placed = 0"


class Facts(msgspec.Struct, frozen=True):
    """Some of the facts of a run, from where one had come to."""

    found: tuple[Event | Gap, ...]
    whole: bool
    """There are no more, and will be none."""
    early: bool = False
    """The run is in no worker's file yet."""


class Changed(msgspec.Struct, frozen=True):
    """What is otherwise than at the last look."""

    runs: tuple[str, ...] = ()
    """Those whose facts or lease are."""
    trees: tuple[str, ...] = ()
    """Those that something was sent to."""
    control: bool = False
    """What is submitted, claimed, sent or answered is, or a worker's file is new."""


class _File:
    """The connection to a worker's file, and the statuses that were read of it."""

    def __init__(self, connection: sqlite3.Connection, identity: tuple[int, int]) -> None:
        self.connection = connection
        self.identity = identity
        self._statuses: OrderedDict[int, tuple[tuple[object, ...], RunStatus]] = OrderedDict()
        """By the key of the run, with its last change, attempt and worker: whatever a status says changes one of
        them."""

    def statuses(self, where: str, values: Sequence[object]) -> list[RunStatus]:
        rows = self.connection.execute(_STATUS + where, values).fetchall()
        return [self._status(key, (change, attempt, worker), row) for key, change, attempt, worker, *row in rows]

    def _status(self, key: int, version: tuple[int, int, str], row: Sequence[Any]) -> RunStatus:
        kept = self._statuses.get(key)
        if kept is None or kept[0] != version:
            spec, submitted, standing = row
            _, attempt, worker = version
            status = _decoded(standing).status(
                _spec(spec), attempt=attempt, worker=worker, submitted=_number(submitted)
            )
            if len(spec) + len(standing) > LARGEST:  # a spec may hold a whole conversation
                self._statuses.pop(key, None)
                return status
            kept = self._statuses[key] = version, status
            if len(self._statuses) > KEPT:
                self._statuses.popitem(last=False)
        self._statuses.move_to_end(key)
        return kept[1]


class Readings:
    """Connections that only read; one to each worker's file that is there."""

    def __init__(self, folder: Path) -> None:
        self._at = str(folder / WORKERS)
        self._connection = connect_reader(folder / CONTROL_FILE, CONTROL)
        self._there = There(folder / CONTROL_FILE)
        self._workers: dict[str, _File] = {}
        self._places: dict[str, str] = {}
        """In which worker's file runs are whose facts were read: it is the same one for ever."""
        self._versions: dict[str, int] = {}
        self._changes: dict[str, int] = {}
        self._commands = self._control.execute("SELECT coalesce(max(seq), 0) FROM command").fetchone()[0]

    def close(self) -> None:
        self._connection.close()
        for file in self._workers.values():
            file.connection.close()

    @property
    def _control(self) -> sqlite3.Connection:
        self._there.check()
        return self._connection

    # -- status ------------------------------------------------------------------------------------------------------

    def status(self, run: str) -> RunStatus:
        for *row, placed, over in self._control.execute(
            "SELECT id, spec, submitted, standing, worker, placed, over FROM submission WHERE id = ?", (run,)
        ):
            found = self._in_file(row[4], run) if row[4] is not None else None
            if found is None and placed:
                return msgspec.structs.replace(_waiting(row), refused=_gone(run, row[4], over))
            return found or _waiting(row)
        for name in self.names():
            found = self._in_file(name, run)
            if found is not None:
                return found
        raise UnknownRun(f"there is no run {run[:100]!r}")

    def page(self, query: Query) -> Page:
        most = limit_of(query)
        last = self.status(query.before) if query.before else None
        found: dict[str, RunStatus] = {}
        if not query.parent and not query.worker:
            found.update((one.run, one) for one in self._waiting(query, last, most + 1))
        for name in self.names():
            found.update((one.run, one) for one in self._written(name, query, last, most + 1))
        newest = sorted(found.values(), key=lambda one: (one.submitted, one.run), reverse=True)
        return Page(tuple(newest[:most]), len(newest) > most)

    def children(self, worker: str, root: str) -> list[RunStatus]:
        file = self._open(worker)
        if file is None:
            return []
        return file.statuses(
            " WHERE run.root = (SELECT key FROM run WHERE id = ?) AND run.id <> ? ORDER BY run.key", (root, root)
        )

    def names(self) -> list[str]:
        """The workers that have a file."""
        try:
            return sorted(name[:-3] for name in os.listdir(self._at) if name.endswith(".db"))
        except FileNotFoundError:
            return []

    def _in_file(self, worker: str, run: str) -> RunStatus | None:
        file = self._open(worker)
        return next(iter(file.statuses(" WHERE run.id = ?", (run,))), None) if file is not None else None

    def _waiting(self, query: Query, last: RunStatus | None, most: int) -> Iterable[RunStatus]:
        where, values = _filters(query, last, "submission.")
        if query.states:
            over = {"queued": "0", "ended": "1"}
            where.append(f"over IN ({','.join(over[state] for state in query.states if state in over)})")
        rows = self._control.execute(
            " AND ".join([_WAITING, *where]) + " ORDER BY submitted DESC, id DESC LIMIT ?",
            (*values, most),
        )
        return [_waiting(row) for row in rows]

    def _written(self, name: str, query: Query, last: RunStatus | None, most: int) -> Iterable[RunStatus]:
        file = self._open(name)
        if file is None:
            return ()
        where, values = _filters(query, last, "run.")
        if query.parent != "":
            where.append("run.parent = ?")
            values.append(query.parent or "")
        if query.worker:
            where.append("lease.worker = ?")
            values.append(query.worker)
        if query.states:
            where.append(f"standing.state IN ({','.join('?' * len(query.states))})")
            values.extend(query.states)
        return file.statuses(
            " AND ".join([" WHERE 1", *where]) + " ORDER BY run.submitted DESC, run.id DESC LIMIT ?", (*values, most)
        )

    # -- facts -------------------------------------------------------------------------------------------------------

    def facts(self, run: str, after: int) -> Facts:
        """The facts behind ``after``, about a megabyte of them. Raises :class:`.UnknownRun`."""
        place = self._places.get(run)
        found = self._facts_in(place, run, after) if place is not None else None
        if found is not None:
            return found
        row = self._control.execute(
            "SELECT worker, facts, placed, over FROM submission WHERE id = ?", (run,)
        ).fetchone()
        if row is not None:
            worker, lines, placed, over = row
            if lines is not None:
                return Facts(tuple(unpacked(lines, bytes)[after:]), True)
            found = self._facts_in(worker, run, after) if worker is not None else None
            if found is None and placed:
                _gone(run, worker, over)
            return found or Facts((), False, early=True)
        for name in self.names():
            found = self._facts_in(name, run, after)
            if found is not None:
                return found
        raise UnknownRun(f"there is no run {run[:100]!r}")

    def _facts_in(self, worker: str, run: str, after: int) -> Facts | None:
        file = self._open(worker)
        if file is None:
            return None
        connection = file.connection
        row = connection.execute(
            "SELECT run.key, standing.first, standing.state FROM run JOIN standing ON standing.run = run.key"
            " WHERE run.id = ?",
            (run,),
        ).fetchone()
        if row is None:
            return None
        if len(self._places) >= KEPT:
            self._places.clear()
        self._places[run] = worker
        key, first, state = row
        found: list[Event | Gap] = []
        if after + 1 < first:
            found.append(Gap(after + 1, first - 1))
            after = first - 1

        def value(digest: bytes) -> bytes:
            body: bytes = connection.execute("SELECT body FROM blob WHERE hash = ?", (digest,)).fetchone()[0]
            return body

        size = 0
        for begins, body in connection.execute(
            "SELECT first, body FROM chunk WHERE run = ? AND last > ? ORDER BY last", (key, after)
        ):
            events = unpacked(body, value)
            found += events[max(after + 1 - begins, 0) :]
            size += len(body)
            if size > BYTES:
                return Facts(tuple(found), False)
        return Facts(tuple(found), state == "ended")

    # -- commands ----------------------------------------------------------------------------------------------------

    def commands(self, root: str) -> list[AnyCommand]:
        """What was sent to a tree and has no answer, oldest first."""
        rows = self._control.execute("SELECT body FROM command WHERE root = ? AND answer IS NULL ORDER BY seq", (root,))
        return [command_of(body) for (body,) in rows]

    def answer(self, root: str, run: str, command: str) -> Answered | None:
        """What became of a command; None: nothing yet. Raises :class:`.EngineError` if it was never sent."""
        row = self._control.execute(
            "SELECT run, answer FROM command WHERE root = ? AND id = ?", (root, command)
        ).fetchone()
        if row is None or row[0] != run:
            raise EngineError(f"run {run} was sent no command {command[:100]!r}")
        return None if row[1] is None else msgspec.json.decode(row[1], type=Answered)

    def waits(self) -> bool:
        """Somebody has submitted a run that nobody has claimed."""
        row = self._control.execute("SELECT 1 FROM submission WHERE worker IS NULL AND over = 0 LIMIT 1").fetchone()
        return row is not None

    # -- changes -----------------------------------------------------------------------------------------------------

    def look(self) -> Changed:
        """What others, and other threads, have written since the last look."""
        runs: list[str] = []
        control = self._is_new("", self._control)
        for name in self.names():
            is_open = name in self._workers
            with contextlib.suppress(EngineError, *TROUBLES):  # whoever asks for what is in it is told
                runs += self._new_runs(name)
            control = control or (name in self._workers) > is_open
        return Changed(tuple(dict.fromkeys(runs)), self._new_commands() if control else (), control)

    def _new_runs(self, name: str) -> list[str]:
        """Those of a worker's file whose facts or lease are otherwise."""
        file = self._open(name)
        if file is None or not self._is_new(name, file.connection):
            return []
        rows = file.connection.execute(
            "SELECT run.id, standing.change FROM standing JOIN run ON run.key = standing.run"
            " WHERE standing.change > ? ORDER BY standing.change",
            (self._changes[name],),
        ).fetchall()
        if rows:
            self._changes[name] = rows[-1][1]
        return [run for run, _ in rows]

    def _new_commands(self) -> tuple[str, ...]:
        rows = self._control.execute(
            "SELECT root, seq FROM command WHERE seq > ? ORDER BY seq", (self._commands,)
        ).fetchall()
        if rows:
            self._commands = rows[-1][1]
        return tuple(dict.fromkeys(root for root, _ in rows))

    def _is_new(self, name: str, connection: sqlite3.Connection) -> bool:
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        before = self._versions.get(name)
        self._versions[name] = version
        return bool(before != version)

    def _open(self, worker: str) -> _File | None:
        """A worker's file; None if there is none (any more), or nothing in it yet."""
        path = f"{self._at}/{worker}.db"
        known = self._workers.get(worker)
        try:
            there = os.stat(path)
        except FileNotFoundError:
            there = None
        if known is not None:
            if there is not None and known.identity == (there.st_dev, there.st_ino):
                return known
            known.connection.close()
            del self._workers[worker]
            self._versions.pop(worker, None)
            self._changes.pop(worker, None)
        if there is None:
            return None
        connection = connect_reader(Path(path), WORKER)
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            connection.close()
            return None
        file = self._workers[worker] = _File(connection, (there.st_dev, there.st_ino))
        self._changes[worker] = connection.execute("SELECT coalesce(max(change), 0) FROM standing").fetchone()[0]
        return file


def _filters(query: Query, last: RunStatus | None, of: str) -> tuple[list[str], list[object]]:
    where: list[str] = []
    values: list[object] = []
    if last is not None:
        where.append(f"({of}submitted, {of}id) < (?, ?)")
        values += [last.submitted, last.run]
    if query.agent:
        where.append(f"{of}agent = ?")
        values.append(query.agent)
    for key, value in query.labels.items():
        # json_each rather than a path: a label's name may be any text.
        where.append("EXISTS (SELECT 1 FROM json_each(labels) AS label WHERE label.key = ? AND label.value = ?)")
        values += [key, value]
    return where, values


def _gone(run: str, worker: str, over: bool) -> str:
    """What is said of a run that was in a worker's file and is not. Raises :class:`.UnknownRun` if it has ended."""
    if over:
        raise UnknownRun(f"there is no run {run[:100]!r} any more: it has ended, and its file, {worker}.db, is gone")
    return f"{worker}.db, which had its facts, is gone: it fails when a worker starts anew"


def _waiting(row: Sequence[object]) -> RunStatus:
    run, spec, submitted, standing, worker = row
    assert isinstance(run, str)
    stands = Standing(run=run, root=run) if standing is None else _decoded(standing)
    return stands.status(_spec(spec), worker=str(worker or ""), submitted=_number(submitted))


def _decoded(standing: object) -> Standing:
    assert isinstance(standing, bytes)
    return msgspec.json.decode(standing, type=Standing)


def _spec(spec: object) -> RunSpec:
    assert isinstance(spec, bytes)
    return msgspec.json.decode(spec, type=RunSpec)


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
