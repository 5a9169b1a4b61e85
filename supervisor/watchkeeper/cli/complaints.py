"""What went wrong with the reading and judging of recordings, told on standard error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .exits import complain
from .printable import count, one_line
from .recordings import Problem

SHOWN = 3
"""Problems of one file that are told one by one."""


class Complaints:
    """Tells problems as they come, the first few of each file and then how many more; and at the end which detectors
    failed, and whether there was nothing to judge. ``any`` says whether there was anything to tell."""

    def __init__(self) -> None:
        self.any = False
        self.problems = 0
        self._runs = 0
        self._left_out = 0
        self._of: Counter[str] = Counter()
        self._failed: dict[str, _Failed] = {}

    def tell(self, problem: Problem) -> None:
        self.any = True
        self.problems += 1
        self._of[problem.file] += 1
        if self._of[problem.file] <= SHOWN:
            complain(one_line(str(problem), 400))

    def file_ended(self, file: str) -> None:
        more = self._of.pop(file, 0) - SHOWN
        if more > 0:
            complain(one_line(f"{file}: and {count(more, 'more problem')} like these", 400))

    def judged(self, run: str, failed: Iterable[tuple[str, str]]) -> None:
        """Take note of a run, and of the detectors that failed in it, with their errors."""
        self._runs += 1
        for detector, error in failed:
            self.any = True
            self._failed.setdefault(detector, _Failed(run, error)).runs += 1

    def left_out(self) -> None:
        """Take note of a run that the filters left out."""
        self._left_out += 1

    def end(self) -> None:
        """Tell which detectors failed, each once, and if there was no run at all."""
        if not self._runs and self._left_out:
            complain(f"none of {count(self._left_out, 'run')} passes --only, --source, --model and --outcome")
        elif not self._runs and not self.any:
            complain("there is no run in what was read")
        self.any = self.any or not self._runs
        for line in self._failures():
            complain(one_line(line, 400))

    def unread(self) -> list[str]:
        """In a line how much could not be read, if anything."""
        return [f"not all of it could be read: {count(self.problems, 'problem')}"] if self.problems else []

    def lines(self) -> list[str]:
        """All that a reader of the results has to know, for a page of its own."""
        return [*self.unread(), *self._failures()]

    def _failures(self) -> Iterator[str]:
        for name, one in self._failed.items():
            told = f"the detector {name} failed in {count(one.runs, 'run')} and was switched off there: {one.error}"
            yield f"{told} (first in {one.first})"

    def summary(self) -> dict[str, Any]:
        """What a summary as JSON says of it."""
        return {
            "problems": self.problems,
            "failed_detectors": {name: {"error": one.error, "runs": one.runs} for name, one in self._failed.items()},
        }


class _Failed:
    """A detector that failed: with which error first, and in how many runs."""

    def __init__(self, first: str, error: str) -> None:
        self.first = first
        self.error = error
        self.runs = 0
