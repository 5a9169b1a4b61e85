"""The watchdog: reads every fact to the very last, judges, and acts through the run's handle alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..detect.judge import Judge, Judged
from ..detect.silence import Silence
from ..log import Gap, Reader
from ..messages import DetectorFailed, Event, FindingMade
from ..recovery.verdicts import Verdicts

if TYPE_CHECKING:
    from ..run import Run

LATE = 0.5
"""Seconds by which a look for silence may be late before that counts as a blocked loop, not as silence."""


class Watchdog:
    """The actor. It judges and never touches tools, and never waits, so that nothing can hold it up.

    It is at work when somebody waits for it (the barrier before each turn), when it lags, and at the end: between those
    moments nothing would come of its judging, because rounds are judged when they are whole. When it lags, and when the
    run falls silent, it works in the task that hosts the run, which does nothing else meanwhile.
    """

    def __init__(self, run: Run, judge: Judge, silence: Silence) -> None:
        self._run = run
        self._judge = judge
        self._silence = silence
        self._verdicts = Verdicts()

    def catch_up(self, reader: Reader) -> None:
        """Deal with all facts that are there. Each is dealt with before it counts as passed."""
        observe, listen = self._judge.observe, self._silence.observe
        while batch := reader.take_nowait():
            for event in batch:
                if isinstance(event, Gap):
                    raise RuntimeError(f"the watchdog missed facts {event.first} to {event.last}")
                listen(event)
                judged = observe(event)
                if judged is not None:
                    self._act(judged, event.n)
        reader.done()

    def remember(self, event: Event) -> None:
        """A fact of an attempt that died: what follows from it is said once all are known, if the log has it not."""
        self._silence.observe(event)
        self._verdicts.observe(event)
        judged = self._judge.observe(event)
        if judged is not None:
            self._verdicts.said(judged, event.n)

    def take_up(self) -> None:
        """Say what the watchdog of the attempt that died would have said next."""
        log, left = self._run.log, self._verdicts
        for detector, error in left.failed:
            log.append(DetectorFailed, detector=detector, error=error)
        for one in left.left:
            if not one.made:
                log.append(FindingMade, finding=one.finding)
            if one.verdict is not None:
                self._run.rule(one.verdict, one.cause, blocked=one.blocked, paused=one.paused)

    def due(self) -> float:
        """Seconds until :meth:`look` is worth calling again."""
        return self._silence.due(self._run.log.last_t, self._t())

    def look(self, reader: Reader, late: float) -> None:
        """Look whether the run has fallen silent. ``late``: by how much the look itself came late, in seconds."""
        log = self._run.log
        self.catch_up(reader)
        if late > LATE:
            self._silence.extend(late)
        finding = self._silence.judge(log.last_t, self._t())
        if finding is not None and not log.closed:
            log.append(FindingMade, finding=finding)
            verdict = self._judge.rule(finding)
            if verdict is not None:
                self._run.rule(verdict, log.n)

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
