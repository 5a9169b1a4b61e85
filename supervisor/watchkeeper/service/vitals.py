"""How a worker stands and what is to be done about it: pure, a fold over what it says and the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .control import Standing
from .wire import AnySign, Beat, Blocked, Hello

START = 60.0
"""Seconds that a worker has to take its file and to load its agents."""
SILENT = 1.5
"""Seconds without a word after which a worker is looked at from outside; it says one each quarter of a second."""

Act = Literal["name", "recycle", "kill"]
"""``name``: say where it stands; ``recycle``: drain it and start another; ``kill``: end it now."""


@dataclass
class Vitals:
    """One worker process from its start to its end; times are the foreman's clock in seconds.

    ``grace``: how long it may be in trouble, or late in ending, before it is killed.
    """

    grace: float
    began: float
    state: Standing = "starting"
    since: float = 0.0
    runs: int = 0
    why: str = ""
    """What the trouble is, for a person; empty without one."""
    stuck: tuple[str, ...] = ()
    _heard: float = 0.0
    _trouble: float | None = None
    _stuck_since: float | None = None
    _end_by: float | None = None
    _named: bool = field(default=False)

    def __post_init__(self) -> None:
        self._heard = self.since = self.began

    @property
    def ending(self) -> bool:
        return self._end_by is not None

    def hear(self, sign: AnySign, now: float) -> None:
        self._heard = now
        match sign:
            case Hello() if self.state == "starting":
                self._enter("running", now)
            case Beat(runs=runs, lag=lag, stuck=stuck):
                self.runs = runs
                self._note_stuck(stuck, now)
                # Without a loop it is at its start or its end, which have limits of their own.
                if self._trouble is not None and (lag is not None or self.ending):
                    self._recover(now)
            case Blocked(seconds=seconds, frame=frame):
                self._fall("blocked", f"its event loop has not answered for {seconds:.1f} s; {frame} holds it", now)
            case _:
                pass

    def told(self, seconds: float, now: float) -> None:
        """It has been told to end, and may take so long for its runs, and its grace for itself."""
        by = now + seconds + self.grace
        self._end_by = by if self._end_by is None else min(self._end_by, by)
        self._named = False
        self._enter("draining" if seconds else "stopping", now)

    def act(self, now: float) -> Act | None:
        """What is to be done now, once each; it takes the time into account."""
        if self.state == "starting" and now - self.began >= START:
            return self._worse(f"it has not started within {START:g} s")
        if self._end_by is not None and now >= self._end_by:
            # Named when its time is over, killed a grace later.
            overdue = "it was told to end and has not" + (
                f"; given up and still at work: {self._calls()}" * bool(self.stuck)
            )
            return self._worse(overdue) if now >= self._end_by + self.grace else self._name(overdue)
        if self._trouble is None and self.state != "starting" and now - self._heard >= SILENT:
            self._fall("silent", f"nothing was heard of it for {now - self._heard:.1f} s", now)
        if self._trouble is not None:
            return self._worse(self.why) if now - self._trouble >= self.grace else self._name(self.why)
        if self._stuck_since is not None and now - self._stuck_since >= self.grace and not self.ending:
            self.why = f"given up and still at work: {self._calls()}"
            return "recycle"
        return None

    def _calls(self) -> str:
        return ", ".join(self.stuck)

    def _note_stuck(self, stuck: tuple[str, ...], now: float) -> None:
        self.stuck = stuck
        if not stuck:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now

    def _fall(self, state: Standing, why: str, now: float) -> None:
        if self._trouble is None:
            self._trouble = now
            self._named = False
        self.why = why
        if not self.ending:
            self._enter(state, now)

    def _recover(self, now: float) -> None:
        self._trouble, self._named, self.why = None, False, ""
        if not self.ending:
            self._enter("running", now)

    def _enter(self, state: Standing, now: float) -> None:
        if self.state != state:
            self.state, self.since = state, now

    def _name(self, why: str) -> Act | None:
        self.why = why
        named, self._named = self._named, True
        return None if named else "name"

    def _worse(self, why: str) -> Act:
        self.why = why
        return "kill"
