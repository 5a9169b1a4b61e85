"""What ``watchkeeper run`` reads and writes of bundles: the token to continue from, the folder with the report."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ..continuing import MAX_TOKEN
from ..run import Run
from .exits import FAILED, CommandError
from .narrator import INDENT, Line, line

KEY = "WATCHKEEPER_TOKEN_KEY"
"""The environment variable with the key that signs tokens and checks them."""
KEEP = 50_000
"""Facts that are kept for a report."""


def token_in(path: Path) -> str:
    """The token in a file. Raises :class:`CommandError` where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_TOKEN + 1).decode("ascii", "replace")
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(f"--continue {path}: {why}; name the file continue.token of a bundle") from error


def check_report(folder: Path | None) -> None:
    """Raises :class:`CommandError` for a folder that a bundle could not be written into, before anything is done."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--report {folder}: is not a folder; name one, it is made if it is not there")
    from ..handover.bundle import check_free

    try:
        check_free(folder)
    except OSError as error:
        raise CommandError(f"--report {error}") from error


def write_bundle(run: Run, folder: Path | None) -> list[Line]:
    """Write the bundle of a run into the folder, or into one of its own beside; the lines that say so.

    Raises :class:`CommandError` where it cannot be written.
    """
    from ..handover.bundle import PAGE_FILE, Bundle
    from ..handover.words import TOKEN_FILE

    place = folder if folder is not None else Path(f"handover-{run.id}")
    try:
        Bundle.of(run).write(place)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(f"the report could not be written into {place}: {why}", FAILED) from error
    token = shlex.quote(str(place / TOKEN_FILE))
    return [
        line(f"report: {place / PAGE_FILE}", "head", wrap=True),
        line(f"{INDENT}to continue: watchkeeper run --continue {token} with the same options", "dim", wrap=True),
    ]
