"""``stats --step-line``: how many calls few good runs exceed, learned from the good runs of each source."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from ..detect.stepline import step_line
from .complaints import Complaints
from .exits import CommandError
from .filters import GOOD
from .printable import count, one_line


class StepLines:
    """Takes rows of statistics; at the end prints a line for each source and one for all of them.

    The line says something of runs of the same kind only: see :func:`..detect.stepline.step_line`.
    """

    def __init__(self, alpha: float, *, as_json: bool) -> None:
        if not 0 < alpha < 1:
            raise CommandError(f"--step-line is a share between 0 and 1, such as 0.01, not {alpha:g}")
        self._alpha = alpha
        self._json = as_json
        self._counts: dict[str, list[int]] = {}

    def take(self, row: dict[str, Any]) -> None:
        if row["outcome"] in GOOD:
            self._counts.setdefault(row["source"] or "unknown source", []).append(row["calls"])

    def end(self, complaints: Complaints) -> None:
        if not self._counts and not self._json:
            print("no good run to learn from")
        for source, counts in sorted(self._counts.items()):
            line = step_line(counts, self._alpha)
            found = {"source": source, "good_runs": len(counts), "alpha": self._alpha, "step_line": line}
            if self._json:
                sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
                continue
            of = f"{one_line(source, 80)}: {count(len(counts), 'good run')}, at most {max(counts)} calls"
            if line is None:
                print(f"{of}: too few for a line at {self._alpha:g}")
            else:
                print(f"{of}: a good run takes more than {line} calls with a probability of at most {self._alpha:g}")
