"""Labels: what a person thought of recorded runs."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

from .exits import CommandError

LABELS = (
    "CSV file in UTF-8 with the columns id, stuck (yes, no or ambiguous) and onset_step (index of the call with which "
    "it began, or empty), separated by commas."
)
"""What it is, in words for people."""
SEPARATORS = {"semicolons": ";", "tabs": "\t"}
"""What spreadsheets put between columns in place of commas."""


class Label(NamedTuple):
    """``stuck``: yes, no or ambiguous (which counts nowhere); ``onset``: the index of the call with which it began."""

    stuck: str
    onset: int | None


def read_labels(path: Path) -> dict[str, Label]:
    """Labels by run, from a CSV file in UTF-8 with the columns ``id``, ``stuck`` and ``onset_step``.

    Raises :class:`CommandError` that names the line for what cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            columns = rows.fieldnames or ()
            for name, separator in SEPARATORS.items():
                if len(columns) == 1 and separator in columns[0]:
                    raise CommandError(f"--labels {path}: its columns are separated by {name}; commas are wanted")
            missing = {"id", "stuck", "onset_step"} - set(columns)
            if missing:
                raise CommandError(f"--labels {path}: the column {', '.join(sorted(missing))} is missing in line 1")
            return {row["id"]: _label(path, rows.line_num, row) for row in rows}
    except OSError as error:
        raise CommandError(f"--labels {path}: {os.strerror(error.errno) if error.errno else error}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise CommandError(f"--labels {path}: not a CSV file in UTF-8: {error}") from error


def _label(path: Path, line: int, row: dict[str, str | None]) -> Label:
    stuck, onset = (row["stuck"] or "").strip(), (row["onset_step"] or "").strip()
    if stuck not in ("yes", "no", "ambiguous"):
        raise CommandError(f"--labels {path}:{line}: stuck must be yes, no or ambiguous, not {stuck[:40]!r}")
    if onset and not onset.isdecimal():
        raise CommandError(f"--labels {path}:{line}: onset_step must be a whole number or empty, not {onset[:40]!r}")
    return Label(stuck, int(onset) if onset else None)
