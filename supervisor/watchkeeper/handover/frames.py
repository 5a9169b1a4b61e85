"""The calls of one run and its own verdicts, as the timeline of recorded runs draws them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..cli.film import Film, Frame
from ..cli.judging import Judged
from ..cli.review import Judgement
from ..messages import Blocked, CallProposed, Event, Finding, FindingMade, Nudged, Outcome, Paused, Stopped


def judged_of(outcome: Outcome, events: Iterable[Event], *, agent: str = "", model: str = "") -> Judged:
    """What the run's own watchdog did, and the calls around it. Calls are counted from 0 over the whole run, also where
    the log does not begin with it."""
    film, verdicts = Film(), _Verdicts()
    for event in events:
        if event.run == outcome.run:
            film.observe(event, None)
            if verdicts.observe(event):
                film.keep()
    total = max(len(outcome.calls), film.calls)
    before = total - film.calls
    judgements = tuple(msgspec.structs.replace(one, position=one.position + before) for one in verdicts.made)
    shown = film.around(one.position - before for one in judgements)
    return Judged(
        run=outcome.run,
        source=agent,
        model=model,
        outcome=outcome.status,
        calls=total,
        saved=0,
        judgements=judgements,
        frames=tuple(_moved(frame, before) for frame in shown),
    )


def _moved(frame: Frame, by: int) -> Frame:
    return msgspec.structs.replace(frame, position=frame.position + by) if by else frame


class _Verdicts:
    """The verdicts of a log, each at the call that it followed."""

    def __init__(self) -> None:
        self.made: list[Judgement] = []
        self._calls = 0
        self._found: dict[str, Finding] = {}
        self._told = (0, "")
        """Cause and detector of a block or a pause: the word that comes with it is none of its own."""

    def observe(self, event: Event) -> bool:
        """Whether something was done."""
        if isinstance(event, CallProposed):
            self._calls += 1
        elif isinstance(event, FindingMade):
            self._found[event.finding.detector] = event.finding
        elif isinstance(event, Blocked):
            self._told = event.cause, event.by
            return self._add("block", self._found.get(event.by), event.n)
        elif isinstance(event, Nudged) and (event.cause, event.by) != self._told:
            return self._add("nudge", self._found.get(event.by), event.n)
        elif isinstance(event, Paused) and event.verdict is not None:
            self._told = event.cause, event.verdict.finding.detector
            return self._add("pause", event.verdict.finding, event.n)
        elif isinstance(event, Stopped):
            return self._add("stop", event.verdict.finding, event.n)
        return False

    def _add(self, action: str, finding: Finding | None, n: int) -> bool:
        if finding is None:  # it was made before the log begins
            return False
        self.made.append(
            Judgement(
                max(self._calls - 1, 0),
                action,
                finding.detector,
                finding.pattern,
                finding.tool,
                n,
                finding.count,
                finding.onset_call - 1 if finding.onset_call else None,
            )
        )
        return True
