"""Opening a SQLite file of ours: what is set, how it becomes the present version, what its errors mean to a person."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..engine import EngineError, Unavailable, Unusable
from ..private import make_private

BUSY = 10.0
"""Seconds to wait for another process that writes to the same file; each of ours writes for some milliseconds."""
CHECKPOINT = 2000
"""Pages of 4 KB in the log of a file from which they are moved into the file itself."""

_MEANINGS = {
    "SQLITE_FULL": "the disk is full; make room and what was asked can be asked again",
    "SQLITE_IOERR": "the disk does not take or give it: full, worn out or gone; look after it and ask again",
    "SQLITE_READONLY": "it may not be written to; give this user the right to write the file and its folder",
    "SQLITE_PERM": "it may not be opened; give this user the right to read and write it",
    "SQLITE_CANTOPEN": "it cannot be opened; its folder must be there, and this user must be allowed to write to it",
    "SQLITE_NOTADB": "it is no SQLite file; name another folder, or move the file away",
    "SQLITE_CORRUPT": "it is damaged; move it away (sqlite3 FILE .recover saves what can be saved) and start anew",
    "SQLITE_BUSY": f"another process has kept it locked for {BUSY:g} s; see with fuser or lsof who does, and ask again",
    "SQLITE_LOCKED": "it is locked; ask again",
}


_PASSES = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_NOMEM")
"""What may be otherwise when the same is asked again; so may these of the system:"""
_PASSING = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EBUSY, errno.EINTR),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    )
)

TROUBLES = (sqlite3.Error, OSError, msgspec.MsgspecError)
"""What a file may come to, and :func:`cannot` explains."""


class Kind:
    """What a file is: its mark, and the statements that make each version out of the one before."""

    def __init__(self, what: str, mark: int, versions: Sequence[Sequence[str]]) -> None:
        self.what = what
        self.mark = mark
        self.versions = versions


def cannot(path: Path, error: Exception) -> EngineError:
    """What went wrong with a file, and what to do about it."""
    if isinstance(error, EngineError):
        return error
    name = getattr(error, "sqlite_errorname", "") or ""
    meaning = next((said for code, said in _MEANINGS.items() if name.startswith(code)), "")
    if not meaning and isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
        meaning = _MEANINGS["SQLITE_NOTADB"]
    if isinstance(error, msgspec.MsgspecError):
        return Unusable(f"{path} cannot be used: what is in it is not what was written there ({error}); move it away")
    if isinstance(error, OSError):
        kind = Unavailable if error.errno in _PASSING else Unusable
        return kind(f"{path} cannot be used: {error.strerror or error}; check that this user may write there")
    kind = Unavailable if name.startswith(_PASSES) else Unusable
    return kind(f"{path} cannot be used: {error}{': ' if meaning else ''}{meaning}")


class There:
    """A file as it was when it was opened, with the log that SQLite keeps beside it: ``check`` raises if another one,
    or none, is in the place of either. What is written to a log that is deleted is lost with this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._opened = _identity(path), _identity(self._log)

    def check(self) -> None:
        if (_identity(self._path), _identity(self._log)) != self._opened:
            raise Unusable(
                f"{self._path} was deleted or replaced while this process had it open, and with it what was in it; "
                "end this process and start it anew"
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def connect(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open a file for writing, new or old, and bring it to the present version.

    Raises :class:`EngineError` that names the file and the remedy: it is another program's, of a newer version,
    damaged, locked, or the disk is full or closed to us.
    """
    connection = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private(path)
        connection = _open(path)
        _be_ours(connection, path, kind)
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise Unusable(f"{path} cannot be used: its file system has no shared memory; name a local folder")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
        _migrate(connection, path, kind)
    except (sqlite3.Error, OSError, EngineError) as error:
        if connection is not None:
            connection.close()
        raise cannot(path, error) from error
    return connection


def forget_log(path: Path) -> None:
    """Delete what SQLite had beside a file that is not there any more: whoever still has it open would share it with a
    new one. Only for who alone may make that."""
    if not path.exists():
        for beside in ("-wal", "-shm"):
            Path(f"{path}{beside}").unlink(missing_ok=True)


def connect_reader(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open a file that is there, to read only. Raises :class:`EngineError` as :func:`connect` does."""
    connection = None
    try:
        if not path.exists():
            raise Unusable(f"{path} is not there")
        connection = _open(path)
        connection.execute("PRAGMA query_only=ON")
        _be_ours(connection, path, kind)
    except (sqlite3.Error, OSError, EngineError) as error:
        if connection is not None:
            connection.close()
        raise cannot(path, error) from error
    return connection


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False, cached_statements=256)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _be_ours(connection: sqlite3.Connection, path: Path, kind: Kind) -> None:
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    if mark != kind.mark and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise Unusable(f"{path} is a file of another program, not {kind.what}; name another folder, or move it away")
    version = _version(connection)
    if version > len(kind.versions):
        raise Unusable(
            f"{path} was written by a newer watchkeeper (version {version} of {kind.what}, this one knows "
            f"{len(kind.versions)}); use that one, or name another folder"
        )


def _migrate(connection: sqlite3.Connection, path: Path, kind: Kind) -> None:
    if _version(connection) == len(kind.versions):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in kind.versions[_version(connection) :]:  # of two at once the second finds it done
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={kind.mark}")
        connection.execute(f"PRAGMA user_version={len(kind.versions)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
