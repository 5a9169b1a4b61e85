"""Files for their owner alone."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

_MAKING = threading.Lock()


def make_private(path: str | os.PathLike[str]) -> None:
    """Make an empty file that only its owner may read and write, if nothing has that name. Raises ``OSError``.

    A file that is there is not opened. To close it would take all locks on it from this process, and SQLite its own
    (https://www.sqlite.org/howtocorrupt.html, 2.2): another process that closes the file then takes itself for the last
    one, and deletes the log that this one goes on writing to.
    """
    with _MAKING:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if Path(path).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path)) from None
