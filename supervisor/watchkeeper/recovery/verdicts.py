"""What the watchdog has still to say: verdicts that follow from the facts and are not in the log. Pure.

A round may be durable and what came of it not. The judge is fed all facts anew and says the same again; what the log
has of it already is done.
"""

from __future__ import annotations

from ..detect.judge import Judged
from ..messages import Blocked, DetectorFailed, Event, Finding, FindingMade, Nudged, Paused, Stopped, Verdict


class Open:
    """A finding with its verdict, and how much of it is in the log."""

    __slots__ = ("blocked", "cause", "done", "finding", "made", "paused", "verdict")

    def __init__(self, finding: Finding, verdict: Verdict | None, cause: int) -> None:
        self.finding = finding
        self.verdict = verdict
        self.cause = cause
        self.made = self.blocked = self.paused = self.done = False


class Verdicts:
    """Tell it first what a fact is, then what the judge has said of it."""

    def __init__(self) -> None:
        self._open: list[Open] = []
        self._failed: list[tuple[str, str]] = []

    def observe(self, event: Event) -> None:
        if isinstance(event, FindingMade):
            self._made(event.finding)
        elif isinstance(event, DetectorFailed):
            self._failed = [one for one in self._failed if one[0] != event.detector]
        elif isinstance(event, Blocked | Nudged | Stopped | Paused):
            self._ruled(event)

    def said(self, judged: Judged, cause: int) -> None:
        self._failed += judged.failed
        self._open += [Open(finding, verdict, cause) for finding, verdict in judged.found]

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Detectors that have failed, of which the log does not know."""
        return self._failed

    @property
    def left(self) -> list[Open]:
        """Oldest first."""
        return [one for one in self._open if not one.done]

    def _made(self, finding: Finding) -> None:
        for one in self._open:
            if not one.made and _name(one.finding) == _name(finding):
                one.made, one.done = True, one.verdict is None
                break
        self._open = [one for one in self._open if not one.done]

    def _ruled(self, event: Blocked | Nudged | Stopped | Paused) -> None:
        by = event.by if isinstance(event, Blocked | Nudged) else ""
        for one in self._open:
            if one.verdict is None or not one.made or one.cause != event.cause:
                continue
            if by and one.finding.detector != by:
                continue
            if isinstance(event, Blocked):
                one.blocked = True
            elif isinstance(event, Paused):
                one.paused = True
            else:
                one.done = True
            break
        self._open = [one for one in self._open if not one.done]


def _name(finding: Finding) -> tuple[str, int, str | None, int, tuple[str, ...]]:
    return finding.detector, finding.count, finding.subject, finding.onset, finding.keys
