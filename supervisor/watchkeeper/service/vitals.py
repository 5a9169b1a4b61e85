"""How a worker stands and what is to be done about it: pure, a fold over what it says and the time."""

from __future__ import annotations

from dataclasses import dataclass
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
    _troubled: bool = False
    _named: float | None = None
    """Since when its trouble, or its lateness, is known."""
    _stuck_since: float | None = None
    _end_by: float | None = None

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
                if self._troubled and (lag is not None or self.ending):
                    self._recover(now)
            case Blocked(seconds=seconds, frame=frame):
                self._fall("blocked", f"its event loop has not answered for {seconds:.1f} s; {frame} holds it", now)
            case _:
                pass

    def away(self, seconds: float, now: float) -> None:
        """The foreman itself has not looked for so long, and what was said meanwhile is still to be read."""
        self._heard = min(self._heard + seconds, now)

    def told(self, seconds: float, now: float) -> None:
        """It has been told to end, and may take so long for its runs, and its grace for itself."""
        by = now + seconds + self.grace
        self._end_by = by if self._end_by is None else min(self._end_by, by)
        if not self._troubled:
            self._named = None
        self._enter("draining" if seconds else "stopping", now)

    def act(self, now: float) -> Act | None:
        """What is to be done now, each once. Whoever is named is killed a grace later, unless it has recovered."""
        if self.state == "starting" and now >= self.began + START:
            self.why = f"it has not started within {START:g} s"
            return "kill"
        if self._end_by is not None and now >= self._end_by:
            return self._name(f"it was told to end and has not{f'; {self._still()}' if self.stuck else ''}", now)
        if not self._troubled and self.state != "starting" and now >= self._heard + SILENT:
            self._fall("silent", f"nothing was heard of it for {now - self._heard:.1f} s", now)
        if self._troubled:
            return self._name(self.why, now)
        if self._stuck_since is not None and now >= self._stuck_since + self.grace and not self.ending:
            self.why = self._still()
            return "recycle"
        return None

    def _still(self) -> str:
        return f"given up and still at work: {', '.join(self.stuck)}"

    def _note_stuck(self, stuck: tuple[str, ...], now: float) -> None:
        self.stuck = stuck
        if not stuck:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now

    def _fall(self, state: Standing, why: str, now: float) -> None:
        self._troubled, self.why = True, why
        if not self.ending:
            self._enter(state, now)

    def _recover(self, now: float) -> None:
        self._troubled, self._named, self.why = False, None, ""
        if not self.ending:
            self._enter("running", now)

    def _enter(self, state: Standing, now: float) -> None:
        if self.state != state:
            self.state, self.since = state, now

    def _name(self, why: str, now: float) -> Act | None:
        self.why = why
        if self._named is None:
            self._named = now
            return "name"
        return "kill" if now >= self._named + self.grace else None
