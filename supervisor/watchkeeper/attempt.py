"""One attempt at a run: under which lease it is made, what those before it have left, and whether it is over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .engine import Lease
    from .obeying import Obedience
    from .recalling import Before
    from .recovery.past import Past

Broken = Literal["suspended", "fenced"]


class Attempt:
    """A run that outlives its process has several, one after the other, each with a handle of its own; any other run
    has this one, which ends with it.

    An attempt that is over before its run ends is broken off: what runs is cancelled, nothing that follows is kept, and
    another attempt goes on behind the last fact that was there. ``suspended``: it was given up. ``fenced``: another one
    has taken its place already.
    """

    def __init__(self) -> None:
        self.lease: Lease | None = None
        """Where the facts of a root are kept, if it may outlive the process."""
        self.before: Before | None = None
        """What the attempts before this one have left."""
        self.obedience: Obedience | None = None
        """Who takes the commands that come by the lease, once it has begun."""
        self.cleared: set[str] = set()
        """Keys of calls of which a tool has said that they did not happen, though one before had started them."""
        self.draining = False
        """It is to be suspended before its next turn, or as soon as its run rests."""
        self.broken: Broken | None = None
        """Why it is over without an end of the run, if it is."""
        self.unwritten = False
        """Its journal could not be written when that was last tried."""
        self._last = math.inf
        self.told_cancel = self.told_end = False
        """The log of an attempt that died has those facts of the end."""

    def take_up(self, past: Past) -> None:
        """Go on behind the facts of an attempt that died."""
        self.told_end, self.told_cancel = past.ending is not None, past.confirmed

    def may_break_off(self, why: Broken, *, ending: bool) -> bool:
        """Whether it can be over for this reason. A run that is ``ending`` ends with this attempt, for what is left of
        it is bounded; only where another one has taken its place does its end count no more."""
        return self.broken is None and (why == "fenced" or not ending)

    def break_off(self, why: Broken, n: int) -> None:
        """It is over, with fact number ``n`` as its last."""
        self.broken, self._last = why, n

    @property
    def is_fenced(self) -> bool:
        """Nothing of it becomes durable any more."""
        return self.broken == "fenced"

    def keeps(self, n: int) -> bool:
        """Whether fact number ``n`` counts: those behind the breaking off are nobody's business."""
        return n <= self._last

    def last(self, n: int) -> int:
        """Number of the last fact that counts in a log of ``n``."""
        return int(min(self._last, n))
