"""The body of ``/metrics``: of this process, or of all processes of a service together.

The processes of a service share a folder (``PROMETHEUS_MULTIPROC_DIR``, see the documentation of prometheus-client).
The control process empties it with :func:`begin` before it starts workers, names it in their environment, tells
:func:`process_ended` of each that has died, and answers with ``exposition(folder)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names the folder; it must be set before a process begins."""


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
