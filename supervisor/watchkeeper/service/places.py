"""Where the files of a machine's runs are: the state folder, and in it the service's and each foreground run's.

All of it is for its owner's eyes only: what is made is made with mode 0700.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

STATE = "WATCHKEEPER_STATE"
"""The environment variable that names the state folder."""
MODE = 0o700
MAIN = "main"
"""The one worker of a foreground run."""


class Folder:
    """The files of one engine: those of the service, or of one run in the foreground."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<Folder {self.path}>"

    @property
    def name(self) -> str:
        """Of a foreground folder: the id of its run."""
        return self.path.name

    @property
    def control(self) -> Path:
        return self.path / "control.db"

    @property
    def workers(self) -> Path:
        return self.path / "workers"

    @property
    def hints(self) -> Path:
        return self.path / "hints"

    @property
    def api_socket(self) -> Path:
        return self.path / "api.sock"

    @property
    def lives(self) -> Path:
        """The service holds it for life, and its process id stands in it."""
        return self.path / "service.lock"

    def owner(self) -> str:
        """The process id in it; ``unknown`` if there is none."""
        try:
            return self.lives.read_text(encoding="ascii", errors="replace")[:20].strip() or "unknown"
        except OSError:
            return "unknown"

    def file(self, worker: str = MAIN) -> Path:
        return self.workers / f"{worker}.db"

    def lock(self, worker: str = MAIN) -> Path:
        """Whoever holds it owns the worker's file, for life."""
        return self.workers / f"{worker}.lock"

    def make(self) -> Folder:
        """Raises ``OSError`` where it cannot be made."""
        for path in (self.workers, self.hints):
            _make(path)
        return self


class Places:
    """The state folder; nothing is made by looking."""

    def __init__(self, state: Path) -> None:
        self.state = state

    @classmethod
    def of(cls, environ: Mapping[str, str] | None = None) -> Places:
        """``$WATCHKEEPER_STATE``, else ``$XDG_STATE_HOME/watchkeeper``, else ``~/.local/state/watchkeeper``."""
        environ = os.environ if environ is None else environ
        if named := environ.get(STATE):
            return cls(Path(named).absolute())
        home = environ.get("XDG_STATE_HOME", "")
        # The specification of these folders says that one which is not absolute is as good as none.
        above = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
        return cls(above / "watchkeeper")

    @property
    def service(self) -> Folder:
        return Folder(self.state / "service")

    def foreground(self, run: str) -> Folder:
        return Folder(self.state / "foreground" / run)

    def foregrounds(self) -> Iterator[Folder]:
        """Those that are there, the newest first: their names are ids, which sort by time."""
        above = self.state / "foreground"
        try:
            names = sorted((entry.name for entry in os.scandir(above) if entry.is_dir()), reverse=True)
        except OSError:
            return
        for name in names:
            yield Folder(above / name)


def _make(path: Path) -> None:
    """The folder and those above it that are missing, each for its owner alone, which ``parents=True`` would not do."""
    if not path.is_dir():
        _make(path.parent)
        path.mkdir(mode=MODE, exist_ok=True)


def is_held(lock: Path) -> bool:
    """Whether a living process holds the lock. It is tried for a moment, and shared, so that two who look do not take
    each other for its owner."""
    import fcntl

    try:
        opened = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(opened)
