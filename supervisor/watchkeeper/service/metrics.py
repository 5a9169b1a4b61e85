"""The body of ``/metrics``: of this process, or of all processes of a service together.

The processes of a service share a folder (``PROMETHEUS_MULTIPROC_DIR``, see the documentation of prometheus-client).
The control process finds its :func:`place`, empties it with :func:`begin` before it starts workers, names it in their
environment, tells :func:`process_ended` of each that has died, answers with ``exposition(folder)``, and leaves nothing
behind with :func:`end`.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names the folder; it must be set before a process begins."""


MEMORY = Path("/dev/shm")  # noqa: S108  (what is made there is checked to be ours alone)
"""Where Linux keeps files in memory."""
ROOM = 32 << 20
"""Bytes that must be free there: some megabytes are needed, and a container may have few."""


def place(state: Path) -> Path:
    """Where the processes of the service in this folder are to count, whoever may have been there before: in memory
    where that has room, else in the folder. Counts are mapped files, and a process that writes to a page of one for
    which a full disk has no room is killed (SIGBUS)."""
    beside = state / "metrics"
    try:
        there = state.stat()
        named = MEMORY / f"watchkeeper-{os.getuid()}-{there.st_dev:x}-{there.st_ino:x}"
        room = os.statvfs(MEMORY)
        if room.f_bavail * room.f_frsize < ROOM:
            return beside
        named.mkdir(mode=0o700, exist_ok=True)
        made = named.lstat()
    except OSError:
        return beside
    ours = stat.S_ISDIR(made.st_mode) and made.st_uid == os.getuid() and not made.st_mode & 0o077
    return named if ours else beside


def end(folder: Path) -> None:
    """The service is over: its counts in memory are nobody's."""
    if folder.parent == MEMORY:
        shutil.rmtree(folder, ignore_errors=True)


def exposition(source: CollectorRegistry | Path) -> tuple[str, bytes]:
    """Content type and body in the text format of Prometheus. ``source``: a registry (``Metrics().registry``), or the
    folder of a service. Reads files; waits for nothing else.

    Raises :class:`ConfigurationError` where prometheus-client is not installed.
    """
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector
    except ImportError as error:
        raise ConfigurationError("prometheus-client is not installed: pip install 'watchkeeper[server]'") from error
    if isinstance(source, Path):
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(source))  # type: ignore[no-untyped-call]  # the library has no types there
        source = registry
    return CONTENT_TYPE_LATEST, generate_latest(source)


def begin(folder: Path) -> None:
    """Make the folder, for its owner alone, without what an earlier service has left there: counters begin anew."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in folder.glob("*.db"):
        left.unlink()


def process_ended(folder: Path, pid: int) -> None:
    """A worker has died: what it had counted stays, what it was at work on does not."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]  # the library has no types there
