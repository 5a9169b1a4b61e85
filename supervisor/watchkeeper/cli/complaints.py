"""Problems of recordings, told as they come: the first few of each file, then how many more."""

from __future__ import annotations

from collections import Counter

from .exits import complain
from .printable import count, one_line
from .recordings import Problem

SHOWN = 3
"""Problems of one file that are told one by one."""


class Complaints:
    """Tells problems on standard error; ``any`` says whether there was one."""

    def __init__(self) -> None:
        self.any = False
        self._of: Counter[str] = Counter()

    def tell(self, problem: Problem) -> None:
        self.any = True
        self._of[problem.file] += 1
        if self._of[problem.file] <= SHOWN:
            complain(one_line(str(problem), 400))

    def file_ended(self, file: str) -> None:
        more = self._of.pop(file, 0) - SHOWN
        if more > 0:
            complain(one_line(f"{file}: and {count(more, 'more problem')} like these", 400))
