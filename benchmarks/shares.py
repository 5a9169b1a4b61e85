"""Which part of the runtime the processor is in: where the innermost frame of ours stands, each so many milliseconds.

``Shares`` looks at the main thread by a timer of the process's own time, so that what is counted is work, not waiting.
What a part calls of the standard library, of msgspec or of anyio counts as its own; frames without any of ours are the
event loop's.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import watchkeeper

EVERY = 0.0005
"""Seconds between two looks."""
LOOP = "event loop"
MODEL = "scripted model"
PARTS: Mapping[str, str] = {
    "watchdog": "detect fingerprint ladder actors/watchdog",
    "guards of calls": "guards admission approvals planner occurrences locks naming hooks",
    "goal and thought": "goal",
    "budgets": "budget allowance stopwatch price prices supply",
    "results and secrets": "results outputs redaction escapes",
    "facts and folds": "log messages ledger history",
    "request and reply": "asking actors/requests retry provider context model",
    "agent": "actors/agent decisions finishing run wiring pace wording",
    "executor": "actors/executor actors/leftover trampoline current tools arguments jsontext",
    MODEL: "testing",
}
"""By part, the modules and packages that are it; all others of the runtime are ``other``."""
_OURS = str(Path(watchkeeper.__file__).parent) + "/"
_PART = {module: part for part, modules in PARTS.items() for module in modules.split()}


class Shares:
    """How often each part was seen."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    @contextmanager
    def looking(self) -> Iterator[None]:
        before = signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _look(self, number: int, frame: FrameType | None) -> None:
        while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
            frame = frame.f_back
        self.seen[LOOP if frame is None else part_of(frame.f_code.co_filename[len(_OURS) :])] += 1

    def parts(self) -> dict[str, float]:
        """The share of each part without the scripted model, largest first."""
        ours = {part: count for part, count in self.seen.most_common() if part != MODEL}
        return {part: count / sum(ours.values()) for part, count in ours.items()}


def part_of(path: str) -> str:
    """Of a module, by its path within the package."""
    module = path.removesuffix(".py")
    return _PART.get(module) or _PART.get(module.partition("/")[0], "other")
