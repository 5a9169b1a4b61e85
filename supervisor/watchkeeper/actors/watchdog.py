"""The watchdog: reads every fact to the very last, judges, and acts through the run's handle alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..detect.judge import Judge, Judged
from ..detect.silence import Silence
from ..log import Gap, Reader
from ..messages import DetectorFailed, FindingMade

if TYPE_CHECKING:
    from ..run import Run

LATE = 0.5
"""Seconds by which the watchdog's own timer may be late before that counts as a blocked loop, not as silence."""


class Watchdog:
    """The actor. It judges and never touches tools; it needs no cancel to end: it returns when the log closes."""

    def __init__(self, run: Run, judge: Judge, silence: Silence | None) -> None:
        self._run = run
        self._judge = judge
        self._silence = silence

    async def run(self, reader: Reader) -> None:
        """Follow the log to its end. Each fact is dealt with before it counts as passed."""
        while True:
            batch = reader.take_nowait()
            if not batch:
                if reader.log.closed:
                    return
                await self._wait(reader)
                continue
            for event in batch:
                if isinstance(event, Gap):
                    raise RuntimeError(f"the watchdog missed facts {event.first} to {event.last}")
                if self._silence is not None:
                    self._silence.observe(event)
                judged = self._judge.observe(event)
                if judged is not None:
                    self._act(judged, event.n)
                last = event
            if self._silence is not None:
                self._silence.heard(last)
            reader.done()

    async def _wait(self, reader: Reader) -> None:
        """Wait for a fact, or until it has been silent for too long."""
        silence, log = self._silence, reader.log
        if silence is None:
            await reader.wait()
            return
        due = silence.due(self._t())
        expected = self._t() + due
        with anyio.move_on_after(due):
            await reader.wait()
            return
        late = self._t() - expected
        if late > LATE:
            silence.extend(late)  # the loop was blocked: the others could not speak either
            return
        finding = silence.judge(self._t())
        if finding is not None and not log.closed:
            log.append(FindingMade, finding=finding)
            verdict = self._judge.rule(finding)
            if verdict is not None:
                self._run.rule(verdict, log.n)
            self._silence = None

    def _act(self, judged: Judged, cause: int) -> None:
        log = self._run.log
        for detector, error in judged.failed:
            log.append(DetectorFailed, detector=detector, error=error)
        for finding, verdict in judged.found:
            log.append(FindingMade, finding=finding)
            if verdict is not None:
                self._run.rule(verdict, cause)

    def _t(self) -> float:
        log = self._run.log
        return log.seams.clock() - log.began
